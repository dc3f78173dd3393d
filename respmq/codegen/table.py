"""What the command table doesn't say: which commands are our own, what they return, and which may be sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from respmq.commands.registry import load

if TYPE_CHECKING:
    from respmq.commands.spec import Spec

#: The commands of each module. All others are Redis' own, for which clients have methods already.
MODULES: dict[str, tuple[str, ...]] = {
    "queues": ("QDECLARE", "QDELETE", "QPURGE", "QLIST", "QCONFIG", "QSTATS"),
    "messages": ("QPUT", "QMPUT", "QLEASE", "QACK", "QNACK", "QTOUCH", "QPEEK", "QSHOW", "QDEL"),
    "dead": ("QDEAD LIST", "QDEAD LEN", "QDEAD POP", "QDEAD REPLAY", "QDEAD PURGE"),
    "topics": ("QPUBLISH", "QBIND", "QUNBIND", "QBINDINGS"),
    "exchanges": (
        *("EXCHANGE DECLARE", "EXCHANGE DELETE", "EXCHANGE BIND", "EXCHANGE UNBIND"),
        *("EXCHANGE PUBLISH", "EXCHANGE LIST", "EXCHANGE BINDINGS"),
    ),
    "consumers": ("QCONSUME", "QCANCEL"),
    "server": ("DEBUG ADVANCE",),
}

#: Modules whose commands get no methods: pushes come on the connection itself, which methods of a client don't show.
WITHOUT_METHODS = frozenset({"consumers"})


class Result(NamedTuple):
    """What a call returns, and the function of `respmq.calls.decode` that makes it."""

    type: str
    decoder: str


RESULTS = {
    "QDECLARE": Result("None", "nothing"),
    "QDELETE": Result("int", "integer"),
    "QPURGE": Result("int", "integer"),
    "QLIST": Result("list[str]", "texts"),
    "QCONFIG": Result("QueueConfig", "queue_config"),
    "QPUT": Result("PutResult", "put_result"),
    "QMPUT": Result("list[str]", "texts"),
    "QLEASE": Result("list[Delivery]", "deliveries"),
    "QACK": Result("int", "integer"),
    "QNACK": Result("bool", "flag"),
    "QTOUCH": Result("int", "integer"),
    "QPEEK": Result("list[QueuedMessage]", "queued_messages"),
    "QSHOW": Result("QueuedMessage | DeadLetter | None", "shown_message"),
    "QDEL": Result("int", "integer"),
    "QDEAD LIST": Result("list[DeadLetter]", "dead_letters"),
    "QDEAD LEN": Result("int", "integer"),
    "QDEAD POP": Result("list[DeadLetter]", "dead_letters"),
    "QDEAD REPLAY": Result("int", "integer"),
    "QDEAD PURGE": Result("int", "integer"),
    "QPUBLISH": Result("PublishResult", "publish_result"),
    "QBIND": Result("bool", "flag"),
    "QUNBIND": Result("bool", "flag"),
    "QBINDINGS": Result("list[tuple[str, str]]", "pairs"),
    "EXCHANGE DECLARE": Result("None", "nothing"),
    "EXCHANGE DELETE": Result("int", "integer"),
    "EXCHANGE BIND": Result("bool", "flag"),
    "EXCHANGE UNBIND": Result("bool", "flag"),
    "EXCHANGE PUBLISH": Result("int", "integer"),
    "EXCHANGE LIST": Result("list[tuple[str, ExchangeKind]]", "exchanges"),
    "EXCHANGE BINDINGS": Result("list[tuple[str, str]]", "pairs"),
    "QCONSUME": Result("str", "text"),
    "QCANCEL": Result("int", "integer"),
    "DEBUG ADVANCE": Result("None", "nothing"),
}

#: QSTATS answers two things: about a queue, or about the broker.
STATS = {True: Result("QueueStats", "queue_stats"), False: Result("BrokerStats", "broker_stats")}

#: What changes something and does no harm a second time. Either the second time changes nothing (a queue is declared
#: already, a lease is stale, a message with this id is there), or the answer is the same (a REQID). Not here: what
#: would hit messages that came in between (QPURGE, QDEL, QDEAD ...), what stores or publishes a second copy, and what
#: answers with an error when it is done already.
REPEATABLE = frozenset(
    (
        *("QDECLARE", "QPUT", "QLEASE", "QACK", "QNACK", "QTOUCH", "QBIND", "QUNBIND"),
        *("EXCHANGE DECLARE", "EXCHANGE BIND", "EXCHANGE UNBIND"),
    )
)


def resend(spec: Spec) -> bool:
    """Whether a command may be sent again if it isn't known whether it was run."""
    return "readonly" in spec.flags or spec.name in REPEATABLE


def specs() -> dict[str, Spec]:
    """All commands by name."""
    return {spec.name: spec for spec in load().all_specs()}
