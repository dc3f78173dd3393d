"""`respmq demo`: what it shows, and that it checks what it shows."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from respmq.cli import demo
from respmq.cli.transcript import Reply
from tests.support.server import ROOT, START_DEADLINE

COMMAND = [sys.executable, "-m", "respmq", "demo"]

STEPS = """\
QDECLARE mail ACKTIMEOUT 30s MAXATTEMPTS 2 RETRYDELAY 5s
OK
QPUT mail "welcome ann"
"ID"
QLEASE mail
1) 1) "mail"
   2) "ID"
   3) "LEASE"
   4) (integer) 1
   5) "welcome ann"
QACK mail LEASE
(integer) 1
QPUT mail "welcome bob"
"ID"
QLEASE mail
1) 1) "mail"
   2) "ID"
   3) "LEASE"
   4) (integer) 1
   5) "welcome bob"
QNACK mail LEASE ERROR "mail server refused"
(integer) 1
QLEASE mail
(empty array)
DEBUG ADVANCE 5s
OK
QLEASE mail
1) 1) "mail"
   2) "ID"
   3) "LEASE"
   4) (integer) 2
   5) "welcome bob"
DEBUG ADVANCE 30s
OK
QDEAD LIST mail
"""


@pytest.fixture(scope="module")
def done() -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RESPMQ_PORT": "1", "RESPMQ_HOST": "192.0.2.1", "RESPMQ_REQUIREPASS": "pw"}
    return subprocess.run(
        COMMAND,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_succeeds_whatever_is_set_for_the_users_broker(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr) == (0, "")


def test_it_shows_a_redis_cli_session(done: subprocess.CompletedProcess[str]) -> None:
    """Each command with an explanation before and its reply after it."""
    shown = re.sub(r"\b[0-9a-f]{32}\b", "ID", done.stdout)
    shown = re.sub(r"\b[0-9a-f]{12}-[0-9a-f]+\b", "LEASE", shown)
    steps = re.findall(r"\n# ([^\n]+)\n127\.0\.0\.1:\d+> ([^\n]+)\n(.*?)\n(?=\n)", shown, re.DOTALL)
    assert len(steps) == shown.count("> ")
    session = "".join(f"{command}\n{reply}\n" for _, command, reply in steps)
    assert session.startswith(STEPS)
    letter = session.removeprefix(STEPS)
    assert re.search(r'"body"\n +\d+\) "welcome bob"\n', letter)
    assert re.search(r'"reason"\n +\d+\) "max_attempts"\n', letter)
    assert re.search(r'"error"\n +\d+\) "ack timeout"\n', letter)
    assert "QDEAD REPLAY mail\n(integer) 1\n" in letter
    assert letter.endswith("QACK mail LEASE\n(integer) 1\n")


def test_it_fits_a_terminal_and_says_what_to_do_next(done: subprocess.CompletedProcess[str]) -> None:
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    after = lines[lines.index("What to do next:") :]
    assert any(line.startswith("  respmq serve ") for line in after)


def test_it_takes_no_time() -> None:
    start = time.monotonic()
    subprocess.run(COMMAND, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60, check=True)
    assert time.monotonic() - start < 5


# -- It checks


def wrong(replies: dict[str, Reply], *words: str) -> Reply:
    """A broker that is right up to a command to which `replies` has another answer."""
    command = " ".join(words)
    if command in replies:
        return replies[command]
    if command.startswith("QPUT"):
        return b"id"
    return b"OK" if command.startswith("QDECLARE") else 1


@pytest.mark.parametrize(
    ("command", "reply", "due"),
    [
        ("QDECLARE mail ACKTIMEOUT 30s MAXATTEMPTS 2 RETRYDELAY 5s", None, "OK was due"),
        ("QPUT mail welcome ann", None, "an id was due"),
        ("QLEASE mail", [], 'the message "welcome ann" was due, attempt 1'),
        (
            "QLEASE mail",
            [[b"mail", b"id", b"lease", 2, b"welcome ann"]],
            'the message "welcome ann" was due, attempt 1',
        ),
    ],
)
def test_a_wrong_answer_ends_it(command: str, reply: Reply, due: str) -> None:
    session = demo.Session(lambda *words: wrong({command: reply}, *words), "prompt")
    with pytest.raises(demo.UnexpectedError, match=re.escape(due)):
        demo.tell(session)


def test_its_broker_ends_with_it() -> None:
    with subprocess.Popen(COMMAND, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.wait(START_DEADLINE)
    port = re.search(r"127\.0\.0\.1:(\d+) ", first)
    assert port is not None
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", int(port[1]))) == errno.ECONNREFUSED
