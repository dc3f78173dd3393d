"""Where a broker is: URLs, TLS, Unix sockets, passwords, and what is said when it can't be reached."""

from __future__ import annotations

import socket
import ssl
from functools import partial
from pathlib import Path

import pytest
import trio

from respmq import (
    BrokerError,
    BrokerUnavailableError,
    Client,
    EmbeddedServer,
    InvalidRequestError,
    NoAuthError,
    WrongPasswordError,
    open_server,
)
from respmq.client.address import Address, parse_url
from tests.support.control import Control, eventually

TLS = Path(__file__).parent / "tls"


def trusting() -> ssl.SSLContext:
    """A context that trusts the certificate of the tests, and no other."""
    return ssl.create_default_context(cafile=str(TLS / "cert.pem"))


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("respmq://localhost", Address(host="localhost", port=6390)),
        ("respmq://10.0.0.1:7000/", Address(host="10.0.0.1", port=7000)),
        ("respmq://[::1]:7000", Address(host="::1", port=7000)),
        ("respmq://ann:s%40crt@broker:1", Address(host="broker", port=1, username="ann", password="s@crt")),
        ("respmq://:secret@broker", Address(host="broker", password="secret")),
        ("respmq+unix:///run/respmq.sock", Address(path="/run/respmq.sock")),
        ("respmq+unix://ann:x@/run/a%20b.sock", Address(path="/run/a b.sock", username="ann", password="x")),
    ],
)
def test_urls(url: str, address: Address) -> None:
    assert parse_url(url) == address


