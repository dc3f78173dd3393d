"""What a request may be at most."""

from __future__ import annotations

from dataclasses import dataclass

#: An inline command's line, as in Redis.
MAX_INLINE = 64 * 1024

#: A header line (`*3`, `$100`) can't be longer than this and still be a number.
MAX_HEADER = 32


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request: arguments, bytes of one argument, bytes in all."""

    arguments: int = 1_048_576
    bulk: int = 512 * 1024 * 1024
    request: int = 1024 * 1024 * 1024
    #: Whether these are the narrow ones that hold before the client has logged in.
    before_login: bool = False


#: Nobody who hasn't logged in can make the server hold more than this.
BEFORE_LOGIN = Limits(arguments=10, bulk=16 * 1024, request=256 * 1024, before_login=True)
