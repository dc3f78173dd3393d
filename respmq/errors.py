"""Every error a user can meet, defined once: its code on the wire, its text, and whether the connection survives it.

There are two kinds. A `BrokerError` is an answer: the command did nothing, the connection goes on. A `ProtocolError`
means that the byte stream itself can't be followed any more: it is answered, then the connection is closed.
"""

from __future__ import annotations

import re

#: The longest piece of a user's argument that an error repeats: every possible name and id in whole.
QUOTE_LIMIT = 255


def quote(value: bytes) -> str:
    r"""`value` as it may stand in an error line: printable ASCII, everything else as `\xff` escapes, cut when long."""
    shown = value[:QUOTE_LIMIT].decode("ascii", "backslashreplace")
    if shown.isprintable() and len(value) <= QUOTE_LIMIT:
        return shown
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
    return shown + "..." if len(value) > QUOTE_LIMIT else shown


class BrokerError(Exception):
    """Base of all errors that a user can cause. `code` is the error word on the wire, `text` what follows it."""

    #: One for the whole class, save where the word is one that this version doesn't know.
    code: str = "ERR"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def line(self) -> bytes:
        """The error as it goes over the wire, without the leading `-` and the line end."""
        return f"{self.code} {self.text}".encode()


class InvalidRequestError(BrokerError):
    """`ERR`: a wrong argument, option, number of arguments or state."""


class QueueNotFoundError(BrokerError):
    """`NOQUEUE`: the command names a queue that doesn't exist."""

    code = "NOQUEUE"

    @classmethod
    def named(cls, name: bytes) -> QueueNotFoundError:
        """The error for the unknown queue `name`."""
        return cls(f"no such queue '{quote(name)}'")


class QueueFullError(BrokerError):
    """`QUEUEFULL`: the queue holds MAXLEN waiting messages and its OVERFLOW is REJECT."""

    code = "QUEUEFULL"


class QueueConfigConflictError(BrokerError):
    """`CONFLICT`: the queue or exchange exists with other settings than those declared."""

    code = "CONFLICT"


class ExchangeNotFoundError(BrokerError):
    """`NOEXCHANGE`: the command names an exchange that doesn't exist."""

    code = "NOEXCHANGE"

    @classmethod
    def named(cls, name: bytes) -> ExchangeNotFoundError:
        """The error for the unknown exchange `name`."""
        return cls(f"no such exchange '{quote(name)}'")


class InvalidTopicError(BrokerError):
    """`INVALIDTOPIC`: not a possible topic or pattern, or a topic of the broker's own."""

    code = "INVALIDTOPIC"


class InvalidNameError(BrokerError):
    """`INVALIDNAME`: not a possible name of a queue or exchange."""

    code = "INVALIDNAME"


class TooBigError(BrokerError):
    """`TOOBIG`: a message with its headers and attachments is above `max-message-size`."""

    code = "TOOBIG"


class OutOfMemoryError(BrokerError):
    """`OOM`: the command stores something and the broker holds `maxmemory` already."""

    code = "OOM"


class PersistenceError(BrokerError):
    """`MISCONF`: the journal has no room, or can't be trusted any more, so nothing can be changed for now."""

    code = "MISCONF"


class LoadingError(BrokerError):
    """`LOADING`: the journal is still being read after a start."""

    code = "LOADING"


class NoAuthError(BrokerError):
    """`NOAUTH`: the connection has to log in first."""

    code = "NOAUTH"


class WrongPasswordError(BrokerError):
    """`WRONGPASS`: unknown user or wrong password."""

    code = "WRONGPASS"


class NoProtocolError(BrokerError):
    """`NOPROTO`: HELLO asked for a protocol version that doesn't exist."""

    code = "NOPROTO"


class ExecAbortError(BrokerError):
    """`EXECABORT`: a command of the transaction could not be queued, so none of them was run."""

    code = "EXECABORT"


class UnblockedError(BrokerError):
    """`UNBLOCKED`: CLIENT UNBLOCK ... ERROR ended a blocked command."""

    code = "UNBLOCKED"


class BodyDecodeError(BrokerError):
    """`ERR`: the bytes of a body aren't what its header `content-type` says. Only readers meet it, never the wire."""


class BrokerUnavailableError(BrokerError):
    """`UNAVAILABLE`: a client could not reach the broker in time. Never on the wire, for lack of one."""

    code = "UNAVAILABLE"


class ProtocolError(BrokerError):
    """`ERR Protocol error: ...`: the byte stream can't be followed; answered, then the connection is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Protocol error: {text}")


class JournalError(Exception):
    """A journal can't be used; the text names the file or folder, what is wrong, and what can be done."""


class JournalDamagedError(JournalError):
    """A journal has a damaged or missing part without which the state can't be known."""


class OtherError(BrokerError):
    """`ERR`, or whatever word a server uses that has no class here; the `code` of the instance tells."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[OtherError], tuple[str, str]]:
        return OtherError, (self.code, self.text)


_WORD = re.compile(r"([A-Z][A-Z0-9]*)(?: (.*))?", re.DOTALL)

#: The class of each error word. Several have ERR, which says no more than that.
_CLASSES: dict[str, type[BrokerError]] = {
    kind.code: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, BrokerError) and "code" in vars(kind)
}
_CLASSES["ERR"] = InvalidRequestError


def error_from_line(line: str) -> BrokerError:
    """The error that a server has answered with, from its line without the leading `-` and the line end."""
    match = _WORD.fullmatch(line)
    if match is None:
        return InvalidRequestError(line)
    word, text = match[1], match[2] or ""
    kind = _CLASSES.get(word)
    return OtherError(word, text) if kind is None else kind(text)