def test_a_url_for_tls() -> None:
    context = trusting()
    assert parse_url("respmqs://broker", context) == Address(host="broker", tls=context)
    default = parse_url("respmqs://broker").tls
    assert default is not None
    assert default.verify_mode is ssl.CERT_REQUIRED
    assert default.check_hostname


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://localhost", "the scheme 'redis' is not known"),
        ("respmq://", "a host is wanted"),
        ("respmq://host:70000", "Port out of range"),
        ("respmq://host:x", "Port could not be cast"),
        ("respmq://host/0", "a host is wanted and no path"),
        ("respmq://host?timeout=5", "nothing may stand behind the address"),
        ("respmq+unix://run/respmq.sock", "behind three slashes"),
        ("respmq+unix://", "behind three slashes"),
    ],
)
def test_what_is_no_url_says_why_and_keeps_the_password_to_itself(url: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_url(url.replace("//", "//ann:secret@", 1) if "redis:" in url else url)
    assert reason in caught.value.text
    assert "secret" not in caught.value.text
    assert "respmq://user:password@host:6390" in caught.value.text


def test_a_context_is_for_tls_only() -> None:
    with pytest.raises(InvalidRequestError, match="a TLS context is for respmqs://"):
        parse_url("respmq://host", trusting())
    with pytest.raises(InvalidRequestError, match="a TLS context is for URLs"):
        Client("host", tls=trusting())


def test_how_an_address_is_shown() -> None:
    assert str(Address(host="::1", port=1, password="secret")) == "[::1]:1"
    assert str(Address(path="/run/x", password="secret")) == "/run/x"
    assert "secret" not in repr(Address(password="secret"))


# -- passwords


async def test_passwords() -> None:
    async with open_server({"requirepass": "s/e@cret"}) as server:
        async with Client(server.url) as mq:
            await mq.declare_queue("jobs")
        async with Client(server.host, server.port, password="s/e@cret", username="default") as mq:
            assert await mq.list_queues() == ["jobs"]
            await mq.lease("jobs", wait=0.01)
        with trio.fail_after(5):
            invalid = "invalid username-password pair or user is disabled."
            for client, error, text in (
                (Client(server.host, server.port), NoAuthError, "wants a password: give it in the URL, as in "),
                (Client(server.host, server.port, password="no"), WrongPasswordError, f"let 'default' in: {invalid}"),
                (Client(server.host, server.port, password="no", username="ann"), WrongPasswordError, "let 'ann' in"),
            ):
                with pytest.raises(error) as caught:
                    async with client:
                        pass
                assert text in caught.value.text
                assert caught.value.text.startswith(f"the broker at {server.host}:{server.port} ")


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n", "a 'redis' server"),
        (b"%1\r\n$5\r\nproto\r\n:3\r\n", "no such server"),
        (b"+OK\r\n", "no such server"),
    ],
)
async def test_another_server_is_told_at_once(answer: bytes, what: str, nursery: trio.Nursery) -> None:
    """A Redis server understands HELLO, and would call each command unknown then."""

    async def serve(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            await stream.send_all(answer + b"-ERR unknown\r\n" * 3)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    with trio.fail_after(5), pytest.raises(BrokerError) as caught:
        async with Client("127.0.0.1", port):
            pass
    expected = (
        f"127.0.0.1:{port} is {what}, a respmq one is wanted: start it with `respmq serve`, or see to the address"
    )
    assert caught.value.text == expected
    nursery.cancel_scope.cancel()


async def test_a_name(broker: EmbeddedServer, control: Control) -> None:
    async with Client(broker.host, broker.port, name="mailer") as mq:
        await mq.declare_queue("jobs")
        await mq.lease("jobs", wait=0.01)
        assert [client["name"] for client in await control.clients()] == ["mailer", "mailer"]
        assert {client["lib-name"] for client in await control.clients()} == {"respmq-py"}


# -- Unix sockets and TLS


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "broker.sock"
    async with open_server({"unixsocket": str(path)}), Client(f"respmq+unix://{path}") as mq:
        await mq.declare_queue("jobs")
        await mq.put("jobs", "x")
        [delivery] = await mq.lease("jobs", wait=5)
        assert await delivery.ack()
    assert not path.exists()


async def serve_tls(port: int, task_status: trio.TaskStatus[int]) -> None:
    """A proxy that ends TLS in front of a broker."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")

    async def serve(client: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", port) as server, trio.open_nursery() as nursery:

                async def forward(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
                    async for data in source:
                        await sink.send_all(data)
                    nursery.cancel_scope.cancel()

                nursery.start_soon(forward, client, server)
                nursery.start_soon(forward, server, client)
        except* trio.BrokenResourceError:
            # A client that doesn't trust us, or that has closed without saying so.
            pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(trio.serve_ssl_over_tcp, serve, 0, context, host="127.0.0.1", https_compatible=True)
        )
        task_status.started(listeners[0].transport_listener.socket.getsockname()[1])


async def test_tls(broker: EmbeddedServer, control: Control) -> None:
    async with trio.open_nursery() as nursery:
        port: int = await nursery.start(serve_tls, broker.port)
        async with Client(f"respmqs://localhost:{port}", tls=trusting()) as mq:
            await mq.declare_queue("jobs")
            await mq.put("jobs", "x" * 100_000)
            [delivery] = await mq.lease("jobs", wait=5)
            assert await delivery.ack()

            async def waits() -> bool:
                return await control.stat("jobs", "waiters") == 1

            async with trio.open_nursery() as waiting:
                waiting.start_soon(lambda: mq.lease("jobs", wait=60))
                await eventually(waits, "somebody waits")
                waiting.cancel_scope.cancel()
            await mq.put("jobs", "y")
            assert [found.body for found in await mq.lease("jobs")] == ["y"]
        with pytest.raises(BrokerUnavailableError, match="certificate"):
            async with Client(f"respmqs://localhost:{port}", timeout=0.5):
                pass
        nursery.cancel_scope.cancel()


# -- what can't be reached


async def test_nobody_listens_there() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        with pytest.raises(BrokerUnavailableError) as caught:
            async with Client("127.0.0.1", port, timeout=0.2):
                pass
    assert f"no answer to HELLO from the broker at 127.0.0.1:{port} within 0.2 seconds: " in str(caught.value)
    assert "refused" in str(caught.value)


async def test_there_is_no_such_host_or_socket(tmp_path: Path) -> None:
    for address in ("respmq+unix:///run/there/is/none", "respmq://name.invalid"):
        with pytest.raises(BrokerUnavailableError, match=r"within 0\.2 seconds: "):
            async with Client(address, timeout=0.2):
                pass


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_somebody_else_listens_there(answer: bytes) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        if answer:
            await stream.send_all(answer)
        else:
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        with pytest.raises(BrokerUnavailableError, match="Protocol error" if answer else "no answer to HELLO"):
            async with Client("127.0.0.1", port, timeout=0.3):
                pass
        nursery.cancel_scope.cancel()
