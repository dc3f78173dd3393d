"""Random streams of requests: what comes out doesn't depend on how they were cut, and is what a slow parser finds.

The reader may not hold more than it was given, and its work grows with the number of bytes, not faster.
"""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from respmq.errors import ProtocolError
from respmq.resp.limits import BEFORE_LOGIN, Limits
from respmq.resp.reader import FastParser, RequestReader, encode_request
from tests.property.effort import examples
from tests.property.reference_reader import read_all

FAST = FastParser()
LIMITS = Limits()

#: Arguments that look like something else on the wire, or end like a line.
BODIES = st.binary(max_size=12) | st.sampled_from(
    [
        *(
            b"",
            b"x",
            b"\r\n",
            b"a\r",
            b"\nb",
            b"\r",
            b"*3\r\n$1\r\nx\r\n",
            b"=x",
            b"\n=y",
            b"+OK\r\n",
            b"1234567",
            b"#f",
        ),
        *(
            b"x" * 300,
            b"\r\n$5\r\n",
            b"\n*1000000",
            b"\r\n*1000000\r\n",
            b"%2",
            b"\n~1\r\n",
            b"respmq-end-of-piece-\r\n\xff",
        ),
    ]
)

#: What a stream of requests may not have in it, or only in places.
ODDITIES = [
    *(
        b"*0\r\n",
        b"*-1\r\n",
        b"*-5\r\n",
        b"*01\r\n",
        b"*+1\r\n",
        b"* 1\r\n",
        b"*1\n",
        b"*\r\n",
        b"*1000001\r\n",
        b"*1_0\r\n",
    ),
    *(b"*1048577\r\n", b"*99999999999999999999\r\n", b"*" + b"1" * 40 + b"\r\n", b"*2\r\n", b"*1\r\n*1\r\n$1\r\nx\r\n"),
    *(
        b"$-1\r\n",
        b"$536870913\r\n",
        b"$01\r\nx\r\n",
        b"$+1\r\nx\r\n",
        b"$1\r\nxy\r\n",
        b"$2\r\nabXY",
        b"$1\r\nx\n\r",
        b"$5\n",
    ),
    *(b"+OK\r\n", b"-ERR x\r\n", b":1\r\n", b"_\r\n", b"#t\r\n", b"#f\r\n", b",1.5\r\n", b"(123\r\n", b"!3\r\nabc\r\n"),
    *(b"=7\r\ntxt:abc\r\n", b"%1\r\n+a\r\n+b\r\n", b"~1\r\n+a\r\n", b">1\r\n+a\r\n", b"|1\r\n+a\r\n+b\r\n", b"|0\r\n"),
    *(
        b"*1\r\n+OK\r\n",
        b"*1\r\n:1\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n*0\r\n",
        b"*1\r\n=5\r\ntxt:a\r\n",
        b"*1\r\n~1\r\n+a\r\n",
    ),
    *(b"*1\r\n%1\r\n*0\r\n+b\r\n", b"*2\r\n|1\r\n+a\r\n+b\r\n$1\r\nx\r\n$1\r\ny\r\n", b"*1\r\n>1\r\n$1\r\nx\r\n"),
    *(b"*1\r\n$4\r\nPING\r\r", b"*1\r\n$1\r\n\r\r\n", b"*100000\r\n", b"*200000000\r\n", b"*1\r\n*200000000\r\n"),
]
INLINE = [
    *(
        b"PING\r\n",
        b"PING\n",
        b"\r\n",
        b"\n",
        b"  \t \n",
        b"a 'b c'\r\n",
        b'say "a\\x00\\n\\"" x\n',
        b"'it\\'s'\n",
        b'"' + b"\n",
    ),
    *(b"'a'b\n", b'"a"b\n', b'a"b"\n', b'"\\x4"\n', b'"\\', b"a\x0bb\x0c c\n", b"'a'\x0bb\n", b"\xff\xfe\n", b"a\rb\n"),
]
REQUESTS = st.lists(BODIES, min_size=1, max_size=5).map(encode_request)
PARTS = REQUESTS | REQUESTS | st.sampled_from(INLINE) | st.sampled_from(ODDITIES)
EDITS = st.tuples(
    st.integers(0, 2),
    st.integers(0, 400),
    st.sampled_from(
        [*(bytes([c]) for c in b"\r\n*$+:-=_#,(!~%>|0123456789x"), b"\r\n", b"$-1\r\n", b"+x\r\n", b"*1\r\n"]
    ),
)


