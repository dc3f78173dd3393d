"""The first requests on a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.errors import OtherError
from respmq.version import __version__

if TYPE_CHECKING:
    from respmq.client.address import Address
    from respmq.client.connection import Connection


async def greet(connection: Connection, address: Address, name: str) -> None:
    """Speak RESP3, log in, say who we are.

    Raises:
        BrokerError: the server doesn't let us in, or the connection broke.
    """
    words = [b"HELLO", b"3"]
    if address.password is not None or address.username is not None:
        words += [b"AUTH", (address.username or "default").encode(), (address.password or "").encode()]
    if name:
        words += [b"SETNAME", name.encode()]
    hello = connection.start(*words)
    told = [
        connection.start(b"CLIENT", b"SETINFO", b"LIB-NAME", b"respmq-py"),
        connection.start(b"CLIENT", b"SETINFO", b"LIB-VER", __version__.encode()),
    ]
    await hello.wait()
    for pending in told:
        try:
            await pending.wait()
        except OtherError:
            # NOPERM: a user who may not even say what his library is called may still work.
            continue
