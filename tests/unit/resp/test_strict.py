"""The exact reader: every way in which a stream can be wrong, with the text of its error, as soon as it can be seen."""

from __future__ import annotations

import pytest

from respmq.errors import ProtocolError
from respmq.resp.limits import BEFORE_LOGIN, Limits
from respmq.resp.strict import StrictReader


def read(reader: StrictReader, data: bytes) -> list[list[bytes]]:
    reader.feed(data)
    return list(iter(reader.next, None))


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"*x\r\n", "invalid multibulk length 'x'"),
        (b"*\r\n", "invalid multibulk length ''"),
        (b"*1\n", "invalid multibulk length '1'"),
        (b"*01\r\n", "invalid multibulk length '01'"),
        (b"*+1\r\n", "invalid multibulk length '+1'"),
        (b"* 1\r\n", "invalid multibulk length ' 1'"),
        (b"*-0\r\n", "invalid multibulk length '-0'"),
        (b"*1000000000000000000000\r\n", "invalid multibulk length '1000000000000000000000'"),
        (b"*1048577\r\n", "invalid multibulk length: 1048577 arguments, at most 1048576 are allowed"),
        (b"*" + b"1" * 31, "too big mbulk count string"),
        (b"*1\r\n:", "expected '$', got ':'"),
        (b"*1\r\n\xff", "expected '$', got '\\xff'"),
        (b"*1\r\n*", "expected '$', got '*'"),
        (b"*1\r\n\r", "expected '$', got '\\x0d'"),
        (b"*1\r\n$x\r\n", "invalid bulk length 'x'"),
        (b"*1\r\n$1\n", "invalid bulk length '1'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length: -1, 0 to 536870912 (proto-max-bulk-len) is allowed"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length: 536870913, 0 to 536870912 (proto-max-bulk-len) is allowed"),
        (b"*1\r\n$" + b"1" * 31, "too big bulk count string"),
        (b"*1\r\n$2\r\nabc", "expected CR LF after a bulk of 2 bytes"),
        (b"*1\r\n$2\r\nab\rx", "expected CR LF after a bulk of 2 bytes"),
        (b"*1\r\n$0\r\n\n", "expected CR LF after a bulk of 0 bytes"),
        (b"'a\r\n", "unbalanced quotes in request"),
        (b"x" * 65_537, "too big inline request"),
        (b"GET / HTTP/1.1\r\n", "this looks like HTTP, but the server speaks RESP: connect with a Redis client"),
    ],
)
def test_what_cannot_be_followed(stream: bytes, text: str) -> None:
    """The error comes with the last byte of `stream`, and not with the one before."""
    reader = StrictReader(Limits())
    assert read(reader, stream[:-1]) == []
    reader.feed(stream[-1:])
    with pytest.raises(ProtocolError) as caught:
        reader.next()
    assert caught.value.text == f"Protocol error: {text}"


def test_empty_requests_are_skipped() -> None:
    reader = StrictReader(Limits())
    assert read(reader, b"*0\r\n\r\n*-1\r\n  \r\n*1\r\n$4\r\nPING\r\n") == [[b"PING"]]
    assert reader.held == 0
    assert not reader.in_request


def test_what_is_held_is_what_has_arrived() -> None:
    reader = StrictReader(Limits())
    stream = b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n"
    for count in range(1, len(stream)):
        assert read(reader, stream[count - 1 : count]) == []
        assert reader.held <= count
        assert reader.in_request
    assert read(reader, stream[-1:]) == [[b"ECHO", b"hello"]]
    assert reader.held == 0


def test_the_sum_of_the_arguments_is_limited() -> None:
    limits = Limits(bulk=100, request=150)
    assert read(StrictReader(limits), b"*2\r\n$100\r\n" + b"x" * 100 + b"\r\n$50\r\n" + b"x" * 50 + b"\r\n")
    reader = StrictReader(limits)
    reader.feed(b"*2\r\n$100\r\n" + b"x" * 100 + b"\r\n$51\r\n")
    with pytest.raises(ProtocolError, match=r"the request is above 150 bytes \(client-query-buffer-limit\)"):
        reader.next()


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ],
)
def test_before_login(stream: bytes, text: str) -> None:
    reader = StrictReader(BEFORE_LOGIN)
    reader.feed(stream)
    with pytest.raises(ProtocolError) as caught:
        reader.next()
    assert caught.value.text == f"Protocol error: {text}"
