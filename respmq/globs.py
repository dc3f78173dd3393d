r"""Redis' glob patterns: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that stands for itself.

Each `*` but the last is matched as an atomic group, so that no pattern takes exponential time.
"""

from __future__ import annotations

import re
from functools import lru_cache

from respmq.errors import InvalidRequestError

#: What is matched is a name. Reading a pattern takes time for each of its bytes, and it is kept.
MAX_GLOB = 1024


@lru_cache(maxsize=256)
def _compile(pattern: bytes, flags: re.RegexFlag) -> re.Pattern[bytes]:
    segments: list[list[bytes]] = [[]]
    i = 0
    while i < len(pattern):
        char = pattern[i : i + 1]
        i += 1
        if char == b"*":
            segments.append([])
        elif char == b"?":
            segments[-1].append(b".")
        elif char == b"[":
            piece, i = _char_class(pattern, i)
            segments[-1].append(piece)
        else:
            if char == b"\\" and i < len(pattern):
                char = pattern[i : i + 1]
                i += 1
            segments[-1].append(re.escape(char))
    first, *rest = (b"".join(segment) for segment in segments)
    regex = first
    if rest:
        regex += b"".join(b"(?>.*?%b)" % segment for segment in rest[:-1] if segment) + b".*" + rest[-1]
    return re.compile(regex, flags | re.DOTALL)


def _char_class(pattern: bytes, i: int) -> tuple[bytes, int]:
    """The class that begins after `[` at `i`, as Redis reads it, and where it ends."""
    negate = pattern[i : i + 1] == b"^"
    i += negate
    allowed: set[int] = set()
    while i < len(pattern) and pattern[i : i + 1] != b"]":
        if pattern[i : i + 1] == b"\\" and i + 1 < len(pattern):
            i += 1
            allowed.add(pattern[i])
        elif i + 2 < len(pattern) and pattern[i + 1 : i + 2] == b"-":
            low, high = sorted((pattern[i], pattern[i + 2]))
            allowed.update(range(low, high + 1))
            i += 2
        else:
            allowed.add(pattern[i])
        i += 1
    escaped = b"".join(re.escape(bytes([c])) for c in sorted(allowed))
    if not escaped:
        return (b"." if negate else b"(?!)"), i + 1
    return b"[%b%b]" % (b"^" if negate else b"", escaped), i + 1


def glob_match(pattern: bytes, text: bytes, *, ignore_case: bool = False) -> bool:
    """Whether the whole of `text` matches `pattern`.

    Raises:
        InvalidRequestError: the pattern is too long.
    """
    if len(pattern) > MAX_GLOB:
        msg = f"the pattern is {len(pattern)} bytes long, at most {MAX_GLOB} are allowed"
        raise InvalidRequestError(msg)
    return _compile(pattern, re.IGNORECASE if ignore_case else re.NOFLAG).fullmatch(text) is not None
