"""Commands on consumers: QCONSUME to QCANCEL.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from respmq.calls import decode
from respmq.calls.call import Call, Words


def qconsume(queue: str, *, prefetch: int | None = None) -> Call[str]:
    """QCONSUME."""
    words = Words(b"QCONSUME")
    words.text("queue", queue)
    words.option_integer(b"PREFETCH", "prefetch", prefetch)
    words.option_word("FULL")
    return Call(words.done(), decode.text, resend=False)


def qcancel(tag: str) -> Call[int]:
    """Ends a consumer; its leases are given back as failures."""
    words = Words(b"QCANCEL")
    words.text("tag", tag)
    return Call(words.done(), decode.integer, resend=False)
