"""How long the crash tests look: RESPMQ_CRASH_ROUNDS is how often a server is killed, RESPMQ_CRASH_EVERY=1 damages
every byte of a journal and not a sample of them.
"""

from __future__ import annotations

import os

ROUNDS = int(os.environ.get("RESPMQ_CRASH_ROUNDS", "5"))
EVERY = os.environ.get("RESPMQ_CRASH_EVERY", "") not in {"", "0"}
