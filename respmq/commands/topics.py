"""Topics: publishing, subscriptions, and bindings that copy events into queues.

A pattern is made of words between dots; `*` is exactly one word, `#` any number of words. That is not Redis' glob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from respmq.commands.arguments import BLOB, HEADER_NAME, NONE_NEEDED, QUEUE, Body, Described, QueueName
from respmq.commands.context import Context
from respmq.commands.kinds import Bytes, Pair
from respmq.commands.registry import command, container
from respmq.commands.replies import ANY, BULKS, FRAMES, INTEGER

if TYPE_CHECKING:
    from respmq.commands.context import SubscriptionKind
    from respmq.resp.values import Answer

_PATTERN = Bytes("pattern")
#: What client libraries ask with for all topics, in Redis' words.
_ALL = b"*"
_COUNTS = ANY.saying("array of topics, each followed by the number of its subscriptions")

Topic = Annotated[bytes, BLOB, Described("Words, separated by dots.")]
Pattern = Annotated[
    bytes, _PATTERN, Described("A topic in which a word may be `*` (any one word) or `#` (any number of words).")
]
AnyTopics = Annotated[bytes, BLOB, NONE_NEEDED, Described("All if there is none.")]
AnyPatterns = Annotated[bytes, _PATTERN, NONE_NEEDED, Described("All if there is none.")]
AskedTopics = Annotated[bytes, BLOB, NONE_NEEDED, Described("The topics in question.")]
_Headers = Annotated[
    tuple[tuple[bytes, bytes], ...],
    Pair(HEADER_NAME, BLOB, ("name", "value")),
    Described("A header of the copies; of a repeated name the last counts."),
]
_Attachments = Annotated[tuple[bytes, ...], BLOB, Described("An attachment of the copies.", "blob")]

Frames = list[list["Answer"]]


def _subscribe(ctx: Context, kind: SubscriptionKind, word: bytes, names: tuple[bytes, ...]) -> Frames:
    return [[word, name, count] for name, count in ctx.mailbox.subscribe(kind, names)]


def _unsubscribe(ctx: Context, kind: SubscriptionKind, word: bytes, names: tuple[bytes, ...]) -> Frames:
    return [[word, name, count] for name, count in ctx.mailbox.unsubscribe(kind, names)]


@command(
    "PUBLISH",
    group="topic",
    reply=INTEGER.saying("integer: how many subscriptions and queues took it"),
    errors=("INVALIDTOPIC", "TOOBIG"),
    flags=("pubsub", "fast"),
    complexity="O(W+M) with W words in the topic and M subscriptions and queues that take it",
)
def publish(ctx: Context, topic: Topic, body: Body) -> int:
    """Publishes to subscribers of the topic and into bound queues."""
    return sum(ctx.engine.topics.publish(topic, body))


@command(
    "QPUBLISH",
    group="topic",
    reply=ANY.saying("array: how many subscriptions and how many queues took it"),
    errors=("INVALIDTOPIC", "TOOBIG"),
    flags=("pubsub", "fast"),
    complexity="O(W+M) with W words in the topic and M subscriptions and queues that take it",
)
def qpublish(ctx: Context, topic: Topic, body: Body, *, header: _Headers = (), attach: _Attachments = ()) -> list[int]:
    """Publishes like PUBLISH, with headers and attachments for the copies in queues."""
    return [*ctx.engine.topics.publish(topic, body, dict(header), attach)]


@command(
    "SPUBLISH",
    group="topic",
    reply=INTEGER.saying("integer: how many SSUBSCRIBE subscriptions took it"),
    errors=("INVALIDTOPIC", "TOOBIG"),
    flags=("pubsub", "fast"),
    complexity="O(M) with M subscriptions",
)
def spublish(ctx: Context, topic: Topic, body: Body) -> int:
    """Publishes to those who have subscribed to the topic with SSUBSCRIBE."""
    return ctx.engine.topics.publish_shard(topic, body)


@command(
    "SUBSCRIBE",
    group="topic",
    reply=FRAMES,
    errors=("INVALIDTOPIC",),
    flags=("pubsub", "no_multi"),
    complexity="O(N) with N topics",
)
def subscribe(ctx: Context, *topics: Topic) -> Frames:
    """Sends the events of topics to this connection."""
    return _subscribe(ctx, "topic", b"subscribe", topics)


@command(
    "PSUBSCRIBE",
    group="topic",
    reply=FRAMES,
    errors=("INVALIDTOPIC",),
    flags=("pubsub", "no_multi"),
    complexity="O(N) with N patterns",
)
def psubscribe(ctx: Context, *patterns: Pattern) -> Frames:
    """Sends the events of topics that match patterns to this connection: `*` is one word, `#` any number of words."""
    return _subscribe(ctx, "pattern", b"psubscribe", patterns)


@command(
    "SSUBSCRIBE",
    group="topic",
    reply=FRAMES,
    errors=("INVALIDTOPIC",),
    flags=("pubsub", "no_multi"),
    complexity="O(N) with N topics",
)
def ssubscribe(ctx: Context, *topics: Topic) -> Frames:
    """Sends what is published to topics with SPUBLISH to this connection."""
    return _subscribe(ctx, "shard", b"ssubscribe", topics)


@command("UNSUBSCRIBE", group="topic", reply=FRAMES, flags=("pubsub", "no_multi"), complexity="O(N) with N topics")
def unsubscribe(ctx: Context, *topics: AnyTopics) -> Frames:
    """Ends subscriptions to topics."""
    return _unsubscribe(ctx, "topic", b"unsubscribe", topics)


@command("PUNSUBSCRIBE", group="topic", reply=FRAMES, flags=("pubsub", "no_multi"), complexity="O(N) with N patterns")
def punsubscribe(ctx: Context, *patterns: AnyPatterns) -> Frames:
    """Ends subscriptions to patterns."""
    return _unsubscribe(ctx, "pattern", b"punsubscribe", patterns)


@command("SUNSUBSCRIBE", group="topic", reply=FRAMES, flags=("pubsub", "no_multi"), complexity="O(N) with N topics")
def sunsubscribe(ctx: Context, *topics: AnyTopics) -> Frames:
    """Ends subscriptions made with SSUBSCRIBE."""
    return _unsubscribe(ctx, "shard", b"sunsubscribe", topics)


container("PUBSUB", summary="A container for commands on subscriptions.", group="topic")


@command(
    "PUBSUB CHANNELS",
    group="topic",
    reply=BULKS.saying("array of topics"),
    errors=("INVALIDTOPIC",),
    flags=("pubsub",),
    complexity="O(N) with N topics",
)
def pubsub_channels(
    ctx: Context, pattern: Annotated[bytes | None, _PATTERN, Described("Only topics that match it.")] = None
) -> list[bytes]:
    """Returns the topics to which somebody has subscribed by name; all of them for a lone `*`, as in Redis."""
    return ctx.engine.topics.channels.names(None if pattern == _ALL else pattern)


@command("PUBSUB NUMSUB", group="topic", reply=_COUNTS, flags=("pubsub",), complexity="O(N) with N topics")
def pubsub_numsub(ctx: Context, *topics: AskedTopics) -> list[Answer]:
    """Returns how many have subscribed to topics by name."""
    channels = ctx.engine.topics.channels
    return [item for topic in topics for item in (topic, channels.count(topic))]


@command("PUBSUB NUMPAT", group="topic", reply=INTEGER, flags=("pubsub",))
def pubsub_numpat(ctx: Context) -> int:
    """Returns how many different patterns somebody has subscribed to."""
    return ctx.engine.topics.pattern_count


@command(
    "PUBSUB SHARDCHANNELS",
    group="topic",
    reply=BULKS.saying("array of topics"),
    errors=("INVALIDTOPIC",),
    flags=("pubsub",),
    complexity="O(N) with N topics",
)
def pubsub_shardchannels(
    ctx: Context, pattern: Annotated[bytes | None, _PATTERN, Described("Only topics that match it.")] = None
) -> list[bytes]:
    """Returns the topics to which somebody has subscribed with SSUBSCRIBE; all of them for a lone `*`, as in Redis."""
    return ctx.engine.topics.shards.names(None if pattern == _ALL else pattern)


@command("PUBSUB SHARDNUMSUB", group="topic", reply=_COUNTS, flags=("pubsub",), complexity="O(N) with N topics")
def pubsub_shardnumsub(ctx: Context, *topics: AskedTopics) -> list[Answer]:
    """Returns how many have subscribed to topics with SSUBSCRIBE."""
    shards = ctx.engine.topics.shards
    return [item for topic in topics for item in (topic, shards.count(topic))]


@command(
    "QBIND",
    group="topic",
    reply=INTEGER.saying("integer: 1 if the binding is new, else 0"),
    errors=("NOQUEUE", "INVALIDNAME", "INVALIDTOPIC"),
    flags=("write", "fast"),
)
def qbind(ctx: Context, pattern: Pattern, queue: QueueName) -> int:
    """Copies each event that matches a pattern into a queue."""
    return int(ctx.engine.topics.bind(pattern, queue))


@command(
    "QUNBIND",
    group="topic",
    reply=INTEGER.saying("integer: 1, or 0 if there was no such binding"),
    errors=("NOQUEUE", "INVALIDNAME", "INVALIDTOPIC"),
    flags=("write", "fast"),
)
def qunbind(ctx: Context, pattern: Pattern, queue: QueueName) -> int:
    """Ends a binding."""
    return int(ctx.engine.topics.unbind(pattern, queue))


@command(
    "QBINDINGS",
    group="topic",
    reply=ANY.saying("array of `[pattern, queue]` pairs"),
    errors=("NOQUEUE", "INVALIDNAME"),
    flags=("readonly",),
    complexity="O(N) with N bindings",
)
def qbindings(
    ctx: Context,
    queue: Annotated[bytes | None, QUEUE, Described("Only bindings of this queue.")] = None,
) -> list[tuple[bytes, bytes]]:
    """Returns the bindings."""
    return ctx.engine.topics.bound(queue)
