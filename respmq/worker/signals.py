"""Runs workers as a program of their own, until a signal ends it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import trio

from respmq.nursery import open_background

if TYPE_CHECKING:
    from respmq.worker.worker import Worker


async def run_workers(*workers: Worker) -> None:
    """Run workers until SIGTERM or SIGINT: then they are stopped, and this returns when they have ended.

    A second signal cancels them: what runs is given back at once.

    Raises:
        BrokerError: as `Worker.run`; of several in a group.
    """
    async with open_background() as background:
        with trio.CancelScope() as everything:
            await background.start(_watch, workers, everything)
            async with trio.open_nursery() as nursery:
                for worker in workers:
                    nursery.start_soon(worker.run)


async def _watch(workers: tuple[Worker, ...], everything: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        stopping = False
        async for _ in signals:
            if stopping:
                everything.cancel()
                return
            stopping = True
            for worker in workers:
                worker.stop()
