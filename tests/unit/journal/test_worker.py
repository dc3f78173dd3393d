"""What is done beside the event loop: jobs in their order, syncs by the kernel or by the thread, and who is told."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from respmq.journal import worker as module
from respmq.journal.kernel import KernelSync
from respmq.journal.wake import EventWake, SocketWake, Wake, make_wake
from respmq.journal.worker import KernelWorker, Worker, make_worker

needs_kernel = pytest.mark.skipif(sys.platform != "linux", reason="io_submit() is Linux' own")

Results = list[OSError | None]


def wait_for(worker: Worker, results: Results, count: int) -> None:
    """Let `worker` call back until there are so many results."""
    while len(results) < count:
        assert select.select([worker], [], [], 20)[0], f"only {len(results)} of {count} results"
        worker.finish()


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def thread_worker() -> Worker:
    return Worker(make_wake())


def kernel_worker() -> KernelWorker:
    worker = make_worker()
    assert isinstance(worker, KernelWorker)
    return worker


KINDS = [thread_worker, pytest.param(kernel_worker, marks=needs_kernel)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sync_is_told_once(kind: Callable[[], Worker], fd: int) -> None:
    worker = kind()
    results: Results = []
    for number in range(50):
        os.pwrite(fd, b"x" * 5000, number * 5000)
        worker.sync(fd, os.fdatasync, results.append)
        wait_for(worker, results, number + 1)
    worker.stop()
    assert results == [None] * 50


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_t_be_synced_is_an_error(kind: Callable[[], Worker]) -> None:
    worker = kind()
    results: Results = []
    read_end, write_end = os.pipe()
    worker.sync(write_end, os.fdatasync, results.append)
    wait_for(worker, results, 1)
    os.close(read_end)
    os.close(write_end)
    worker.sync(write_end, os.fdatasync, results.append)
    wait_for(worker, results, 2)
    worker.stop()
    assert [None if error is None else error.errno for error in results] == [errno.EINVAL, errno.EBADF]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_waits_for_everything(kind: Callable[[], Worker], fd: int) -> None:
    worker = kind()
    told: list[str] = []
    os.pwrite(fd, bytes(1 << 20), 0)
    worker.sync(fd, os.fdatasync, lambda _error: told.append("sync"))
    worker.submit(lambda: None, lambda _error: told.append("job"))
    worker.stop()
    assert sorted(told) == ["job", "sync"]


@needs_kernel
def test_a_sync_comes_behind_the_jobs_before_it(fd: int) -> None:
    worker = kernel_worker()
    go = threading.Event()
    order: list[str] = []

    def sync(_fd: int) -> None:
        order.append("synced by the thread")

    def job() -> None:
        go.wait(20)
        order.append("job")

    results: Results = []
    worker.submit(job, results.append)
    worker.sync(fd, sync, results.append)
    go.set()
    wait_for(worker, results, 2)
    worker.sync(fd, sync, results.append)
    wait_for(worker, results, 3)
    worker.stop()
    assert order == ["job", "synced by the thread"], "the last sync is the kernel's again"


@needs_kernel
def test_several_syncs_at_a_time(tmp_path: Path) -> None:
    wake = EventWake()
    kernel = KernelSync(wake.fileno())
    results: list[tuple[int, OSError | None]] = []
    fds = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(16)]
    for number, fd in enumerate(fds):
        os.pwrite(fd, bytes(10_000), 0)

        def done(error: OSError | None, number: int = number) -> None:
            results.append((number, error))

        kernel.submit(fd, done)
        os.close(fd)
    kernel.close()
    wake.close()
    assert sorted(results, key=lambda result: result[0]) == [(number, None) for number in range(16)]


@needs_kernel
def test_without_the_kernel_s_help_the_thread_does_it(monkeypatch: pytest.MonkeyPatch, fd: int) -> None:
    class Refused(KernelSync):
        def __init__(self, eventfd: int) -> None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(module, "KernelSync", Refused)
    threads = threading.active_count()
    worker = make_worker()
    assert type(worker) is Worker
    assert threading.active_count() == threads + 1, "the first attempt has left nothing"
    results: Results = []
    worker.sync(fd, os.fdatasync, results.append)
    wait_for(worker, results, 1)
    worker.stop()
    assert results == [None]


@pytest.mark.parametrize("kind", [SocketWake, pytest.param(EventWake, marks=needs_kernel)])
def test_wake(kind: Callable[[], Wake]) -> None:
    wake = kind()
    wake.clear()
    assert not select.select([wake], [], [], 0)[0]
    for _ in range(100_000):
        wake.set()
    assert select.select([wake], [], [], 0)[0]
    while select.select([wake], [], [], 0)[0]:
        wake.clear()
    wake.set()
    assert select.select([wake], [], [], 0)[0]
    wake.close()
