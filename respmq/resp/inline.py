"""Inline commands (typed by hand into telnet or nc): one line, words separated by blanks, Redis' quoting rules."""

from __future__ import annotations

import re

from respmq.errors import ProtocolError

_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
#: What stands between words, and (fewer, as in Redis) what ends a word without quotes.
_SPACE = b" \t\n\v\f\r"
_WORD_END = b" \t\n\r"

#: What browsers and web hooks send. Their bodies must not run as commands.
_HTTP = re.compile(rb"(?:POST\s|HOST:|[A-Z]+\s+\S+\s+HTTP/\d)", re.IGNORECASE)

_DOUBLE = re.compile(rb'\\x([0-9a-fA-F]{2})|\\(.)|([^"\\]+)', re.DOTALL)
_SINGLE = re.compile(rb"(\\')|([^'\\]+|\\)")


def split_inline(line: bytes) -> list[bytes]:
    """The words of an inline command.

    Raises:
        ProtocolError: quotes are unbalanced, or the line belongs to an HTTP request.
    """
    if _HTTP.match(line) is not None:
        msg = "this looks like HTTP, but the server speaks RESP: connect with a Redis client"
        raise ProtocolError(msg)
    # As in Redis, where the line is a C string.
    line = line.partition(b"\0")[0]
    words: list[bytes] = []
    i = 0
    while True:
        while i < len(line) and line[i] in _SPACE:
            i += 1
        if i == len(line):
            return words
        word, i = _word(line, i)
        words.append(word)


def _word(line: bytes, i: int) -> tuple[bytes, int]:
    parts: list[bytes] = []
    while i < len(line) and line[i] not in _WORD_END:
        char = line[i : i + 1]
        if char in (b'"', b"'"):
            part, i = _quoted(line, i + 1, char)
            parts.append(part)
            if i < len(line) and line[i] not in _SPACE:
                raise _unbalanced()
            break
        parts.append(char)
        i += 1
    return b"".join(parts), i


def _quoted(line: bytes, i: int, quote: bytes) -> tuple[bytes, int]:
    """The text from `i` to the closing quote, and the place after that quote."""
    parts: list[bytes] = []
    grammar = _DOUBLE if quote == b'"' else _SINGLE
    while i < len(line):
        if line[i : i + 1] == quote:
            return b"".join(parts), i + 1
        match = grammar.match(line, i)
        if match is None:
            break
        i = match.end()
        if grammar is _SINGLE:
            parts.append(b"'" if match[1] else match[2])
        elif match[1] is not None:
            parts.append(bytes([int(match[1], 16)]))
        elif match[2] is not None:
            parts.append(_ESCAPES.get(match[2], match[2]))
        else:
            parts.append(match[3])
    raise _unbalanced()


def _unbalanced() -> ProtocolError:
    return ProtocolError("unbalanced quotes in request")
