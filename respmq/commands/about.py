"""What the server says that it is."""

from __future__ import annotations

from typing import Final

NAME: Final = "respmq"

#: The version of Redis whose commands and replies are spoken. Client libraries compare it, so it has to be numeric.
REDIS_VERSION: Final = "7.2.0"
