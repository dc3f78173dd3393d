"""The pattern trie against a matcher of ten lines, and how much work a match is."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from respmq.core.topics import PatternTrie, topic_matches
from respmq.errors import InvalidTopicError

if TYPE_CHECKING:
    from _typeshed import TraceFunction

FACTOR = float(os.environ.get("RESPMQ_PROPERTY_FACTOR", "1"))
EXAMPLES = settings(
    deadline=None, max_examples=int(300 * FACTOR), suppress_health_check=[HealthCheck.too_slow], derandomize=FACTOR == 1
)


def matches(pattern: Sequence[bytes], topic: Sequence[bytes]) -> bool:
    """Section by section what the protocol says: `*` is exactly one word, `#` zero or more, others are themselves."""
    if not pattern:
        return not topic
    first, rest = pattern[0], pattern[1:]
    if first == b"#":
        return any(matches(rest, topic[skipped:]) for skipped in range(len(topic) + 1))
    return bool(topic) and first in {b"*", topic[0]} and matches(rest, topic[1:])


def expected(patterns: set[tuple[bytes, int]], topic: bytes) -> Counter[int]:
    words = topic.split(b".")
    return Counter(value for pattern, value in patterns if matches(pattern.split(b"."), words))


# Few different words, so that patterns and topics often meet; some are prefixes of others or mean much elsewhere.
WORDS = st.sampled_from([b"a", b"b", b"ab", b"A", b"\xff", b"a+", b"(", b"[a]", b"?", b"^", b"\\"])
FIRST_WORDS = WORDS | st.sampled_from([b"$sys", b"$", b"$a"])


@st.composite
def topics(draw: st.DrawFn) -> bytes:
    return b".".join([draw(FIRST_WORDS), *draw(st.lists(WORDS, max_size=5))])


@st.composite
def patterns(draw: st.DrawFn) -> bytes:
    wild = st.sampled_from([b"*", b"#", b"#"])
    return b".".join([draw(FIRST_WORDS | wild), *draw(st.lists(WORDS | wild | wild, max_size=5))])


PATTERN_POOL = st.sampled_from(
    [b"#", b"*", b"a", b"a.b", b"a.*", b"a.#", b"#.b", b"*.b", b"#.a.#", b"#.#", b"a.#.b", b"$sys.#", b"*.#.*", b"#.*"]
)
VALUES = st.integers(0, 2)


class Machine(RuleBasedStateMachine):
    """Adds and removes by hypothesis' choice; what is in the trie is known from a set of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.trie = PatternTrie[int]()
        self.pairs: set[tuple[bytes, int]] = set()

    @rule(pattern=PATTERN_POOL | patterns(), value=VALUES)
    def add(self, pattern: bytes, value: int) -> None:
        assert self.trie.add(pattern, value) == ((pattern, value) not in self.pairs)
        self.pairs.add((pattern, value))

    @rule(pattern=PATTERN_POOL | patterns(), value=VALUES)
    def remove(self, pattern: bytes, value: int) -> None:
        assert self.trie.remove(pattern, value) == ((pattern, value) in self.pairs)
        self.pairs.discard((pattern, value))

    @rule(data=st.data())
    def remove_one_that_is_there(self, data: st.DataObject) -> None:
        if self.pairs:
            self.remove(*data.draw(st.sampled_from(sorted(self.pairs))))

    @rule(topic=topics())
    def match(self, topic: bytes) -> None:
        assert Counter(self.trie.match(topic)) == expected(self.pairs, topic)

    @invariant()
    def is_empty_only_when_all_is_removed(self) -> None:
        assert self.trie.empty == (not self.pairs)

    def teardown(self) -> None:
        for pattern, value in sorted(self.pairs):
            assert not self.trie.empty
            assert self.trie.remove(pattern, value)
        assert self.trie.empty, "a node is left behind"


def test_adds_removes_and_matches() -> None:
    """Every answer of the trie is the reference's, whatever was added and removed before."""
    run_state_machine_as_test(Machine, settings=settings(EXAMPLES, stateful_step_count=40))


