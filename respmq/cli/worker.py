"""`respmq worker`: runs a function of a program over a queue, until it is stopped."""

from __future__ import annotations

import importlib
import logging
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from respmq.durations import parse_duration
from respmq.errors import BrokerError, InvalidRequestError
from respmq.version import __version__

if TYPE_CHECKING:
    from respmq.worker.handling import Handler

_HELP = """\
Run a function over a queue.

HANDLER is module:function, of a module in the current directory or an installed one. The function gets a Delivery,
and may be async or a plain one, which runs in a thread. If it returns, the message is acked; respmq.SoftFailure lets
it come back later; any other exception makes a dead letter of it.

The first SIGTERM or SIGINT lets what runs finish, a second one gives it back at once. DURATION is seconds or a number
with one of the units ms, s, m, h, d.

\b
Example:
  respmq worker tasks:resize --queue photos --concurrency 8
"""


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A duration in seconds."""
    if value is None:
        return None
    try:
        return parse_duration(value.encode(), param.opts[0], zero=param.name != "handler_timeout") / 1000
    except InvalidRequestError as error:
        raise click.BadParameter(error.text, ctx=ctx, param=param) from None


def _alone(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str:
    """The only one: of several, click would take the last one without a word."""
    queue, *others = values
    if others:
        msg = f"a worker has one queue: start another one for '{others[0]}'"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return queue


def _url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A URL: a Client takes a host's name alone, too, in which a port would be part of the name."""
    if "://" not in value:
        msg = f"'{value}' is no URL: respmq://HOST:PORT is wanted"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return value


def _load(handler: str) -> Handler:
    """The function that is named.

    Raises:
        click.BadParameter: there is none.
    """
    module_name, colon, path = handler.partition(":")
    if not (module_name and colon and path):
        msg = f"'{handler}' names no function: MODULE:FUNCTION is wanted, such as tasks:resize"
        raise click.BadParameter(msg, param_hint="HANDLER")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            # The module is there, and lacks something in turn.
            raise
        msg = f"there is no module '{error.name}', neither in {here} nor installed"
        raise click.BadParameter(msg, param_hint="HANDLER") from None
    for name in path.split("."):
        if not hasattr(found, name):
            msg = f"module '{module_name}' has no '{path}'"
            raise click.BadParameter(msg, param_hint="HANDLER")
        found = getattr(found, name)
    if not callable(found):
        msg = f"'{handler}' is a {type(found).__name__}, a function is wanted"
        raise click.BadParameter(msg, param_hint="HANDLER")
    return cast("Handler", found)


@click.command(help=_HELP)
@click.argument("handler", metavar="HANDLER")
@click.option(
    "--queue",
    required=True,
    multiple=True,
    callback=_alone,
    help="Where the work comes from; declared if it isn't there.",
)
@click.option(
    "--url",
    default="respmq://127.0.0.1:6390",
    callback=_url,
    envvar="RESPMQ_URL",
    show_default=True,
    show_envvar=True,
    help="The broker; respmq://user:password@host:port, respmqs:// for TLS, respmq+unix:///path.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many messages are worked on at a time.",
)
@click.option("--exchange", help="Bind the queue to this exchange; declared as a TOPIC one if it isn't there.")
@click.option(
    "--binding-key",
    "binding_keys",
    multiple=True,
    help="For which routing keys, or without --exchange topics. May be repeated.",
)
@click.option("--results", help="Publish what the function returns to this exchange.")
@click.option("--control", help="Publish an envelope for each dead letter to this exchange.")
@click.option(
    "--handler-timeout",
    callback=_seconds,
    metavar="DURATION",
    help="How long one message may take; without it, for ever.",
)
@click.option(
    "--shutdown-timeout",
    callback=_seconds,
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="How long what runs may take to finish once the worker is stopped.",
)
@click.option(
    "--max-retries",
    type=click.IntRange(min=0, max=10),
    default=5,
    show_default=True,
    help="How often a message comes back after a soft failure.",
)
@click.option(
    "--initial-delay",
    callback=_seconds,
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="The pause before the first retry; each further one is twice as long.",
)
@click.option(
    "--max-delay",
    callback=_seconds,
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="The longest pause.",
)
def worker(
    handler: str,
    queue: str,
    url: str,
    concurrency: int,
    exchange: str | None,
    binding_keys: tuple[str, ...],
    results: str | None,
    control: str | None,
    handler_timeout: float | None,
    shutdown_timeout: float,
    max_retries: int,
    initial_delay: float,
    max_delay: float,
) -> None:
    """Run a function over a queue."""
    import trio

    from respmq.client.client import Client
    from respmq.worker.policy import RetryPolicy
    from respmq.worker.publisher import Publisher
    from respmq.worker.signals import run_workers
    from respmq.worker.worker import Worker

    function = _load(handler)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(message)s")

    async def run() -> None:
        async with Client(url) as client:
            made = Worker(
                client,
                queue,
                function,
                exchange=exchange,
                binding_keys=binding_keys,
                concurrency=concurrency,
                handler_timeout=handler_timeout,
                shutdown_timeout=shutdown_timeout,
                retry=RetryPolicy(initial_delay=initial_delay, max_delay=max_delay, max_retries=max_retries),
                results=None if results is None else Publisher(client, results),
                control=None if control is None else Publisher(client, control),
            )
            await made.setup()
            click.echo(f"respmq {__version__}, process {os.getpid()}, Python {platform.python_version()}")
            click.echo(f"Working on queue '{queue}' with {handler}")
            await run_workers(made)

    try:
        trio.run(run)
    except BrokerError as error:
        raise click.ClickException(error.text) from None
