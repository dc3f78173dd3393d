"""What redis-py does by itself, sending again and giving up on a reply, does no harm."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.retry
import redis.backoff
import redis.retry
import trio
from redis.exceptions import OutOfMemoryError

from respmq import BrokerUnavailableError, InvalidRequestError, open_server
from respmq.redis import RespMQ
from respmq.redis.common import LONGEST_SLICE, Slices, longest_slice, pause_before, translated
from tests.redis.conftest import KINDS, make
from tests.support import Conn, ServerProcess
from tests.support.proxy import Proxy, open_proxy


def behind(proxy: Proxy, kind: str) -> Any:
    """A client behind a proxy, which sends again as redis-py does, without its pauses."""
    never_pause = redis.backoff.NoBackoff()
    if kind.startswith("blocking"):
        return make(kind, proxy.port, retry=redis.retry.Retry(never_pause, 10))
    return make(kind, proxy.port, retry=redis.asyncio.retry.Retry(never_pause, 10))


async def run_with(kind: str, work: Callable[[Any, Proxy], None]) -> None:
    """Run blocking code with a client behind a proxy, in a thread: server and proxy are in this one."""
    async with open_server() as server, open_proxy(server.port) as proxy:

        def run() -> None:
            r = behind(proxy, kind)
            try:
                work(r, proxy)
            finally:
                r.close()

        await trio.to_thread.run_sync(run)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_may_be_sent_again_is_done_once(kind: str) -> None:
    def work(r: Any, proxy: Proxy) -> None:
        r.qdeclare("jobs")
        for count in range(0, 40, 3):
            proxy.cut_after("to client", count)
            assert not r.qput("jobs", count).duplicate
            assert r.qstats("jobs").ready == 1
            proxy.cut_after("to client", count)
            [delivery] = r.qlease("jobs", count=2)
            assert (delivery.body, delivery.attempt) == (count, 1)
            proxy.cut_after("to client", 0)
            assert r.qack("jobs", delivery.lease) == 0
            stats = r.qstats("jobs")
            assert (stats.in_flight, stats.acked, stats.ready) == (0, stats.enqueued, 0)

    await run_with(kind, work)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_may_not_be_sent_again_is_sent_once(kind: str) -> None:
    def work(r: Any, proxy: Proxy) -> None:
        r.qdeclare("jobs")
        r.qbind("#", "jobs")
        for number, (name, topic) in enumerate((("qmput", "jobs"), ("qpublish", "a")), 1):
            proxy.cut_after("to client", 0)
            with pytest.raises(BrokerUnavailableError):
                getattr(r, name)(topic, "x")
            assert r.qstats("jobs").enqueued == number
        # A connection that has broken while it was in the pool is no reason to fail.
        trio.from_thread.run(proxy.cut_now)
        assert len(r.qmput("jobs", "x")) == 1
        assert r.qstats("jobs").enqueued == 3

    await run_with(kind, work)


@pytest.mark.parametrize("kind", KINDS)
def test_long_waits_are_sliced(kind: str, fresh_server: ServerProcess) -> None:
    r = make(kind, fresh_server.port, socket_timeout=0.25)
    r.qdeclare("jobs")
    assert r.qlease("jobs", wait=0.7) == []
    with Conn(fresh_server.port) as conn:
        found = re.search(r"cmdstat_qlease:calls=(\d+)", conn.text("INFO", "commandstats"))
    assert found is not None
    assert int(found[1]) >= 4
    r.qput("jobs", "x", delay=0.4)
    assert r.qlease("jobs", wait=math.inf)[0].body == "x"
    r.close()


def test_how_long_a_slice_is() -> None:
    assert longest_slice(RespMQ(socket_timeout=2).connection_pool) == 1.6
    assert longest_slice(RespMQ(socket_timeout=None).connection_pool) == LONGEST_SLICE
    assert longest_slice(RespMQ(socket_timeout=500).connection_pool) == LONGEST_SLICE
    # Where the pool doesn't say, it is what connections have by default.
    connection: Any = redis.ConnectionPool().make_connection()
    default = connection.socket_timeout
    wanted = LONGEST_SLICE if default is None else default * 0.8
    assert longest_slice(redis.ConnectionPool()) == wanted
    assert longest_slice(RespMQ.from_url("redis://localhost").connection_pool) == wanted


def test_slices() -> None:
    slices = Slices(10, 4, now=100)
    assert [slices.next(now) for now in (100, 104, 108, 110, 120)] == [4, 4, 2, 0, 0]
    assert Slices(math.inf, 4, now=0).next(1e9) == 4


def test_pauses_grow_and_vary() -> None:
    assert all(0.05 <= pause_before(1) <= 0.15 for _ in range(50))
    assert all(2.5 <= pause_before(attempt) <= 7.5 for attempt in (8, 100, 10_000))


def test_errors_without_a_status_code() -> None:
    """As older versions of redis-py have them."""
    assert translated(redis.ResponseError("unknown subcommand 'x'")).line() == b"ERR unknown subcommand 'x'"
    assert translated(redis.ResponseError("ADVANCE needs")).line() == b"ERR ADVANCE needs"
    assert translated(redis.AuthenticationError("Authentication required.")).code == "NOAUTH"
    assert (
        translated(redis.AuthenticationError("invalid username-password pair or user is disabled.")).code == "WRONGPASS"
    )
    assert translated(redis.ResponseError("QUEUEFULL no room")).code == "QUEUEFULL"
    assert translated(OutOfMemoryError("the broker holds")).code == "OOM"
    assert translated(redis.BusyLoadingError("wait")).code == "LOADING"
    assert isinstance(translated(redis.TimeoutError("Timeout reading from socket")), BrokerUnavailableError)
    assert isinstance(translated(redis.ResponseError("")), InvalidRequestError)
