from __future__ import annotations

import pytest

from conformance.expect import Context, check, validate
from conformance.resp import parse_reply
from conformance.text import Clock, VectorError

CLOCK = Clock(lambda: 1_000_000, tolerance_ms=2)


def wrong(expected: object, data: bytes, protocol: int = 2, names: dict[str, bytes] | None = None) -> str | None:
    """What `check` finds wrong with a reply, which is given as its bytes."""
    validate(expected)
    return check(expected, parse_reply(data)[0], Context(protocol, {} if names is None else names, CLOCK))


RIGHT: list[tuple[object, bytes, int]] = [
    ("+OK", b"+OK\r\n", 2),
    ("-ERR no", b"-ERR no\r\n", 2),
    ("-ERR no", b"-ERR no, and why\r\n", 2),
    (":5", b":5\r\n", 2),
    ("$a", b"$1\r\na\r\n", 2),
    ("_", b"$-1\r\n", 2),
    ("_", b"*-1\r\n", 2),
    ("_", b"_\r\n", 3),
    (",1.5", b",1.5\r\n", 3),
    (",1.5", b"$3\r\n1.5\r\n", 2),
    ("#t", b"#t\r\n", 3),
    ("#t", b":1\r\n", 2),
    ("=abc", b"=7\r\ntxt:abc\r\n", 3),
    ("=abc", b"$3\r\nabc\r\n", 2),
    ("~1.5", b"$3\r\n1.5\r\n", 2),
    ("~1", b":1\r\n", 3),
    ("~1..2", b",1.5\r\n", 3),
    ("?", b":1\r\n", 2),
    ([], b"*0\r\n", 2),
    ([":1", ["+a"]], b"*2\r\n:1\r\n*1\r\n+a\r\n", 2),
    ({"map": {"a": ":1"}}, b"%1\r\n$1\r\na\r\n:1\r\n", 3),
    ({"map": {"a": ":1", "b": ":2"}}, b"*4\r\n$1\r\nb\r\n:2\r\n$1\r\na\r\n:1\r\n", 2),
    ({"map": {}}, b"*0\r\n", 2),
    ({"map_has": {"a": ":1"}}, b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:1\r\n", 3),
    ({"set": ["+b", "+a"]}, b"~2\r\n+a\r\n+b\r\n", 3),
    ({"set": ["+b", "+a"]}, b"*2\r\n+a\r\n+b\r\n", 2),
    ({"set_has": ["+b"]}, b"~2\r\n+a\r\n+b\r\n", 3),
    ({"array_has": ["+b"], "lacks": ["+c"]}, b"*2\r\n+a\r\n+b\r\n", 3),
    ({"each": ":<int>", "len": 2}, b"*2\r\n:1\r\n:2\r\n", 3),
    ({"each": ":<int>", "len": "1..2"}, b"*2\r\n:1\r\n:2\r\n", 3),
    ({"push": ["$a"]}, b">1\r\n$1\r\na\r\n", 3),
    ({"push": ["$a"]}, b"*1\r\n$1\r\na\r\n", 2),
    ({"error": "ERR"}, b"-ERR\r\n", 2),
    ({"error": "ERR", "has": ["wait", "a|b"], "lacks": ["word"]}, b"-ERR WAIT: b, and words\r\n", 2),
    ({"text_has": ["a=<int>"], "lacks": ["c="]}, b"=12\r\ntxt:a=1 b=2 \r\n", 3),
    ({"one_of": ["_", "$"]}, b"$0\r\n\r\n", 2),
]


@pytest.mark.parametrize(("expected", "data", "protocol"), RIGHT)
def test_right_replies(expected: object, data: bytes, protocol: int) -> None:
    assert wrong(expected, data, protocol) is None


WRONG: list[tuple[object, bytes, int]] = [
    ("+OK", b"$2\r\nOK\r\n", 2),
    ("+OK", b"+OKAY\r\n", 2),
    ("+OK", b"-ERR OK\r\n", 2),
    ("-ERR no", b"-ERR\r\n", 2),
    (":5", b":6\r\n", 2),
    (":5", b"$1\r\n5\r\n", 2),
    ("$a", b"+a\r\n", 2),
    ("_", b"_\r\n", 2),
    ("_", b"$-1\r\n", 3),
    ("_", b"*0\r\n", 2),
    ("$", b"$-1\r\n", 2),
    (",1.5", b"$3\r\n1.5\r\n", 3),
    ("#t", b":1\r\n", 3),
    ("#t", b":0\r\n", 2),
    ("=abc", b"$3\r\nabc\r\n", 3),
    ("=abc", b"=7\r\nmkd:abc\r\n", 3),
    ("~1", b"$1\r\nx\r\n", 2),
    ("~1..2", b":3\r\n", 2),
    ([], b"*1\r\n:1\r\n", 2),
    ([], b"*-1\r\n", 2),
    ([], b"_\r\n", 3),
    ([":1"], b"*1\r\n:2\r\n", 2),
    ([":1"], b"~1\r\n:1\r\n", 3),
    ({"map": {"a": ":1"}}, b"*2\r\n$1\r\na\r\n:1\r\n", 3),
    ({"map": {"a": ":1"}}, b"%1\r\n$1\r\na\r\n:1\r\n", 2),
    ({"map": {"a": ":1"}}, b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:1\r\n", 3),
    ({"map": {"a": ":1"}}, b"*3\r\n$1\r\na\r\n:1\r\n:2\r\n", 2),
    ({"map_has": {"a": ":1"}}, b"%2\r\n$1\r\na\r\n:1\r\n$1\r\na\r\n:1\r\n", 3),
    ({"map_has": {"b": ":1"}}, b"%1\r\n$1\r\na\r\n:1\r\n", 3),
    ({"set": ["+a"]}, b"*1\r\n+a\r\n", 3),
    ({"set": ["+a"]}, b"~2\r\n+a\r\n+b\r\n", 3),
    ({"set_has": ["+c"]}, b"~2\r\n+a\r\n+b\r\n", 3),
    ({"array_has": ["+c"]}, b"*1\r\n+a\r\n", 2),
    ({"array_has": [], "lacks": ["+a"]}, b"*1\r\n+a\r\n", 2),
    ({"each": ":<int>", "len": 3}, b"*2\r\n:1\r\n:2\r\n", 2),
    ({"each": ":<int>"}, b"*2\r\n:1\r\n+a\r\n", 2),
    ({"push": ["$a"]}, b"*1\r\n$1\r\na\r\n", 3),
    ({"error": "ERR"}, b"-ERROR no\r\n", 2),
    ({"error": "ERR"}, b"+ERR\r\n", 2),
    ({"error": "ERR"}, b"-err no\r\n", 2),
    ({"error": "ERR", "has": ["WAIT"]}, b"-ERR LEASE\r\n", 2),
    ({"error": "ERR", "lacks": ["wait"]}, b"-ERR bad WAIT, or so\r\n", 2),
    ({"text_has": ["a=<int>"]}, b"$3\r\na=x\r\n", 2),
    ({"text_has": [], "lacks": ["a="]}, b"$3\r\na=1\r\n", 2),
    ({"one_of": ["_", "$"]}, b"$1\r\nx\r\n", 2),
]


@pytest.mark.parametrize(("expected", "data", "protocol"), WRONG)
def test_wrong_replies(expected: object, data: bytes, protocol: int) -> None:
    assert wrong(expected, data, protocol)


def test_captures_and_placeholders() -> None:
    names: dict[str, bytes] = {}
    assert wrong(["$<some as lease>"], b"*1\r\n$2\r\nt1\r\n", names=names) is None
    assert names == {"lease": b"t1"}
    assert wrong({"map": {"{lease}": "${lease}"}}, b"*2\r\n$2\r\nt1\r\n$2\r\nt1\r\n", names=names) is None
    assert wrong({"error": "ERR", "has": ["{lease}"]}, b"-ERR no T1\r\n", names=names) is None
    assert wrong("${lease}", b"$2\r\nt2\r\n", names=names)


@pytest.mark.parametrize(
    "expected",
    [
        "",
        "OK",
        5,
        None,
        {},
        {"map": {"a": 1}},
        {"map": {}, "set": []},
        {"error": "ERR", "len": 1},
        [1],
        "$<what>",
        "~x",
    ],
)
def test_what_is_no_expectation(expected: object) -> None:
    with pytest.raises(VectorError):
        validate(expected)
