"""What queues and exchanges may be called, and what topics and patterns may look like."""

from __future__ import annotations

import pytest

from respmq.core.names import check_name
from respmq.core.topics import check_pattern, check_topic, topic_matches
from respmq.errors import InvalidNameError, InvalidTopicError


@pytest.mark.parametrize(
    "name",
    [
        *(
            b"a",
            b"Z9",
            b"a.b.c",
            b"a_b-c:d/e@f{g}h",
            b"-",
            b"0",
            b"{tag}.x",
            b"x" * 200,
            b"counts",
            b"full.x",
            b"WAITS",
        ),
        *(b"lease_", b"a.count"),
    ],
)
def test_good_names(name: bytes) -> None:
    check_name(name)
    check_name(name, "exchange")


@pytest.mark.parametrize(
    "name",
    [
        *(
            b"",
            b"x" * 201,
            b".",
            b".a",
            b"a.",
            b"a..b",
            b"a b",
            b"a\n",
            b"\n",
            b"a\x00",
            b"\xc3\xa9",
            b"\xff",
            b"a*",
            b"#",
            b"$a",
        ),
        *(
            b"a,b",
            b"a;b",
            b"[a]",
            b"a+b",
            b"a=b",
            b"a|b",
            b"a\\b",
            b"a'b",
            b'"',
            b"COUNT",
            b"count",
            b"Wait",
            b"LEASE",
            b"reqid",
        ),
        *(b"FULL", b"a.b\n"),
    ],
)
def test_bad_names(name: bytes) -> None:
    for what in ("queue", "exchange"):
        with pytest.raises(InvalidNameError) as caught:
            check_name(name, what)
        assert what in caught.value.text
        assert caught.value.text.isascii()
        assert caught.value.text.isprintable()


TOPICS = [
    *(
        b"a",
        b"a.b",
        b"order.created.eu",
        b"$sys.dead.q",
        b"$x",
        b"a$b",
        b"\xff\xfe",
        b"\x80.\x80",
        b"x" * 255,
        b"a-b_c:d/e",
    ),
    *("\N{LATIN SMALL LETTER E WITH ACUTE}.b".encode(), b"a+b", b"[a]", b"(", b"\\", b"^", b"?"),
]
NO_TOPICS_NOR_PATTERNS = [
    *(
        b"",
        b"x" * 256,
        b".",
        b".a",
        b"a.",
        b"a..b",
        b"a b",
        b"a\tb",
        b"a\r\n",
        b"a\x00",
        b"\x7f",
        b"\x1f",
        b" ",
        b"a.$b",
        b"a.b.$c",
    ),
    *(b"a*", b"*a", b"a#", b"#b", b"a.b*.c", b"**", b"##", b"a.*b", b"#*"),
]
PATTERNS = [b"*", b"#", b"a.*", b"*.a", b"#.a", b"a.#.b", b"*.*", b"#.#", b"$sys.#", b"$sys.*.q", b"#.*"]


@pytest.mark.parametrize("topic", TOPICS)
def test_topics(topic: bytes) -> None:
    check_topic(topic)
    check_pattern(topic)
    assert topic_matches(topic, topic)


@pytest.mark.parametrize("topic", NO_TOPICS_NOR_PATTERNS)
def test_what_is_neither_a_topic_nor_a_pattern(topic: bytes) -> None:
    for check in (check_topic, check_pattern):
        with pytest.raises(InvalidTopicError) as caught:
            check(topic)
        assert caught.value.text.isascii()
        assert caught.value.text.isprintable()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_no_topics(pattern: bytes) -> None:
    check_pattern(pattern)
    with pytest.raises(InvalidTopicError, match="PSUBSCRIBE"):
        check_topic(pattern)


@pytest.mark.parametrize("topic", [b"$sys", b"$sys.x", b"$sys.dead.q"])
def test_topics_of_the_broker_are_not_for_clients(topic: bytes) -> None:
    check_topic(topic)
    with pytest.raises(InvalidTopicError, match="belongs to the broker"):
        check_topic(topic, from_client=True)


@pytest.mark.parametrize("topic", [b"$system", b"$sysx.y", b"$other", b"a.sys"])
def test_topics_that_only_look_like_the_broker_s(topic: bytes) -> None:
    check_topic(topic, from_client=True)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (b"a.*.c", [b"a.b.c"], [b"a.b.x.c", b"a.c", b"a..c"[:3] + b"x"]),
        (b"#", [b"a", b"a.b.c", b"$sys.dead.q"], []),
        (b"*", [b"a", b"$x"], [b"a.b"]),
        (b"a.#", [b"a", b"a.b", b"a.b.c"], [b"b.a", b"ab"]),
        (b"#.a", [b"a", b"b.a", b"c.b.a"], [b"a.b"]),
        (b"a.#.b", [b"a.b", b"a.x.b", b"a.x.y.b"], [b"a.b.x", b"x.a.b"]),
        (b"*.#", [b"a", b"a.b", b"$sys.x"], []),
        (b"#.#", [b"a", b"a.b"], []),
        (b"*.dead.*", [b"$sys.dead.q"], [b"$sys.dead.q.r"]),
        (b"a+", [b"a+"], [b"aa"]),
        (b"[ab]", [b"[ab]"], [b"a"]),
        (b"A", [b"A"], [b"a"]),
    ],
)
def test_matching(pattern: bytes, yes: list[bytes], no: list[bytes]) -> None:
    assert [topic for topic in yes if not topic_matches(pattern, topic)] == []
    assert [topic for topic in no if b".." not in topic and topic_matches(pattern, topic)] == []
