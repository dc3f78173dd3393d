"""The first requests on a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from respmq.client.connection import LineBrokenError
from respmq.errors import BrokerError, NoAuthError, WrongPasswordError, quote
from respmq.version import NAME, __version__

if TYPE_CHECKING:
    from respmq.client.address import Address
    from respmq.client.connection import Connection


#: The word of a server that is still reading its journal.
LOADING = "LOADING"


async def greet(connection: Connection, address: Address, name: str) -> None:
    """Speak RESP3, log in, say who we are, and see that the server has read its journal.

    Raises:
        NoAuthError, WrongPasswordError: the server doesn't let us in.
        BrokerError: it is no broker, or isn't ready (the code is LOADING), or the connection broke.
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
    try:
        _check_is_broker(await hello.wait(), address)
    except NoAuthError:
        msg = f"the broker at {address} wants a password: give it in the URL, as in respmq://:PASSWORD@HOST:PORT"
        raise NoAuthError(msg) from None
    except WrongPasswordError as error:
        msg = f"the broker at {address} doesn't let '{address.username or 'default'}' in: {error.text}"
        raise WrongPasswordError(msg) from None
    for pending in told:
        try:
            await pending.wait()
        except LineBrokenError:
            raise
        except BrokerError as error:
            if error.code == LOADING:
                raise
            # NOPERM: who may not say what his library is called, or count the queues, may still work.


def _check_is_broker(hello: object, address: Address) -> None:
    """See whose answer this is: any Redis server understands HELLO, and none of what comes next.

    Raises:
        BrokerError: it isn't that of a respmq server.
    """
    server = cast("dict[object, object]", hello).get(b"server") if isinstance(hello, dict) else None
    if server != NAME.encode():
        what = f"a '{quote(server)}' server" if isinstance(server, bytes) else "no such server"
        msg = f"{address} is {what}, a {NAME} one is wanted: start it with `respmq serve`, or see to the address"
        raise BrokerError(msg)
