"""What a client has set up, for new connections: a broker that was restarted may have forgotten it."""

from __future__ import annotations

#: Commands that set something up, by how many words it takes to say what.
_SETS_UP = {b"QDECLARE": 2, b"QBIND": 3}
_EXCHANGE_SETS_UP = {b"DECLARE": 3, b"BIND": 5}


class Setup:
    """Queues, bindings and exchanges that the client has declared and not deleted, in their order."""

    def __init__(self) -> None:
        self._steps: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}

    def steps(self) -> list[tuple[bytes, ...]]:
        """The requests that set all of it up."""
        return list(self._steps.values())

    def record(self, words: tuple[bytes, ...]) -> None:
        """A request has succeeded."""
        match words:
            case (b"QDECLARE" | b"QBIND" as name, *_):
                self._steps[words[: _SETS_UP[name]]] = words
            case (b"EXCHANGE", b"DECLARE" | b"BIND" as name, *_):
                self._steps[words[: _EXCHANGE_SETS_UP[name]]] = words
            case (b"QUNBIND", *rest):
                self._steps.pop((b"QBIND", *rest), None)
            case (b"EXCHANGE", b"UNBIND", *rest):
                self._steps.pop((b"EXCHANGE", b"BIND", *rest), None)
            case (b"QDELETE", queue):
                self._forget_queue(queue)
            case (b"EXCHANGE", b"DELETE", exchange):
                self._forget_exchange(exchange)
            case _:
                pass

    def _forget_queue(self, queue: bytes) -> None:
        for key in list(self._steps):
            match key:
                case (b"QDECLARE", name) | (b"QBIND", _, name) | (b"EXCHANGE", b"BIND", _, name, *_) if name == queue:
                    del self._steps[key]
                case _:
                    pass

    def _forget_exchange(self, exchange: bytes) -> None:
        for key in list(self._steps):
            if key[:1] == (b"EXCHANGE",) and key[2] == exchange:
                del self._steps[key]
