"""Builds a broker's state from an image, in steps: a million messages take seconds in which others want answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.core.plain import PlainQueue
from respmq.core.requests import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respmq.core.events import Router
    from respmq.core.exchanges import Exchanges
    from respmq.core.hub import Hub
    from respmq.core.image import BrokerImage, QueueImage


def load(
    image: BrokerImage, hub: Hub, queues: dict[bytes, PlainQueue], topics: Router, exchanges: Exchanges
) -> Iterator[None]:
    """Fill an empty broker. Nothing is recorded or announced, nobody is served, and nothing falls due."""
    by_number: dict[int, PlainQueue] = {}
    for described in image.queues.values():
        if described.settings is None:
            continue
        queue = PlainQueue(described.name, described.settings, hub)
        yield from queue.load(described)
        queues[described.name] = by_number[queue.number] = queue
        for pattern in described.patterns:
            topics.bind(pattern, queue.name)
        yield
    for described in image.queues.values():
        _load_requests(described, by_number)
    for name, exchange in image.exchanges.items():
        exchanges.declare(name, exchange.kind)
        for number, key in exchange.bindings:
            if number in by_number:
                exchanges.bind(name, by_number[number].name, key)
    topics.binding_drops = image.binding_drops
    hub.queues_made = image.queues_made


def _load_requests(described: QueueImage, queues: dict[int, PlainQueue]) -> None:
    for key, leased in described.requests.items():
        request = Request(queues[described.number], key)
        for number, token in leased:
            queue = queues.get(number)
            message = None if queue is None else queue.leases.get(token)
            if queue is not None and message is not None:
                request.hold(queue, [message])
        request.granted()