@EXAMPLES
@given(st.lists(st.tuples(patterns(), VALUES), max_size=12), st.lists(topics(), min_size=1, max_size=6))
def test_many_patterns_at_once(pairs: list[tuple[bytes, int]], asked: list[bytes]) -> None:
    """Patterns that share nodes give each its own values, once for each pattern that matches."""
    trie = PatternTrie[int]()
    for pattern, value in pairs:
        trie.add(pattern, value)
    for topic in asked:
        assert Counter(trie.match(topic)) == expected(set(pairs), topic)


@EXAMPLES
@given(patterns(), topics())
def test_one_pattern(pattern: bytes, topic: bytes) -> None:
    """The check of one pattern against one topic agrees with the trie and with the reference."""
    trie = PatternTrie[str]()
    trie.add(pattern, "found")
    holds = matches(pattern.split(b"."), topic.split(b"."))
    assert (list(trie.match(topic)) == ["found"]) is holds
    try:
        assert topic_matches(pattern, topic) is holds
    except InvalidTopicError:
        pytest.fail(f"{pattern!r} or {topic!r} is refused")


@EXAMPLES
@given(st.lists(patterns(), max_size=8))
def test_an_empty_topic_has_no_words(asked: list[bytes]) -> None:
    """Only patterns made of `#` match the empty routing key."""
    trie = PatternTrie[bytes]()
    for pattern in asked:
        trie.add(pattern, pattern)
    assert set(trie.match(b"")) == {pattern for pattern in asked if set(pattern.split(b".")) == {b"#"}}


# -- Work, counted in byte-code instructions so that it is the same on every machine


def work(job: Callable[[], object]) -> int:
    """How many instructions of Python the job takes, generators that it drives included."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> TraceFunction:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        job()
    finally:
        sys.settrace(before)
    return steps


def matching(asked: Sequence[str], topic: str) -> int:
    """The work of one match with these patterns in the trie."""
    trie = PatternTrie[str]()
    for pattern in asked:
        trie.add(pattern.encode(), pattern)
    return work(lambda: list(trie.match(topic.encode())))


@pytest.mark.parametrize(
    "unrelated",
    ["{}.x", "other.{}", "orders.{}", "orders.*.{}", "orders.#.{}", "#.{}", "*.{}.#", "{}.#.new", "orders.eu.new.{}"],
)
def test_patterns_that_share_no_further_word_cost_nothing(unrelated: str) -> None:
    """A match takes the same work beside ten and beside ten thousand patterns that it has nothing to do with."""
    found = ["orders.eu.new", "orders.*.new", "orders.#"]
    few, many = (
        matching([*found, *(unrelated.format(f"other{n}") for n in range(count))], "orders.eu.new")
        for count in (10, 10_000)
    )
    assert few == many


@pytest.mark.parametrize("pattern", ["#", "#.a", "#.*", "#.a.*"], ids=["hashes", "with a", "with *", "with both"])
def test_many_hashes_are_not_exponential(pattern: str) -> None:
    """`#.#.#...` on a long topic: twice the words and twice the pattern are at most about four times the work."""

    def cost(size: int, last: str) -> int:
        return matching([".".join([pattern] * size)], ".".join(["a"] * (2 * size) + [last]))

    for last in ("a", "b"):
        small, large = cost(8, last), cost(16, last)
        assert large < 5 * small, (small, large)
        assert cost(32, last) < 5 * large


def test_hashes_of_several_patterns_are_not_multiplied() -> None:
    """Twenty patterns that begin with the same `#.a.#.a...`: not twenty times the work of one."""
    topic = ".".join(["a"] * 40)
    one = matching([".".join(["#", "a"] * 5)], topic)
    several = matching([".".join(["#", "a"] * 5 + [f"b{n}"] * n) for n in range(20)], topic)
    assert several < 5 * one, (several, one)
