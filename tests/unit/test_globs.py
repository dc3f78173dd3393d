"""Redis' globs, against a port of Redis' own matcher, and that none takes exponential time."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from respmq.errors import InvalidRequestError
from respmq.globs import glob_match


def redis_match(pattern: bytes, text: bytes) -> bool:  # noqa: C901 - as long as the original
    """`stringmatchlen` of Redis 7, case-sensitive, line by line."""
    p = t = 0
    while p < len(pattern) and t < len(text):
        char = pattern[p : p + 1]
        if char == b"*":
            while pattern[p + 1 : p + 2] == b"*":
                p += 1
            if p + 1 == len(pattern):
                return True
            return any(redis_match(pattern[p + 1 :], text[start:]) for start in range(t, len(text)))
        if char == b"?":
            t += 1
        elif char == b"[":
            p += 1
            negate = pattern[p : p + 1] == b"^"
            p += negate
            match = False
            while True:
                if pattern[p : p + 1] == b"\\" and len(pattern) - p >= 2:
                    p += 1
                    match |= pattern[p] == text[t]
                elif pattern[p : p + 1] == b"]":
                    break
                elif p >= len(pattern):
                    p -= 1
                    break
                elif len(pattern) - p >= 3 and pattern[p + 1 : p + 2] == b"-":
                    low, high = sorted((pattern[p], pattern[p + 2]))
                    p += 2
                    match |= low <= text[t] <= high
                else:
                    match |= pattern[p] == text[t]
                p += 1
            if match == negate:
                return False
            t += 1
        else:
            if char == b"\\" and len(pattern) - p >= 2:
                p += 1
            if pattern[p] != text[t]:
                return False
            t += 1
        p += 1
        if t == len(text):
            while pattern[p : p + 1] == b"*":
                p += 1
            break
    return p >= len(pattern) and t == len(text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        *((b"*", b"", True), (b"*", b"anything", True), (b"", b"", True), (b"", b"a", False), (b"a", b"", False)),
        *((b"a*c", b"abc", True), (b"a*c", b"ac", True), (b"a*c", b"acb", False), (b"*a*", b"bab", True)),
        *((b"?", b"a", True), (b"?", b"", False), (b"??", b"a", False), (b"?", b"\xff", True), (b"?", b"\n", True)),
        *((b"[abc]", b"b", True), (b"[abc]", b"d", False), (b"[^abc]", b"d", True), (b"[^abc]", b"a", False)),
        *(
            (b"[a-c]", b"b", True),
            (b"[c-a]", b"b", True),
            (b"[a-]", b"-", False),
            (b"[\\]]", b"]", True),
            (b"[!a]", b"!", True),
        ),
        *(
            (b"\\*", b"*", True),
            (b"\\*", b"a", False),
            (b"\\?x", b"?x", True),
            (b"a\\", b"a\\", True),
            (b"\\\\", b"\\", True),
        ),
        *(
            (b"[abc", b"a", True),
            (b"[abc", b"c", True),
            (b"[", b"[", False),
            (b"[]", b"]", False),
            (b"[^]", b"a", True),
        ),
        *(
            (b"h*llo.w?rld", b"hello.world", True),
            (b"a.b", b"axb", False),
            (b"a+", b"aa", False),
            (b"(a|b)", b"a", False),
        ),
        *(
            (b"A", b"a", False),
            (b"*\n*", b"a\nb", True),
            (b"[^a]", b"\n", True),
            (b"[\\^a]", b"^", True),
            (b"**", b"", True),
        ),
    ],
)
def test_examples(pattern: bytes, text: bytes, matches: bool) -> None:
    assert glob_match(pattern, text) is matches


# Redis' matcher finds nothing in an empty text, not even with `*`: there is no use in doing the same.
ALPHABET = st.sampled_from([*(bytes([c]) for c in b"ab*?[]^-\\*ab"), b"\n", b"\xff", b"."])


@settings(max_examples=1_000, deadline=None)
@given(st.lists(ALPHABET, max_size=10).map(b"".join), st.lists(ALPHABET, min_size=1, max_size=8).map(b"".join))
@example(b"[a-", b"a")
@example(b"[^", b"a")
@example(b"[\\", b"\\")
@example(b"[a-\\]", b"]")
@example(b"a*\\", b"a\\")
def test_as_redis_matches(pattern: bytes, text: bytes) -> None:
    assert glob_match(pattern, text) == redis_match(pattern, text), (pattern, text)


def test_case_can_be_ignored() -> None:
    assert glob_match(b"MAX*", b"maxclients", ignore_case=True)
    assert glob_match(b"[A-C]x", b"bX", ignore_case=True)
    assert not glob_match(b"MAX*", b"maxclients")


@pytest.mark.parametrize(
    "pattern", [b"a*" * 40 + b"b", b"*a" * 40 + b"b", b"*?" * 40 + b"b", b"*[a]" * 40 + b"b", b"*" * 1000 + b"b"]
)
def test_no_pattern_takes_exponential_time(pattern: bytes) -> None:
    """Ten times the text takes about a hundred times as long at the very most."""

    def cost(size: int) -> float:
        began = time.process_time()
        assert not glob_match(pattern, b"a" * size)
        return time.process_time() - began

    cost(100)
    assert min(cost(3_000) for _ in range(3)) < 300 * max(min(cost(300) for _ in range(3)), 0.0005)


def test_a_very_long_pattern_is_refused() -> None:
    assert glob_match(b"[a-z]*" * 170, b"a" * 170)
    with pytest.raises(InvalidRequestError, match="1025 bytes long, at most 1024 are allowed"):
        glob_match(b"x" * 1025, b"x")
