"""All of a broker's state that a restart must bring back, as data that can be compared."""

from __future__ import annotations

import dataclasses
from typing import Any

from respmq.core.broker import Broker
from respmq.core.model import DELAYED, LEASED, READY, describe_dead, describe_live
from respmq.core.queue import Queue


def dump(broker: Broker) -> dict[str, Any]:
    """The state of a broker but its consumers, waiters and subscriptions."""
    return {
        "queues": {name: _queue(broker.find(name)) for name in broker.names()},
        "exchanges": {
            name: (exchange.kind, sorted(exchange.bindings)) for name, exchange in sorted(broker.exchanges.all())
        },
        "binding_drops": broker.topics.binding_drops,
        "used": broker.used_memory,
    }


def _queue(queue: Queue) -> dict[str, Any]:
    return {
        "number": queue.number,
        "settings": queue.settings,
        "counters": dataclasses.asdict(queue.counters()),
        "sizes": (queue.ready, queue.delayed, len(queue.leases), queue.bytes, queue.dead.size),
        "messages": [
            [
                {**describe_live(message), "order": message.order, "ttl": message.extra and message.extra.ttl}
                | {"expires_at": message.expires_at, "announcement": message.extra and message.extra.announcement}
                | ({"since": message.since} if state == READY else {"due": message.deadline})
                for message in (
                    queue.peek(state)
                    if state != LEASED
                    else sorted(queue.peek(state), key=lambda message: (message.deadline, message.id))
                )
            ]
            for state in (READY, DELAYED, LEASED)
        ],
        "late": sorted((token, message.id) for token, message in queue.leases.late.items()),
        "letters": [{**describe_dead(letter), "number": letter.number} for letter in queue.dead],
        "remembered": sorted((id, queue.window.put_at(id)) for id in queue.window.ids()),
        "ids": (queue.id_maker.mark, queue.id_maker.last[:20]),
        "requests": {
            key: sorted((number, message.id, message.lease) for number, message in request.held())
            for key, request in queue.requests.items()
            if request.held()
        },
        "patterns": list(queue.patterns),
    }
