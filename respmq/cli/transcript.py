"""Commands and replies in redis-cli's notation: what somebody who types them would see.

Replies are as redis-py returns them, which does not tell a status from a string; a status is therefore marked.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Reply: TypeAlias = "bytes | int | list[Reply] | None"

_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r"}

#: Words that need no quotes.
_PLAIN = re.compile(r"[!#-&(-\[\]-~]+")


class Status(bytes):
    """A reply such as `OK`, which is shown without quotes."""

    __slots__ = ()


OK = Status(b"OK")


def show_command(words: tuple[str, ...]) -> str:
    """A command as it is typed."""
    return " ".join(word if _PLAIN.fullmatch(word) else _quoted(word.encode()) for word in words)


def show_reply(reply: Reply, indent: str = "") -> str:
    """A reply; `indent` goes before all of its lines but the first, which its parent has begun."""
    if isinstance(reply, list):
        if not reply:
            return "(empty array)"
        width = len(str(len(reply)))
        inner = indent + " " * (width + 2)
        shown = [f"{number:{width}}) {show_reply(item, inner)}" for number, item in enumerate(reply, 1)]
        return f"\n{indent}".join(shown)
    if reply is None:
        return "(nil)"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    return reply.decode("ascii", "replace") if isinstance(reply, Status) else _quoted(reply)


def _quoted(text: bytes) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (chr(c) if 32 <= c < 127 else f"\\x{c:02x}") for c in text) + '"'
