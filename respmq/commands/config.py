"""CONFIG: the settings of the running server."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any

from respmq.commands.arguments import BLOB, NONE_NEEDED, Described
from respmq.commands.context import Context
from respmq.commands.registry import command, container
from respmq.commands.replies import MAP, OK
from respmq.config import FIELDS, kind_of, show
from respmq.configfile import rewrite
from respmq.errors import InvalidRequestError, quote
from respmq.globs import glob_match

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.config import Config
    from respmq.resp.values import Answer

container("CONFIG", summary="A container for commands on the server's settings.", group="server")

_FLAGS = ("admin", "noscript", "loading", "stale")

#: What stock clients ask a server for although it is no setting here.
_FOR_CLIENTS: dict[str, Callable[[Config], str]] = {
    "appendonly": lambda _config: "no",
    "databases": lambda _config: "1",
    "save": lambda _config: "",
}


@command(
    "CONFIG GET",
    group="server",
    reply=MAP.saying("map: settings to their values"),
    flags=(*_FLAGS, "stateless"),
    complexity="O(N*M) with N settings and M patterns",
)
def config_get(ctx: Context, *parameters: Annotated[bytes, BLOB, Described("Globs of names.")]) -> dict[str, Answer]:
    """Returns the settings whose names match one of the globs."""
    config = ctx.server.config
    found: dict[str, Answer] = {}
    for name in sorted([*FIELDS, *_FOR_CLIENTS]):
        if any(glob_match(pattern, name.encode(), ignore_case=True) for pattern in parameters):
            found[name] = show(config, name) if name in FIELDS else _FOR_CLIENTS[name](config)
    return found


@command("CONFIG SET", group="server", reply=OK, flags=_FLAGS, complexity="O(N) with N settings")
def config_set(
    ctx: Context,
    parameter: Annotated[bytes, BLOB, Described("The name of a setting.")],
    value: Annotated[bytes, BLOB, Described("What it is from now on.")],
    *further: Annotated[bytes, BLOB, NONE_NEEDED, Described("More settings, each with its value.", "parameter value")],
) -> None:
    """Changes settings: all of them or, on an error, none."""
    words = [parameter, value, *further]
    if len(words) % 2:
        msg = f"syntax error: CONFIG SET needs a value for '{quote(words[-1])}'"
        raise InvalidRequestError(msg)
    names = [_known(word) for word in words[::2]]
    changes: dict[str, Any] = {}
    for name, text in zip(names, words[1::2], strict=True):
        if name in changes:
            raise _failure(name, "duplicate parameter")
        changes[name] = _read(name, text)
    for name, changed in changes.items():
        setattr(ctx.server.config, FIELDS[name].name, changed)
    ctx.server.config.changed |= changes.keys()
    ctx.server.configure()


def _known(word: bytes) -> str:
    name = word.decode("ascii", "replace").lower()
    if name in FIELDS or name in _FOR_CLIENTS:
        return name
    near = difflib.get_close_matches(name, FIELDS, 1)
    hint = f"did you mean '{near[0]}'?" if near else "see CONFIG GET * for all"
    msg = f"Unknown option or number of arguments for CONFIG SET - '{quote(word)}', {hint}"
    raise InvalidRequestError(msg)


def _read(name: str, text: bytes) -> Any:
    if name not in FIELDS or not FIELDS[name].metadata["mutable"]:
        raise _failure(name, "can't set immutable config, it is fixed when the server starts")
    try:
        return kind_of(name).read(text.decode())
    except UnicodeDecodeError:
        raise _failure(name, "argument must be UTF-8 text") from None
    except ValueError as error:
        shown = "" if FIELDS[name].metadata["secret"] else f", not '{quote(text)}'"
        raise _failure(name, f"{error}{shown}") from None


def _failure(name: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f"CONFIG SET failed (possibly related to argument '{name}') - {why}")


@command("CONFIG RESETSTAT", group="server", reply=OK, flags=_FLAGS)
def config_resetstat(ctx: Context) -> None:
    """Sets the counts that INFO shows back to 0; those of queues stay."""
    ctx.server.reset_counts()


@command("CONFIG REWRITE", group="server", reply=OK, flags=_FLAGS)
def config_rewrite(ctx: Context) -> None:
    """Writes the settings into the configuration file that the server was started with."""
    config = ctx.server.config
    if config.path is None:
        msg = "The server is running without a config file: start it with --config FILE to have one that can be written"
        raise InvalidRequestError(msg)
    try:
        rewrite(config, config.path)
    except OSError as error:
        msg = f"Rewriting config file: {error.strerror} ({quote(config.path.encode())})"
        raise InvalidRequestError(msg) from error
    except ValueError as error:
        msg = f"Rewriting config file: {quote(config.path.encode())} is no TOML any more: {quote(str(error).encode())}"
        raise InvalidRequestError(msg) from error
