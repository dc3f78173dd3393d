"""Redis' command flags, and the ACL categories that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from respmq.commands.spec import Spec

#: The flags that a command may have, in the order in which COMMAND INFO shows them.
FLAGS = (
    "write",
    "readonly",
    "denyoom",
    "admin",
    "pubsub",
    "noscript",
    "blocking",
    "loading",
    "stale",
    "skip_monitor",
    "skip_slowlog",
    "fast",
    "no_auth",
    "no_multi",
    "allow_busy",
    "movablekeys",
)

#: Flags of our own, which COMMAND INFO doesn't show. `stateless`: the command has nothing to do with queues and
#: messages, and its answer can tell nothing of them. So the answer doesn't wait until what happens to them is safe.
OWN_FLAGS = ("stateless",)

#: All ACL categories, in the order in which COMMAND INFO shows them.
CATEGORIES = (
    "read",
    "write",
    "queue",
    "exchange",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
)

_BY_FLAG = {
    "readonly": ("read",),
    "write": ("write",),
    "pubsub": ("pubsub",),
    "admin": ("admin", "dangerous"),
    "blocking": ("blocking",),
}
_BY_GROUP = {
    "connection": "connection",
    "queue": "queue",
    "message": "queue",
    "dead letter": "queue",
    "consumer": "queue",
    "exchange": "exchange",
    "transaction": "transaction",
}


def acl_categories(spec: Spec) -> list[str]:
    """The categories of a command, without the `@`: its own, and those that follow from its flags and its group."""
    found = {*spec.categories, "fast" if "fast" in spec.flags else "slow", _BY_GROUP.get(spec.group, "")}
    for flag in spec.flags:
        found.update(_BY_FLAG.get(flag, ()))
    return [category for category in CATEGORIES if category in found]


def shown_flags(spec: Spec) -> list[str]:
    """The flags of a command as COMMAND INFO shows them."""
    flags = spec.flags | {"movablekeys"} if spec.grammar.movable_keys else spec.flags
    return [flag for flag in FLAGS if flag in flags]


def check_names(name: str, flags: frozenset[str], categories: tuple[str, ...]) -> None:
    """See that a command has only flags and categories that exist.

    Raises:
        ValueError: it has others.
    """
    strange = sorted(flags.difference(FLAGS, OWN_FLAGS) | set(categories).difference(CATEGORIES))
    if strange:
        msg = f"the command {name} has unknown flags or categories: {', '.join(strange)}"
        raise ValueError(msg)
