from __future__ import annotations

import pytest

from conformance.resp import BadReply, Incomplete, Reply, encode_command, parse_reply, show

WHOLE = [
    (b"+OK\r\n", Reply("+", b"OK")),
    (b"-ERR no\r\n", Reply("-", b"ERR no")),
    (b":-5\r\n", Reply(":", -5)),
    (b"$3\r\na\r\n\r\n", Reply("$", b"a\r\n")),
    (b"$-1\r\n", Reply("_", None)),
    (b"*-1\r\n", Reply("_", None)),
    (b"_\r\n", Reply("_", None)),
    (b",1.5\r\n", Reply(",", b"1.5")),
    (b"#t\r\n", Reply("#", value=True)),
    (b"=8\r\ntxt:abcd\r\n", Reply("=", b"txt:abcd")),
    (b"*2\r\n:1\r\n*0\r\n", Reply("*", [Reply(":", 1), Reply("*", [])])),
    (b"~1\r\n+a\r\n", Reply("~", [Reply("+", b"a")])),
    (b">1\r\n+a\r\n", Reply(">", [Reply("+", b"a")])),
    (b"%1\r\n+a\r\n:1\r\n", Reply("%", [(Reply("+", b"a"), Reply(":", 1))])),
]


@pytest.mark.parametrize(("data", "reply"), WHOLE)
def test_replies(data: bytes, reply: Reply) -> None:
    assert parse_reply(data + b"rest") == (reply, len(data))
    assert parse_reply(data)[0].raw == data
    assert show(parse_reply(data)[0])


@pytest.mark.parametrize("data", [data for data, _ in WHOLE])
def test_every_beginning_is_incomplete(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(Incomplete):
            parse_reply(data[:size])


@pytest.mark.parametrize(
    "data",
    [b"x\r\n", b"\r\n", b":1x\r\n", b":\r\n", b"$3\r\nabcde", b"$-2\r\n", b"*-2\r\n", b"%-1\r\n", b"#x\r\n", b"_x\r\n"],
)
def test_what_is_no_reply(data: bytes) -> None:
    with pytest.raises(BadReply):
        parse_reply(data)


def test_a_line_without_end_is_no_reply() -> None:
    with pytest.raises(BadReply):
        parse_reply(b"+" + b"x" * 70_000)


def test_commands() -> None:
    assert encode_command([b"ECHO", b"\r\n", b""]) == b"*3\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n$0\r\n\r\n"
