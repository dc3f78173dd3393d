"""Topics and patterns: words between dots, `*` for exactly one word, `#` for any number of words.

This is AMQP's topic match, not Redis' glob: `a.*` doesn't match `a.b.c`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

from respmq.errors import InvalidTopicError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

V = TypeVar("V")

_MAX_TOPIC = 255
_WORD = rb"[^.*#\x00-\x20\x7f]+"
_TOPIC = re.compile(rb"(?:%b)(?:\.(?:%b))*" % (_WORD, _WORD))
_PATTERN = re.compile(rb"(?:%b|[*#])(?:\.(?:%b|[*#]))*" % (_WORD, _WORD))
#: Only the first word may begin with a dollar sign.
_INNER_DOLLAR = b".$"


def check_topic(topic: bytes, *, from_client: bool = False) -> None:
    """Check a topic; `from_client` if a client publishes to it.

    Raises:
        InvalidTopicError: it can't be a topic, or it belongs to the broker.
    """
    _check_length(topic, "topic")
    if _TOPIC.fullmatch(topic) is None or _INNER_DOLLAR in topic:
        if b"*" in topic or b"#" in topic:
            msg = f"topic '{quote(topic)}' has a wildcard: PSUBSCRIBE and QBIND take patterns, here a topic is wanted"
        else:
            msg = (
                f"invalid topic '{quote(topic)}': words of one or more bytes other than . * # and white space are "
                "wanted, with a dot between them; only the first may begin with $"
            )
        raise InvalidTopicError(msg)
    if from_client and (topic == b"$sys" or topic.startswith(b"$sys.")):
        msg = f"topic '{quote(topic)}' belongs to the broker, clients can't publish to it"
        raise InvalidTopicError(msg)


def check_pattern(pattern: bytes) -> None:
    """Check a pattern.

    Raises:
        InvalidTopicError: it can't be a pattern.
    """
    _check_length(pattern, "pattern")
    if _PATTERN.fullmatch(pattern) is None or _INNER_DOLLAR in pattern:
        msg = (
            f"invalid pattern '{quote(pattern)}': a topic is wanted in which whole words may be * (one word) or # "
            "(any number of words)"
        )
        raise InvalidTopicError(msg)


def _check_length(topic: bytes, what: str) -> None:
    if not 1 <= len(topic) <= _MAX_TOPIC:
        msg = f"invalid {what} '{quote(topic)}': 1 to {_MAX_TOPIC} bytes are wanted, it has {len(topic)}"
        raise InvalidTopicError(msg)


def topic_matches(pattern: bytes, topic: bytes) -> bool:
    """Whether a topic matches a pattern.

    Raises:
        InvalidTopicError: one of them is invalid.
    """
    check_pattern(pattern)
    check_topic(topic)
    trie: PatternTrie[None] = PatternTrie()
    trie.add(pattern, None)
    return any(True for _ in trie.match(topic))


class _Node(Generic[V]):
    """The end of a pattern's first words. `many` says that the last of them is `#`."""

    __slots__ = ("hash", "many", "star", "values", "words")

    def __init__(self, *, many: bool = False) -> None:
        self.words: dict[bytes, _Node[V]] = {}
        self.star: _Node[V] | None = None
        self.hash: _Node[V] | None = None
        self.many = many
        #: What belongs to the pattern that ends here.
        self.values: dict[V, None] = {}

    def child(self, word: bytes) -> _Node[V] | None:
        return self.star if word == b"*" else self.hash if word == b"#" else self.words.get(word)

    def make_child(self, word: bytes) -> _Node[V]:
        child = self.child(word)
        if child is not None:
            return child
        made: _Node[V] = _Node(many=word == b"#")
        if word == b"*":
            self.star = made
        elif word == b"#":
            self.hash = made
        else:
            self.words[word] = made
        return made

    def drop_child(self, word: bytes) -> None:
        if word == b"*":
            self.star = None
        elif word == b"#":
            self.hash = None
        else:
            del self.words[word]

    @property
    def empty(self) -> bool:
        return not (self.values or self.words or self.star or self.hash)


class PatternTrie(Generic[V]):
    """Values by pattern. A match looks only at patterns that share words with the topic, at each node once a word."""

    __slots__ = ("_root", "patterns")

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        #: How many different patterns there are.
        self.patterns = 0

    def add(self, pattern: bytes, value: V) -> bool:
        """Add a value under a pattern; False if it was there."""
        node = self._root
        for word in pattern.split(b"."):
            node = node.make_child(word)
        if value in node.values:
            return False
        self.patterns += not node.values
        node.values[value] = None
        return True

    def remove(self, pattern: bytes, value: V) -> bool:
        """Remove a value from a pattern; False if it was not there."""
        path = [self._root]
        words = pattern.split(b".")
        for word in words:
            node = path[-1].child(word)
            if node is None:
                return False
            path.append(node)
        if value not in path[-1].values:
            return False
        del path[-1].values[value]
        self.patterns -= not path[-1].values
        while words and path.pop().empty:
            path[-1].drop_child(words.pop())
        return True

    def match(self, topic: bytes) -> Iterator[V]:
        """The values of all patterns that match; a value under several patterns comes several times.

        An empty topic is one without words: only patterns made of `#` match it.
        """
        # All ends of patterns that the words so far can have led to. A `#` stays where it is for any word, and lets
        # the next word of the pattern stand for this one as well.
        ends = _with_hashes({self._root: None})
        for word in topic.split(b".") if topic else ():
            following: dict[_Node[V], None] = {}
            for node in ends:
                if node.many:
                    following[node] = None
                child = node.words.get(word)
                if child is not None:
                    following[child] = None
                if node.star is not None:
                    following[node.star] = None
            ends = _with_hashes(following)
            if not ends:
                return
        for node in ends:
            yield from list(node.values)

    @property
    def empty(self) -> bool:
        """Whether nothing is left in it, not even a node."""
        return self._root.empty


def _with_hashes(ends: dict[_Node[V], None]) -> dict[_Node[V], None]:
    """`ends` and where a `#` that stands for no word leads from them."""
    for node in list(ends):
        beyond = node.hash
        while beyond is not None and beyond not in ends:
            ends[beyond] = None
            beyond = beyond.hash
    return ends
