"""What goes over the wire for each target, and what the replies mean."""

from __future__ import annotations

import pytest

from respmq.bench.targets import TARGETS, ListsTarget, Mode, Replies, RespmqTarget, StreamsTarget, Target
from respmq.resp.reader import split_requests

LEASED = [[b"q", b"id1", b"t1", 1, b"x"], [b"q", b"id2", b"t22", 1, b"x"]]
ENTRIES = [[b"1-0", [b"b", b"x"]], [b"2-10", [b"b", b"x"]]]


def words(request: bytes) -> list[str]:
    """The commands in it, as one would type them."""
    requests, end = split_requests(request)
    assert end == len(request)
    return [b" ".join(one).decode() for one in requests]


@pytest.mark.parametrize(
    ("target", "mode", "put", "lease", "ack"),
    [
        (RespmqTarget(), Mode.SINGLE, ["QPUT q x"], ["QLEASE q"], ["QACK q t1"]),
        (
            RespmqTarget(),
            Mode.PIPELINED,
            ["QPUT q x", "QPUT q x"],
            ["QLEASE q", "QLEASE q"],
            ["QACK q t1", "QACK q t22"],
        ),
        (RespmqTarget(), Mode.BATCH, ["QMPUT q x x"], ["QLEASE q COUNT 2"], ["QACK q t1 t22"]),
        (
            StreamsTarget(),
            Mode.SINGLE,
            ["XADD q * b x"],
            ["XREADGROUP GROUP g w COUNT 1 STREAMS q >"],
            ["XACK q g t1", "XDEL q t1"],
        ),
        (
            StreamsTarget(),
            Mode.PIPELINED,
            ["XADD q * b x"] * 2,
            ["XREADGROUP GROUP g w COUNT 1 STREAMS q >"] * 2,
            ["XACK q g t1", "XACK q g t22", "XDEL q t1", "XDEL q t22"],
        ),
        (
            StreamsTarget(),
            Mode.BATCH,
            ["XADD q * b x"] * 2,
            ["XREADGROUP GROUP g w COUNT 2 STREAMS q >"],
            ["XACK q g t1 t22", "XDEL q t1 t22"],
        ),
        (
            ListsTarget(),
            Mode.SINGLE,
            ["LPUSH q x"],
            ["LMOVE q q:processing RIGHT LEFT"],
            ["LREM q:processing 1 x"],
        ),
        (
            ListsTarget(),
            Mode.PIPELINED,
            ["LPUSH q x"] * 2,
            ["LMOVE q q:processing RIGHT LEFT"] * 2,
            ["LREM q:processing 1 x"] * 2,
        ),
        (
            ListsTarget(),
            Mode.BATCH,
            ["LPUSH q x x"],
            ["LMOVE q q:processing RIGHT LEFT"] * 2,
            ["LREM q:processing 1 x"] * 2,
        ),
    ],
)
def test_requests(target: Target, mode: Mode, put: list[str], lease: list[str], ack: list[str]) -> None:
    jobs = 1 if mode is Mode.SINGLE else 2
    plan = target.plan(mode, "q", jobs, b"x")
    assert words(plan.put) == put
    assert plan.put_replies == len(put)
    assert words(plan.lease) == lease
    assert plan.lease_replies == len(lease)
    assert words(plan.ack([b"t1", b"t22"][:jobs])) == ack
    assert plan.ack_replies == len(ack)


@pytest.mark.parametrize(
    ("target", "mode", "replies", "tokens"),
    [
        (RespmqTarget(), Mode.PIPELINED, [[LEASED[0]], [LEASED[1]]], [b"t1", b"t22"]),
        (RespmqTarget(), Mode.PIPELINED, [[LEASED[0]], []], [b"t1"]),
        (RespmqTarget(), Mode.BATCH, [LEASED], [b"t1", b"t22"]),
        (StreamsTarget(), Mode.PIPELINED, [[[b"q", ENTRIES[:1]]], None], [b"1-0"]),
        (StreamsTarget(), Mode.BATCH, [[[b"q", ENTRIES]]], [b"1-0", b"2-10"]),
        (ListsTarget(), Mode.PIPELINED, [b"x", None], [b"x"]),
    ],
)
def test_what_was_leased(target: Target, mode: Mode, replies: Replies, tokens: list[bytes]) -> None:
    assert target.plan(mode, "q", 2, b"x").tokens(replies) == tokens


@pytest.mark.parametrize(
    ("target", "mode", "replies", "acked"),
    [
        (RespmqTarget(), Mode.PIPELINED, [1, 0], 1),
        (RespmqTarget(), Mode.BATCH, [2], 2),
        (StreamsTarget(), Mode.PIPELINED, [1, 1, 1, 0], 1),
        (StreamsTarget(), Mode.BATCH, [1, 2], 1),
        (ListsTarget(), Mode.BATCH, [1, 1], 2),
    ],
)
def test_what_was_acked(target: Target, mode: Mode, replies: Replies, acked: int) -> None:
    assert target.plan(mode, "q", 2, b"x").acked(replies) == acked


def test_a_body_may_be_any_bytes() -> None:
    for target in TARGETS:
        assert b"$4\r\n\r\n\0\xff\r\n" in target.plan(Mode.SINGLE, "q", 1, b"\r\n\0\xff").put


def test_respmq_comes_first() -> None:
    """The others are compared with it."""
    assert [target.key for target in TARGETS] == ["respmq", "streams", "lists"]
