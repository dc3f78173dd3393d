"""`open_server`: a real server inside another program."""

from __future__ import annotations

import gc
import logging
import signal

import pytest
import trio

from respmq import Client, open_server
from respmq.config import ConfigError
from respmq.server.app import ListenError
from tests.support.control import open_control


async def test_it_listens_on_a_free_port_and_is_gone_afterwards() -> None:
    async with open_server() as one, open_server() as two:
        assert one.port != two.port
        assert one.url == f"respmq://127.0.0.1:{one.port}"
        async with Client(one.url) as first, Client(two.url) as second:
            await first.declare_queue("jobs")
            assert await second.list_queues() == []
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", one.port)
    async with open_server({"port": one.port}) as again:
        assert again.port == one.port


async def test_it_leaves_signals_and_the_collector_alone() -> None:
    frozen, threshold = gc.get_freeze_count(), gc.get_threshold()
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    async with open_server() as server, Client(server.url):
        assert (gc.get_freeze_count(), gc.get_threshold()) == (frozen, threshold)
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers


async def test_settings_are_those_of_a_configuration_file() -> None:
    async with open_server({"maxclients": 2, "requirepass": "p w", "host": ["127.0.0.1"]}) as server:
        assert server.url == f"respmq://:p%20w@127.0.0.1:{server.port}"
        async with Client(server.url), Client(server.url):
            pass
    with pytest.raises(ConfigError, match="unknown setting 'maxclient' in open_server, did you mean 'maxclients'"):
        async with open_server({"maxclient": 2}):
            pass
    with pytest.raises(ConfigError, match="without a password"):
        async with open_server({"host": "0.0.0.0"}):  # noqa: S104 - that it is refused is the point
            pass
    async with open_server() as server:
        with pytest.raises(ListenError, match=f"can't listen on 127.0.0.1 port {server.port}"):
            async with open_server({"port": server.port}):
                pass


async def test_it_may_be_shut_down_by_a_client() -> None:
    async with open_server() as server:
        async with open_control(server.port) as control:
            await control.send("SHUTDOWN")
        with trio.fail_after(5):
            while True:
                try:
                    await (await trio.open_tcp_stream("127.0.0.1", server.port)).aclose()
                except OSError:
                    break


async def test_what_the_body_raises_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_server():
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        async with open_server() as server, Client(server.url):
            raise ZeroDivisionError


async def test_cancelling_the_body_ends_it() -> None:
    with trio.move_on_after(0.01) as scope:
        async with open_server() as server, Client(server.url):
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_it_logs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "respmq.server"):
        async with open_server({"requirepass": "secret"}) as server:
            with pytest.raises(Exception, match="invalid username-password"):
                async with Client(server.host, server.port, password="wrong"):
                    pass
    assert any("login failed" in record.getMessage() for record in caplog.records)
