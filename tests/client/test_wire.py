"""The client's side of the bytes, without a socket."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respmq import QueueNotFoundError
from respmq.client.wire import Push, Reply, Wire
from respmq.errors import ProtocolError

STREAM = (
    b"+OK\r\n"
    b">7\r\n$7\r\ndeliver\r\n$6\r\nctag-1\r\n$4\r\njobs\r\n$1\r\na\r\n$1\r\nt\r\n:1\r\n$4\r\nb\r\n\x00\r\n"
    b"-NOQUEUE no such queue 'q'\r\n"
    b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n,0.5\r\n"
    b">3\r\n$10\r\npsubscribe\r\n$1\r\n#\r\n:1\r\n"
    b">4\r\n$8\r\npmessage\r\n$1\r\n#\r\n$1\r\nt\r\n$0\r\n\r\n"
    b"*2\r\n_\r\n#f\r\n"
    b"*2\r\n:1\r\n-QUEUEFULL no room\r\n"
)


def read(chunks: list[bytes]) -> list[object]:
    """All that comes of a stream, errors by class and text."""
    wire: Wire[int] = Wire()
    for key in range(6):
        wire.send((b"PING",), key)
    found: list[object] = []
    for chunk in chunks:
        found += wire.receive(chunk)
    assert wire.unanswered() == []
    return found


def test_requests_are_bulk_strings() -> None:
    wire: Wire[str] = Wire()
    assert wire.send((b"QPUT", b"q", b"\r\n\x00"), "a") == b"*3\r\n$4\r\nQPUT\r\n$1\r\nq\r\n$3\r\n\r\n\x00\r\n"
    assert wire.send((b"PING",), "b") == b"*1\r\n$4\r\nPING\r\n"
    assert wire.unanswered() == ["a", "b"]


def test_replies_find_their_requests_and_pushes_stand_apart() -> None:
    ok, deliver, no_queue, mapping, subscribed, event, nothing, partly = read([STREAM])
    assert ok == Reply(0, b"OK")
    assert deliver == Push(b"deliver", [b"ctag-1", b"jobs", b"a", b"t", 1, b"b\r\n\x00"])
    assert isinstance(no_queue, Reply)
    assert no_queue.key == 1
    assert isinstance(no_queue.value, QueueNotFoundError)
    assert no_queue.value.text == "no such queue 'q'"
    assert mapping == Reply(2, {b"a": 1, b"b": 0.5})
    assert subscribed == Reply(3, [b"psubscribe", b"#", 1])
    assert event == Push(b"pmessage", [b"#", b"t", b""])
    assert nothing == Reply(4, [None, False])
    assert isinstance(partly, Reply)
    assert isinstance(partly.value, list)
    assert [str(item) for item in partly.value] == ["1", "no room"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_it_makes_no_difference_how_the_stream_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(places)]
    assert [repr(item) for item in read(chunks)] == [repr(item) for item in read([STREAM])]


def test_byte_by_byte() -> None:
    chunks = [STREAM[place : place + 1] for place in range(len(STREAM))]
    assert [repr(item) for item in read(chunks)] == [repr(item) for item in read([STREAM])]


def test_what_cannot_be_followed_is_an_error() -> None:
    for stream in (b"HTTP/1.1 400 Bad Request\r\n", b":one\r\n", b">1\r\n:1\r\n"):
        wire: Wire[int] = Wire()
        wire.send((b"PING",), 1)
        with pytest.raises(ProtocolError):
            wire.receive(stream)


def test_a_reply_that_nobody_asked_for_is_an_error() -> None:
    wire: Wire[int] = Wire()
    with pytest.raises(ProtocolError, match="a reply came that nobody asked for: b'OK'"):
        wire.receive(b"+OK\r\n")
