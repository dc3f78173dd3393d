"""respmq: a message broker that speaks the Redis protocol.

All public names of the Python side are here. Each is imported when it is first asked for, so that `respmq serve`
doesn't load what only programs need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from respmq.version import __version__

if TYPE_CHECKING:
    from respmq.api.bodies import Body, JsonValue
    from respmq.api.messages import DeadLetter, Delivery, Event
    from respmq.api.ports import AsyncBroker
    from respmq.api.results import BrokerStats, PublishResult, PutResult, QueueStats
    from respmq.api.settings import QueueConfig
    from respmq.api.topics import topic_matches
    from respmq.calls.decode import QueuedMessage
    from respmq.client import Client, ConnectionEvent, Consumer, Subscription
    from respmq.errors import (
        BodyDecodeError,
        BrokerError,
        BrokerUnavailableError,
        ExchangeNotFoundError,
        InvalidNameError,
        InvalidRequestError,
        InvalidTopicError,
        NoAuthError,
        OtherError,
        OutOfMemoryError,
        QueueConfigConflictError,
        QueueFullError,
        QueueNotFoundError,
        TooBigError,
        UnblockedError,
        WrongPasswordError,
    )
    from respmq.local.broker import Broker
    from respmq.local.deliveries import Deliveries
    from respmq.local.messagequeue import (
        Message,
        MessageQueue,
        PriorityMessageQueue,
        create_message,
        load_queues,
        save_queues,
    )
    from respmq.local.pubsub import DeliveryError, PubSub
    from respmq.server.embedded import EmbeddedServer, open_server
    from respmq.worker.policy import HardFailure, RetryPolicy, SoftFailure
    from respmq.worker.publisher import Publisher
    from respmq.worker.signals import run_workers
    from respmq.worker.worker import Worker, WorkerHealth
else:
    #: Where each name comes from.
    _HOMES = {
        "respmq.api.bodies": ("Body", "JsonValue"),
        "respmq.api.messages": ("DeadLetter", "Delivery", "Event"),
        "respmq.api.ports": ("AsyncBroker",),
        "respmq.api.results": ("BrokerStats", "PublishResult", "PutResult", "QueueStats"),
        "respmq.api.settings": ("QueueConfig",),
        "respmq.api.topics": ("topic_matches",),
        "respmq.calls.decode": ("QueuedMessage",),
        "respmq.client": ("Client", "ConnectionEvent", "Consumer", "Subscription"),
        "respmq.errors": (
            "BodyDecodeError",
            "BrokerError",
            "BrokerUnavailableError",
            "ExchangeNotFoundError",
            "InvalidNameError",
            "InvalidRequestError",
            "InvalidTopicError",
            "NoAuthError",
            "OtherError",
            "OutOfMemoryError",
            "QueueConfigConflictError",
            "QueueFullError",
            "QueueNotFoundError",
            "TooBigError",
            "UnblockedError",
            "WrongPasswordError",
        ),
        "respmq.local.broker": ("Broker",),
        "respmq.local.deliveries": ("Deliveries",),
        "respmq.local.messagequeue": (
            "Message",
            "MessageQueue",
            "PriorityMessageQueue",
            "create_message",
            "load_queues",
            "save_queues",
        ),
        "respmq.local.pubsub": (
            "DeliveryError",
            "PubSub",
        ),
        "respmq.worker.policy": (
            "HardFailure",
            "RetryPolicy",
            "SoftFailure",
        ),
        "respmq.worker.publisher": ("Publisher",),
        "respmq.worker.signals": ("run_workers",),
        "respmq.worker.worker": (
            "Worker",
            "WorkerHealth",
        ),
        "respmq.server.embedded": ("EmbeddedServer", "open_server"),
    }
    _HOME = {name: module for module, names in _HOMES.items() for name in names}

    def __getattr__(name: str) -> object:
        module = _HOME.get(name)
        if module is None:
            msg = f"module 'respmq' has no attribute '{name}'"
            raise AttributeError(msg)
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOME})


__all__ = [
    "AsyncBroker",
    "Body",
    "BodyDecodeError",
    "Broker",
    "BrokerError",
    "BrokerStats",
    "BrokerUnavailableError",
    "Client",
    "ConnectionEvent",
    "Consumer",
    "DeadLetter",
    "Deliveries",
    "Delivery",
    "DeliveryError",
    "EmbeddedServer",
    "Event",
    "ExchangeNotFoundError",
    "HardFailure",
    "InvalidNameError",
    "InvalidRequestError",
    "InvalidTopicError",
    "JsonValue",
    "Message",
    "MessageQueue",
    "NoAuthError",
    "OtherError",
    "OutOfMemoryError",
    "PriorityMessageQueue",
    "PubSub",
    "PublishResult",
    "Publisher",
    "PutResult",
    "QueueConfig",
    "QueueConfigConflictError",
    "QueueFullError",
    "QueueNotFoundError",
    "QueueStats",
    "QueuedMessage",
    "RetryPolicy",
    "SoftFailure",
    "Subscription",
    "TooBigError",
    "UnblockedError",
    "Worker",
    "WorkerHealth",
    "WrongPasswordError",
    "__version__",
    "create_message",
    "load_queues",
    "open_server",
    "run_workers",
    "save_queues",
    "topic_matches",
]
