"""All commands as methods.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from respmq.calls.dead import AsyncDeadCommands, DeadCommands
from respmq.calls.exchanges import AsyncExchangeCommands, ExchangeCommands
from respmq.calls.messages import AsyncMessageCommands, MessageCommands
from respmq.calls.queues import AsyncQueueCommands, QueueCommands
from respmq.calls.server import AsyncServerCommands, ServerCommands
from respmq.calls.topics import AsyncTopicCommands, TopicCommands


class Commands(
    DeadCommands,
    ExchangeCommands,
    MessageCommands,
    QueueCommands,
    ServerCommands,
    TopicCommands,
):
    """Every command of the broker's own, as methods that block."""


class AsyncCommands(
    AsyncDeadCommands,
    AsyncExchangeCommands,
    AsyncMessageCommands,
    AsyncQueueCommands,
    AsyncServerCommands,
    AsyncTopicCommands,
):
    """Every command of the broker's own, as methods that are awaited."""
