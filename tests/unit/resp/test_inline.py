"""Inline commands: Redis' quoting rules, and the refusal of HTTP."""

from __future__ import annotations

import pytest

from respmq.errors import ProtocolError
from respmq.resp.inline import split_inline


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b"   \t ", []),
        (b"PING", [b"PING"]),
        (b"  QPUT  q\tbody ", [b"QPUT", b"q", b"body"]),
        (b"QPUT q 'a b'", [b"QPUT", b"q", b"a b"]),
        (b'QPUT q "it\'s"', [b"QPUT", b"q", b"it's"]),
        (b"QPUT q 'it\\'s'", [b"QPUT", b"q", b"it's"]),
        (b"'a\\nb'", [b"a\\nb"]),
        (b"'a\\'", None),
        (b"'a\\\\'", None),
        (b"'a\\\\b'", [b"a\\\\b"]),
        (b'""', [b""]),
        (b"''", [b""]),
        (b'"\\n\\r\\t\\b\\a\\\\\\"\\q"', [b'\n\r\t\b\a\\"q']),
        (b'"\\x00\\xff\\x4a\\xAf"', [b"\x00\xffJ\xaf"]),
        (b'"\\x4"', [b"x4"]),
        (b'"\\xzz"', [b"xzz"]),
        (b"\\x41", [b"\\x41"]),
        (b'a"b c"', [b"ab c"]),
        (b"a'b'", [b"ab"]),
        (b"\xff\xfe x", [b"\xff\xfe", b"x"]),
        (b"a\x0bb c\x0cd", [b"a\x0bb", b"c\x0cd"]),
        (b"\x0ba\x0c", [b"a\x0c"]),
        (b"a\0b", [b"a"]),
        (b"a 'b'\0", [b"a", b"b"]),
        (b'"a\0b"', None),
        (b'"a', None),
        (b"'a", None),
        (b'"a"b', None),
        (b"'a'b", None),
        (b"'a''b'", None),
        (b'"a\\"', None),
        (b'"\\', None),
        (b"a b 'c", None),
    ],
)
def test_words(line: bytes, words: list[bytes] | None) -> None:
    if words is not None:
        assert split_inline(line) == words
        return
    with pytest.raises(ProtocolError, match="unbalanced quotes in request"):
        split_inline(line)


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"POST / HTTP/1.1",
        b"post /x",
        b"POST\t/",
        b"Host: localhost:6379",
        b"HOST:x",
        b"PUT /a/b HTTP/1.0",
        b"OPTIONS * HTTP/1.1",
        b"delete  /q   HTTP/2",
    ],
)
def test_http_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="HTTP"):
        split_inline(line)


@pytest.mark.parametrize(
    "line", [b"GET key", b"POSTING x", b"HOSTS", b"QPUT q HTTP/1.1x", b"QPUT q 'POST / HTTP/1.1'", b"ECHO Host:"]
)
def test_what_only_looks_like_http_is_not(line: bytes) -> None:
    if b"HTTP/1.1x" in line:
        with pytest.raises(ProtocolError):
            split_inline(line)
        return
    assert split_inline(line)


def test_a_long_line_of_quotes_takes_linear_time() -> None:
    """64 KiB is the longest line; each character is looked at a few times at most, whatever it is."""
    for text in (b"\\x4", b"\\", b"\\'", b"'", b'"', b" ", b"a"):
        for quote in (b"'", b'"', b""):
            try:
                split_inline(quote + text * (65_000 // len(text)) + quote)
            except ProtocolError as error:
                assert "unbalanced" in error.text  # noqa: PT017
