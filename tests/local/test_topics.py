"""`topic_matches`, as the broker matches."""

from __future__ import annotations

import pytest

from respmq import InvalidTopicError, topic_matches


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#.c", "a.b.c", True),
        ("a.#.c", "a.c", True),
        ("*.*", "a", False),
        ("#", "", True),
        ("*", "", False),
        ("$sys.dead.*", "$sys.dead.jobs", True),
    ],
)
def test_topic_matches(pattern: str, key: str, matches: bool) -> None:
    assert topic_matches(pattern, key) is matches


@pytest.mark.parametrize(("pattern", "key"), [("a*", "a"), ("", "a"), ("a", "a..b"), ("a", "a.*")])
def test_what_is_neither_pattern_nor_topic(pattern: str, key: str) -> None:
    with pytest.raises(InvalidTopicError):
        topic_matches(pattern, key)
