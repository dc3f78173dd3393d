"""Topics and patterns, for programs that want to know what would match."""

from __future__ import annotations

from respmq.api.bodies import octets
from respmq.core.topics import PatternTrie, check_pattern, check_topic


def topic_matches(pattern: str, key: str) -> bool:
    """Whether a topic or a routing key matches a pattern.

    In a pattern, the word `*` is exactly one word and `#` any number of words (none, too): `news.*` matches
    `news.sport`, not `news.sport.tennis`; `news.#` matches both, and `news`.

    Args:
        pattern: words between dots.
        key: the topic or the routing key. An empty one has no words: only patterns made of `#` match it.

    Raises:
        InvalidTopicError: one of them can't be what it should be.
    """
    wanted, given = octets(pattern, "pattern"), octets(key, "topic")
    check_pattern(wanted)
    if given:
        check_topic(given)
    trie: PatternTrie[None] = PatternTrie()
    trie.add(wanted, None)
    return any(True for _ in trie.match(given))
