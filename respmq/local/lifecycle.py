"""How a broker in the program's own process is opened, kept going and closed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Self

import trio

from respmq.errors import BrokerUnavailableError
from respmq.local.machine import Machine
from respmq.nursery import open_background

if TYPE_CHECKING:
    from types import TracebackType

    from respmq.engine.memory import MemoryEngine


class Lifecycle:
    """A machine, and the task that keeps it going from `async with` on."""

    def __init__(self) -> None:
        self._open: Machine | None = None
        self._closed = False
        self._background: AbstractAsyncContextManager[trio.Nursery] | None = None

    # -- opening and closing ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._open is not None or self._closed:
            msg = "a broker can be opened only once: make another one"
            raise BrokerUnavailableError(msg)
        machine = Machine()
        self._background = open_background()
        nursery = await self._background.__aenter__()
        await nursery.start(machine.run)
        self._open = machine
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self.close()
        return None if self._background is None else await self._background.__aexit__(kind, error, traceback)

    def close(self) -> None:
        """Close the broker: it forgets everything. Whoever waits for a message is told. May be called again."""
        if self._open is not None:
            machine, self._open = self._open, None
            machine.stop()
            self._forget(_unavailable(closed=True))
        self._closed = True

    @property
    def connected(self) -> bool:
        """Whether the broker is open."""
        return self._open is not None

    def _forget(self, error: BrokerUnavailableError) -> None:
        """Tell those who wait for something that nothing will come."""
        raise NotImplementedError

    @contextmanager
    def _acting(self) -> Generator[MemoryEngine]:
        """The core at the present moment; what follows from what is done with it is done in the end.

        Raises:
            BrokerUnavailableError: the broker isn't open.
        """
        machine = self._machine()
        machine.catch_up()
        try:
            yield machine.core
        finally:
            machine.settle()

    def _machine(self) -> Machine:
        """The core with its clock.

        Raises:
            BrokerUnavailableError: the broker isn't open.
        """
        if self._open is None:
            raise _unavailable(closed=self._closed)
        return self._open


def _unavailable(*, closed: bool) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        "the broker is closed" if closed else "the broker isn't open: use it in `async with Broker() as broker:`"
    )
