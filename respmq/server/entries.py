"""The command table as one server uses it: what a call needs, next to what is counted about calls."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from respmq.commands.replies import FRAMES
from respmq.errors import BrokerError, InvalidRequestError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from respmq.commands.registry import Table
    from respmq.commands.spec import Spec
    from respmq.engine.base import Engine

#: Commands of the key-value kind: whoever sends one has taken the broker for a database.
_KEY_VALUE = frozenset(
    b"APPEND BITCOUNT BLPOP BRPOP BZPOPMIN COPY DECR DECRBY DEL DUMP EVAL EVALSHA EXISTS EXPIRE FCALL FLUSHALL FLUSHDB "
    b"GEOADD GET GETDEL GETEX GETRANGE GETSET HDEL HGET HGETALL HINCRBY HLEN HMGET HMSET HSET INCR INCRBY KEYS LINDEX "
    b"LLEN LMOVE LPOP LPUSH LRANGE LREM LSET LTRIM MGET MSET OBJECT PERSIST PEXPIRE PFADD PTTL RANDOMKEY RENAME RPOP "
    b"RPOPLPUSH RPUSH SADD SCAN SCARD SCRIPT SET SETEX SETNX SINTER SISMEMBER SMEMBERS SORT SPOP SREM STRLEN SUNION "
    b"TTL TYPE UNLINK XACK XADD XDEL XLEN XPENDING XRANGE XREAD XREADGROUP ZADD ZCARD ZINCRBY ZPOPMIN ZRANGE "
    b"ZRANGEBYSCORE ZREM ZSCORE".split()
)

#: How much of an unknown command the error repeats, as in Redis.
_SHOWN = 128


class Entry:
    """One command or subcommand. `low` to `high` words can be passed to `run` as they are, without parsing.

    Calls of `plain_words` words, if that isn't 0, have a short way: `plain_one` is a method of the engine that does
    one, `plain_stretch` one that does several, `encode_stretch` writes what that returns (see `respmq.commands.spec`).
    """

    __slots__ = (
        "calls",
        "encode2",
        "encode3",
        "encode_stretch",
        "failed",
        "high",
        "low",
        "may_block",
        "nanos",
        "no_auth",
        "plain_one",
        "plain_stretch",
        "plain_words",
        "pushes",
        "rejected",
        "run",
        "skip",
        "spec",
        "stateless",
    )

    def __init__(self, spec: Spec, engine: Engine) -> None:
        self.spec = spec
        plain = spec.plain
        self.plain_words = 0 if plain is None else plain.words
        self.plain_one: Callable[..., Any] = spec.function if plain is None else getattr(engine, plain.one)
        self.plain_stretch: Callable[..., Any] = spec.function if plain is None else getattr(engine, plain.stretch)
        self.encode_stretch: Callable[[Any], bytes] = spec.reply.encode2 if plain is None else plain.encode
        self.run = spec.function
        self.low, self.high = spec.grammar.direct
        self.encode2 = spec.reply.encode2
        self.encode3 = spec.reply.encode3
        self.may_block = "blocking" in spec.flags
        self.no_auth = "no_auth" in spec.flags
        #: Whether its answers are `Stateless`.
        self.stateless = "stateless" in spec.flags
        #: Whether its reply is no reply but pushes.
        self.pushes = spec.reply is FRAMES
        #: How many words the name has.
        self.skip = spec.grammar.depth
        self.calls = self.nanos = self.rejected = self.failed = 0

    def call(self, context: object, args: list[bytes]) -> Any:
        """Read the arguments by the command's grammar, then run it.

        Raises:
            BrokerError: the arguments are wrong, or the command can't be done.
        """
        if self.low <= len(args) <= self.high:
            return self.run(context, *args[self.skip :])
        values, options = self.spec.grammar.parse(args)
        return self.run(context, *values, **options)


class Entries:
    """Entries by name. Commands are found under the spellings that clients use, subcommands within their container."""

    def __init__(self, table: Table, engine: Engine) -> None:
        self.table = table
        self.by_name: dict[bytes, Entry] = {}
        self._containers: dict[bytes, dict[bytes, Entry]] = {}
        #: What containers do without a subcommand, for those that do something.
        self._bare: dict[bytes, Entry] = {}
        for spec in table.commands.values():
            if spec.name in table.containers:
                self._bare[spec.name.encode()] = Entry(spec, engine)
                continue
            self.by_name[spec.name.encode()] = self.by_name[spec.name.lower().encode()] = Entry(spec, engine)
        for container in table.containers.values():
            self._containers[container.name.encode()] = {
                name.encode(): Entry(spec, engine) for name, spec in container.subcommands.items()
            }

    def __iter__(self) -> Iterator[Entry]:
        """Every entry once."""
        yield from {id(entry): entry for entry in self.by_name.values()}.values()
        yield from self._bare.values()
        for entries in self._containers.values():
            yield from entries.values()

    def find(self, args: list[bytes]) -> Entry:
        """The entry for a call.

        Raises:
            BrokerError: no such command or subcommand; the text says what there is.
        """
        name = args[0].upper()
        entry = self.by_name.get(name)
        if entry is not None:
            return entry
        container = self._containers.get(name)
        if container is None:
            raise self._unknown(args)
        if len(args) == 1:
            if name in self._bare:
                return self._bare[name]
            shown = quote(args[0]).lower()
            msg = f"wrong number of arguments for '{shown}' command, a subcommand is wanted. Try {shown.upper()} HELP."
            raise InvalidRequestError(msg)
        entry = container.get(args[1].upper())
        if entry is None:
            msg = f"unknown subcommand '{quote(args[1])}'. Try {quote(name)} HELP."
            raise InvalidRequestError(msg)
        return entry

    def _unknown(self, args: list[bytes]) -> BrokerError:
        name = quote(args[0][:_SHOWN])
        if args[0].upper() in _KEY_VALUE:
            return InvalidRequestError(f"unknown command '{name}', this is a message broker: see QPUT, QLEASE, QACK")
        # Redis has no commands that begin with Q, but QUIT: a client that sends one has meant one of ours.
        ours = [known for known in self.table.names() if known != "QUIT"] if name[:1] in "Qq" else []
        close = difflib.get_close_matches(name.upper(), ours, 1)
        if close:
            return InvalidRequestError(f"unknown command '{name}', did you mean '{close[0]}'?")
        shown = ""
        for arg in args[1:]:
            if len(shown) >= _SHOWN:
                break
            shown += f"'{quote(arg[: _SHOWN - len(shown)])}' "
        return InvalidRequestError(f"unknown command '{name}', with args beginning with: {shown}")