def edited(stream: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """`stream` with some bytes replaced, taken out or put in."""
    for kind, place, text in edits:
        at = place % (len(stream) + 1)
        stream = stream[:at] + (b"", text, text)[kind] + stream[at + (1, 1, 0)[kind] :]
    return stream


STREAMS = st.builds(
    edited, st.lists(PARTS, min_size=1, max_size=8).map(b"".join), st.lists(EDITS, max_size=2) | st.just([])
)


def play(
    chunks: list[bytes],
    after: int | None = None,
    look: Callable[[int, list[list[bytes]], str | None], None] | None = None,
) -> tuple[list[list[bytes]], str | None]:
    """Read `chunks` as a session does; the client logs in with request number `after`. `look` is called after each."""
    reader = RequestReader(FAST, LIMITS if after is None else BEFORE_LOGIN)
    found: list[list[bytes]] = []
    size = 0
    error: str | None = None
    for chunk in chunks:
        size += len(chunk)
        try:
            got = reader.read(chunk)
            while got:
                found += got
                if len(found) == after:
                    reader.set_limits(LIMITS)
                got = reader.read()
        except ProtocolError as raised:
            error = raised.text
        # Room for what is being read: not much more than has arrived.
        assert reader.held <= size
        if look is not None:
            look(size, found, error)
        if error is not None:
            break
    return found, error


def check(stream: bytes, chunks: list[bytes], after: int | None = None) -> tuple[list[list[bytes]], str | None]:
    """What comes out is right after each piece, so that nothing is found late."""
    limits = [LIMITS] if after is None else [*[BEFORE_LOGIN] * after, LIMITS]

    def look(size: int, found: list[list[bytes]], error: str | None) -> None:
        wanted, fault = read_all(stream[:size], limits)
        assert found == wanted
        assert (error is None) == (fault is None), (error, fault)
        assert error is None or error.startswith(f"Protocol error: {fault}"), (error, fault)

    return play(chunks, after, look)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(stream) + 1) for place in places} | {0, len(stream)})
    return [stream[a:b] for a, b in itertools.pairwise(ends)]


@settings(max_examples=examples(1500), deadline=None)
@given(stream=STREAMS, places=st.lists(st.integers(0, 2000), max_size=4))
@example(stream=b"*1\r\n$4\r\nPING\r\r*1\r\n$4\r\nPING\r\n", places=[])
@example(stream=b"*2\r\n$4\r\nPING\r\n$-5\r\n", places=[14])
@example(stream=b"PING\nPING\n*1\r\n$4\r\nPING\r\n", places=[])
def test_the_same_requests_and_the_same_error_however_a_stream_is_cut(stream: bytes, places: list[int]) -> None:
    whole = check(stream, [stream])
    assert check(stream, cut(stream, places)) == whole
    bytewise = [stream[i : i + 1] for i in range(len(stream))]
    assert (check if len(stream) < 200 else lambda _, chunks: play(chunks))(stream, bytewise) == whole


@settings(max_examples=examples(400), deadline=None)
@given(streams=st.lists(STREAMS, min_size=2, max_size=30), places=st.lists(st.integers(0, 20000), max_size=6))
def test_long_streams(streams: list[bytes], places: list[int]) -> None:
    """Long enough for each of the ways in which a piece may be parsed, and to change between them."""
    stream = b"".join(streams)
    whole = check(stream, [stream])
    assert check(stream, cut(stream, places)) == whole


@settings(max_examples=examples(400), deadline=None)
@given(stream=STREAMS, after=st.integers(1, 4), places=st.lists(st.integers(0, 2000), max_size=4))
def test_login_in_the_middle(stream: bytes, after: int, places: list[int]) -> None:
    """The narrow limits hold up to the request that logs in, the others from there on, in one piece or many."""
    many = encode_request([b"x"] * 11) + encode_request([b"y" * 16 * 1024]) + encode_request([b"z" * (16 * 1024 + 1)])
    for whole_stream in (stream, stream + many):
        whole = check(whole_stream, [whole_stream], after)
        assert check(whole_stream, cut(whole_stream, places), after) == whole


@pytest.mark.parametrize("oddity", [*ODDITIES, *INLINE])
def test_each_oddity_between_requests_cut_everywhere(oddity: bytes) -> None:
    around = encode_request([b"QPUT", b"q", b"a\r\nb"])
    for stream in (oddity + around, around + oddity + around, b"PING\r\n" + oddity + around, around * 12 + oddity):
        whole = check(stream, [stream])
        for place in range(1, len(stream)):
            assert check(stream, [stream[:place], stream[place:]]) == whole
        assert check(stream, [stream[i : i + 1] for i in range(len(stream))]) == whole


# -- Limits


@pytest.mark.parametrize(
    ("stream", "fault"),
    [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*1000000\r\n", "unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "unauthenticated bulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$536870912\r\n", "unauthenticated bulk length"),
    ],
)
def test_before_login_a_header_above_the_limit_ends_it(stream: bytes, fault: str) -> None:
    for chunks in ([stream], [stream[i : i + 1] for i in range(len(stream))]):
        assert play(chunks, after=99)[1] == f"Protocol error: {fault}"


def test_before_login_what_is_within_the_limits_is_read() -> None:
    request = [b"x" * 16 * 1024] * 10
    assert play([encode_request(request)], after=99) == ([request], None)


