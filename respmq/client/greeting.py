"""The first requests on a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.client.connection import LineBrokenError
from respmq.errors import BrokerError
from respmq.version import __version__

if TYPE_CHECKING:
    from respmq.client.address import Address
    from respmq.client.connection import Connection


#: The word of a server that is still reading its journal.
LOADING = "LOADING"


async def greet(connection: Connection, address: Address, name: str) -> None:
    """Speak RESP3, log in, say who we are, and see that the server has read its journal.

    Raises:
        BrokerError: the server doesn't let us in, or isn't ready (the code is LOADING), or the connection broke.
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
    told.append(connection.start(b"DBSIZE"))
    await hello.wait()
    for pending in told:
        try:
            await pending.wait()
        except LineBrokenError:
            raise
        except BrokerError as error:
            if error.code == LOADING:
                raise
            # NOPERM: who may not say what his library is called, or count the queues, may still work.
