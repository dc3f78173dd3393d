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
    ended = trio.Event()
    running = set(workers)

    async def run(worker: Worker) -> None:
        await worker.run()
        running.discard(worker)
        if not running:
            ended.set()

    async with open_background() as background:
        await background.start(_watch, workers, ended)
        for worker in workers:
            background.start_soon(run, worker)
        if workers:
            await ended.wait()


async def _watch(workers: tuple[Worker, ...], ended: trio.Event, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        stopping = False
        async for _ in signals:
            if stopping:
                # What still runs is cancelled.
                ended.set()
                return
            stopping = True
            for worker in workers:
                worker.stop()
