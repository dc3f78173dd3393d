"""The core with a clock and somebody to call back: what makes a broker of it that lives in a program.

The core calls its sinks in the middle of its work. Those of programs may call the broker in turn, so what they are to
be called with is put aside, and they are called when the core has finished.
"""

from __future__ import annotations

import os
import random
from collections import deque
from typing import TYPE_CHECKING

import trio

from respmq.engine.memory import MemoryEngine
from respmq.local.timing import TrioTime

if TYPE_CHECKING:
    from collections.abc import Callable

#: How many sinks one call of the broker calls. What is left comes in the next turn of the event loop: two queues whose
#: consumers put into each other's would otherwise hold it up for ever.
CALLS_AT_ONCE = 10_000


class Machine:
    """A core that moves with Trio's clock."""

    def __init__(self) -> None:
        self._time = TrioTime()
        self.core = MemoryEngine(self._time.now(), os.urandom, random.uniform)
        #: Calls of sinks that are still to be made, in order.
        self.outbox: deque[Callable[[], None]] = deque()
        self._working = False
        self._alarm = trio.CancelScope()
        self.stopped = False

    def catch_up(self) -> None:
        """Do what has fallen due since the last call, before something else is done."""
        self.core.tick(self._time.now())

    def settle(self) -> None:
        """Do what follows from what was just done: hand out, announce, call the sinks."""
        if self._working or self.stopped:
            # A sink has called the broker: the one who called the sink goes on with the rest.
            return
        self._working = True
        when: int | None = self.core.now
        left = CALLS_AT_ONCE
        try:
            while left:
                when = self.core.tick(self._time.now())
                if not self.outbox:
                    break
                while self.outbox and left:
                    left -= 1
                    self.outbox.popleft()()
            else:
                when = self.core.now
        finally:
            self._working = False
            self._alarm.deadline = self._time.deadline(when)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Do what falls due, whenever it does, until it is stopped."""
        task_status.started()
        while not self.stopped:
            with self._alarm:
                self.settle()
                await trio.sleep_forever()
            self._alarm = trio.CancelScope()

    def stop(self) -> None:
        """Call nobody any more."""
        self.stopped = True
        self.outbox.clear()
        self._alarm.cancel()
