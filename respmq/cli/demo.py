"""`respmq demo`: a broker and a job's life on it, shown as the redis-cli session that it stands for.

Every reply is checked, so that the demo is a test of the installation as well. The broker's time stands still and is
moved on where the story has to wait.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, cast

import click

from respmq.cli.own_servers import PATIENCE, own_broker
from respmq.cli.transcript import OK, Reply, show_command, show_reply

if TYPE_CHECKING:
    from collections.abc import Callable

_NEXT = """\
That was the life of two jobs: leased and acked; failed, retried, given up, looked at and replayed.

What to do next:
  respmq serve            Start a broker of your own, on port 6390.
  redis-cli -p 6390       Talk to it. Any Redis client can.
  respmq serve --help     See what can be set.
"""


class UnexpectedError(click.ClickException):
    """The broker did not do what the demo says it does."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the demo failed: {what}")


class Session:
    """A redis-cli session: types commands, shows and checks the replies."""

    def __init__(self, execute: Callable[..., Reply], prompt: str) -> None:
        self._execute = execute
        self._prompt = prompt

    def step(self, why: str, *words: str) -> Reply:
        """Explain a command, run it and show what came back."""
        click.echo(f"\n# {why}\n{self._prompt}> {show_command(words)}")
        reply = self._execute(*words)
        click.echo(show_reply(OK if reply == OK else reply))
        return reply

    def expect(self, wanted: Reply, why: str, *words: str) -> None:
        """A step that has one right answer."""
        _check(self.step(why, *words) == wanted, f"{show_reply(wanted)} was due")

    def lease(self, attempt: int, body: str, why: str, *words: str) -> str:
        """A QLEASE that must bring one message; the lease's token."""
        match self.step(why, *words):
            case [[b"mail", bytes(), bytes(token), *found]] if found == [attempt, body.encode()]:
                return token.decode()
            case _:
                raise UnexpectedError(f'the message "{body}" was due, attempt {attempt}')


@click.command()
def demo() -> None:
    """Show a job's life on a broker that is started for it.

    Starts a broker on a free port, puts, leases, acks, fails, retries and replays messages through redis-py, and shows
    it as a redis-cli session. Exits with status 0 if the broker answered as it should.
    """
    try:
        import redis
    except ImportError:
        msg = "the demo reaches its broker through redis-py: pip install 'respmq[redis]'"
        raise click.ClickException(msg) from None
    # So that the broker is ended too.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        own_broker("--virtual-clock", lifetime=PATIENCE) as port,
        redis.Redis("127.0.0.1", port, protocol=2) as client,
    ):
        click.echo(f"A broker listens on 127.0.0.1:{port} for as long as this demo runs. A redis-cli session with it:")
        try:
            execute = cast("Callable[..., Reply]", client.execute_command)
            tell(Session(execute, f"127.0.0.1:{port}"))
        except redis.RedisError as error:
            raise UnexpectedError(str(error)) from None
    click.echo(f"\n{_NEXT}", nl=False)


def tell(session: Session) -> None:
    """The story.

    Raises:
        UnexpectedError: a reply is not what it should be.
    """
    session.expect(
        OK,
        "A queue: who leases a message has 30 seconds to ack it, after two failures it is a dead letter.",
        "QDECLARE", "mail", "ACKTIMEOUT", "30s", "MAXATTEMPTS", "2", "RETRYDELAY", "5s",
    )  # fmt: skip
    _check(session.step("A message. The reply is its id.", "QPUT", "mail", "welcome ann") is not None, "an id was due")
    token = session.lease(1, "welcome ann", "A worker leases it: queue, id, lease, attempt, body.", "QLEASE", "mail")
    session.expect(1, "The mail is sent, the worker acks the lease, the message is gone.", "QACK", "mail", token)
    _check(session.step("Another message.", "QPUT", "mail", "welcome bob") is not None, "an id was due")
    token = session.lease(1, "welcome bob", "A worker leases it ...", "QLEASE", "mail")
    session.expect(1, "... and fails.", "QNACK", "mail", token, "ERROR", "mail server refused")
    session.expect([], "There is nothing to lease: before a retry comes a pause.", "QLEASE", "mail")
    session.expect(OK, "Let the 5 seconds pass (only a broker with --virtual-clock can).", "DEBUG", "ADVANCE", "5s")
    session.lease(2, "welcome bob", "The second attempt. This worker crashes and never acks.", "QLEASE", "mail")
    session.expect(OK, "Its lease expires after 30 seconds, which is a failure too.", "DEBUG", "ADVANCE", "30s")
    match session.step("That was the last attempt: the message is a dead letter.", "QDEAD", "LIST", "mail"):
        case [[*fields]]:
            letter = dict(zip(fields[::2], fields[1::2], strict=False))
            found = (letter.get(b"body"), letter.get(b"reason"), letter.get(b"error"))
            _check(found == (b"welcome bob", b"max_attempts", b"ack timeout"), "the expired message was due")
        case _:
            raise UnexpectedError("one dead letter was due")
    session.expect(1, "The cause is found and removed: give it another life.", "QDEAD", "REPLAY", "mail")
    token = session.lease(1, "welcome bob", "It is leased again, its attempts counted anew ...", "QLEASE", "mail")
    session.expect(1, "... and done at last.", "QACK", "mail", token)


def _check(holds: bool, due: str) -> None:  # noqa: FBT001 - a condition, as in an assert
    if not holds:
        raise UnexpectedError(due)
