"""Answers to bytes: each kind in RESP2 and RESP3, byte for byte."""

from __future__ import annotations

import math

import pytest

from respmq.errors import InvalidRequestError, QueueNotFoundError
from respmq.resp import writer
from respmq.resp.values import Answer, ItemSet, Status, Statuses, Verbatim
from respmq.resp.writer import (
    encode2,
    encode3,
    encode_array,
    encode_bulk,
    encode_error,
    encode_integer,
    encode_push,
)


@pytest.mark.parametrize(
    ("value", "resp2", "resp3"),
    [
        (None, b"$-1\r\n", b"_\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (False, b":0\r\n", b"#f\r\n"),
        (0, b":0\r\n", b":0\r\n"),
        (-1, b":-1\r\n", b":-1\r\n"),
        (1023, b":1023\r\n", b":1023\r\n"),
        (1024, b":1024\r\n", b":1024\r\n"),
        (2**63 - 1, b":9223372036854775807\r\n", b":9223372036854775807\r\n"),
        (-(2**63), b":-9223372036854775808\r\n", b":-9223372036854775808\r\n"),
        (0.5, b"$3\r\n0.5\r\n", b",0.5\r\n"),
        (2.0, b"$1\r\n2\r\n", b",2\r\n"),
        (100.0, b"$3\r\n100\r\n", b",100\r\n"),
        (0.0, b"$1\r\n0\r\n", b",0\r\n"),
        (-1.25, b"$5\r\n-1.25\r\n", b",-1.25\r\n"),
        (0.1, b"$3\r\n0.1\r\n", b",0.1\r\n"),
        (1 / 3, b"$19\r\n0.33333333333333331\r\n", b",0.33333333333333331\r\n"),
        (math.inf, b"$3\r\ninf\r\n", b",inf\r\n"),
        (-math.inf, b"$4\r\n-inf\r\n", b",-inf\r\n"),
        (b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
        (b"a\r\nb\x00\xff", b"$6\r\na\r\nb\x00\xff\r\n", b"$6\r\na\r\nb\x00\xff\r\n"),
        ("text", b"$4\r\ntext\r\n", b"$4\r\ntext\r\n"),
        ("\N{EURO SIGN}", b"$3\r\n\xe2\x82\xac\r\n", b"$3\r\n\xe2\x82\xac\r\n"),
        (Status("OK"), b"+OK\r\n", b"+OK\r\n"),
        (Verbatim("a\nb"), b"$3\r\na\nb\r\n", b"=7\r\ntxt:a\nb\r\n"),
        (Statuses(("write", "fast")), b"*2\r\n+write\r\n+fast\r\n", b"~2\r\n+write\r\n+fast\r\n"),
        (Statuses(()), b"*0\r\n", b"~0\r\n"),
        (ItemSet((b"a", 1)), b"*2\r\n$1\r\na\r\n:1\r\n", b"~2\r\n$1\r\na\r\n:1\r\n"),
        ([], b"*0\r\n", b"*0\r\n"),
        ((), b"*0\r\n", b"*0\r\n"),
        ([b"a", None, [1]], b"*3\r\n$1\r\na\r\n$-1\r\n*1\r\n:1\r\n", b"*3\r\n$1\r\na\r\n_\r\n*1\r\n:1\r\n"),
        ({}, b"*0\r\n", b"%0\r\n"),
        ({"a": 1, "b": None}, b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n$-1\r\n", b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n_\r\n"),
        (
            {b"\xff": {"x": True}},
            b"*2\r\n$1\r\n\xff\r\n*2\r\n$1\r\nx\r\n:1\r\n",
            b"%1\r\n$1\r\n\xff\r\n%1\r\n$1\r\nx\r\n#t\r\n",
        ),
        (InvalidRequestError("no"), b"-ERR no\r\n", b"-ERR no\r\n"),
        (
            [QueueNotFoundError.named(b"q")],
            b"*1\r\n-NOQUEUE no such queue 'q'\r\n",
            b"*1\r\n-NOQUEUE no such queue 'q'\r\n",
        ),
    ],
)
def test_each_kind(value: Answer, resp2: bytes, resp3: bytes) -> None:
    assert encode2(value) == resp2
    assert encode3(value) == resp3


def test_the_parts() -> None:
    assert writer.OK == b"+OK\r\n"
    assert encode_integer(5) == b":5\r\n"
    assert encode_integer(5_000) == b":5000\r\n"
    assert encode_bulk(b"a\r\n") == b"$3\r\na\r\n\r\n"
    assert encode_error(InvalidRequestError("x")) == b"-ERR x\r\n"
    assert encode_array([b"a", {"k": None}]) == b"*2\r\n$1\r\na\r\n*2\r\n$1\r\nk\r\n$-1\r\n"
    assert encode_push([b"a", None, {"k": 1}]) == b">3\r\n$1\r\na\r\n_\r\n%1\r\n$1\r\nk\r\n:1\r\n"


def test_what_a_user_sent_cannot_break_an_error_line() -> None:
    for name in (b"a\r\nb", b"\n", b"\xff\x00", b"x" * 1000, "\u2028\u0085".encode()):
        line = encode_error(QueueNotFoundError.named(name))
        assert line.startswith(b"-NOQUEUE no such queue '")
        assert line.endswith(b"'\r\n")
        assert line[:-2].decode("ascii").isprintable()
        assert len(line) < 300