@pytest.mark.parametrize("before_login", [True, False])
@pytest.mark.parametrize(
    ("stream", "most"),
    [
        (b"x" * (64 * 1024 + 1), "too big inline request"),
        (b"*" + b"1" * 31, "too big mbulk count string"),
        (b"*1\r\n$" + b"1" * 31, "too big bulk count string"),
    ],
)
def test_a_line_without_end_is_not_waited_for(stream: bytes, most: str, before_login: bool) -> None:
    after = 99 if before_login else None
    assert play([stream[:-1]], after) == ([], None)
    for chunks in ([stream], cut(stream, list(range(0, len(stream), 1000)))):
        assert play(chunks, after) == ([], f"Protocol error: {most}")


def test_after_login_the_limits_are_those_that_were_set() -> None:
    limits = Limits(arguments=3, bulk=1 << 20, request=(1 << 20) + 10)
    big = b"x" * (1 << 20)
    for arguments, fault in (
        ([b"a"] * 4, "invalid multibulk length"),
        ([big + b"x"], "invalid bulk length"),
        ([b"a", big, b"b" * 10], "the request is above"),
    ):
        reader = RequestReader(FAST, limits)
        stream = encode_request(arguments)
        with pytest.raises(ProtocolError, match=fault):  # noqa: PT012
            for place in range(0, len(stream), 4096):
                reader.read(stream[place : place + 4096] if len(stream) > 4096 else stream[place : place + 5])
    assert RequestReader(FAST, limits).read(encode_request([b"a", big])) == [[b"a", big]]


# -- Memory and time


@pytest.mark.parametrize(
    "stream",
    [
        b"*200000000\r\n",
        b"*1048576\r\n",
        b"*2\r\n$536870912\r\n",
        b"*1\r\n*200000000\r\n",
        encode_request([b"PING"]) * 40 + b"*200000000\r\n",
        encode_request([b"PING"]) * 40 + b"*99999\r\n*99999\r\n*99999\r\n",
        encode_request([b"a\r\nb"]) + b"*200000000\r\n",
        b"*1\r\n>200000000\r\n",
        b"*1\r\n~200000000\r\n",
        b"*1\r\n%200000000\r\n",
        b"*99999\r\n" + b"*99999\r\n" * 6,
    ],
)
def test_a_header_reserves_nothing(stream: bytes) -> None:
    play([stream])
    tracemalloc.start()
    try:
        play([stream])
        play([stream[i : i + 1] for i in range(len(stream))])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000


def test_an_error_stays_and_holds_nothing_that_comes_after_it() -> None:
    reader = RequestReader(FAST, LIMITS)
    first: list[str] = []
    for _ in range(3):
        with pytest.raises(ProtocolError) as caught:
            reader.read(b"*1\r\n:1\r\n")
        first.append(caught.value.text)
    assert first == ["Protocol error: expected '$', got ':'"] * 3


def pipeline(n: int) -> list[bytes]:
    return [encode_request([b"QPUT", b"queue", b"a body of some length"]) * n]


def pipeline_with_line_ends(n: int) -> list[bytes]:
    return [encode_request([b"QPUT", b"queue", b"a body\r\nwith lines"]) * n]


def lines(n: int) -> list[bytes]:
    return [b"PING hello\r\n" * n]


def mixed(n: int) -> list[bytes]:
    return [(b"PING\r\n" + encode_request([b"PING"])) * n]


def doubtful(n: int) -> list[bytes]:
    return [encode_request([b"QPUT", b"queue", b"\n*1000000 \r\n"]) * n]


def one_bulk(n: int) -> list[bytes]:
    return [b"*1\r\n$%d\r\n" % (n * 100), *[b"x" * 100] * n, b"\r\n"]


def many_arguments(n: int) -> list[bytes]:
    return [encode_request([b"argument\r\n"] * n)]


def empty_lines(n: int) -> list[bytes]:
    return [b"\r\n" * n]


PIPES = [pipeline, pipeline_with_line_ends, lines, mixed, doubtful, one_bulk, many_arguments, empty_lines]


@pytest.mark.parametrize("size", [1 << 30, 1000, 50])
@pytest.mark.parametrize("make", PIPES)
def test_time_grows_with_the_number_of_bytes(make: Callable[[int], list[bytes]], size: int) -> None:
    """Eight times as much takes about eight times as long; if all were shifted or looked at again, 64 times."""

    def chunks(n: int) -> list[bytes]:
        stream = b"".join(make(n))
        return [stream[i : i + size] for i in range(0, len(stream), size)]

    def cost(chunks: list[bytes]) -> float:
        began = time.process_time()
        play(chunks)
        return time.process_time() - began

    small, large = chunks(2_000), chunks(16_000)
    cost(small)
    assert min(cost(large) for _ in range(3)) < 25 * max(min(cost(small) for _ in range(5)), 0.0005)
