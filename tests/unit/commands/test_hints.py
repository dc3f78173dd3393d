"""What a mistyped command is answered with, and what is checked when a transaction is queued."""

from __future__ import annotations

import pytest

from tests.unit.rig import Rig


@pytest.mark.parametrize(
    ("typed", "meant"), [("QUPT", "QPUT"), ("qlese", "QLEASE"), ("QDEADS", "QDEAD"), ("QSTAT", "QSTATS")]
)
def test_a_mistyped_command_of_ours_is_recognised(typed: str, meant: str) -> None:
    client = Rig().connect()
    expected = f"-ERR unknown command '{typed}', did you mean '{meant}'?\r\n"
    assert client.cmd(typed, "jobs", "x") == expected.encode()


@pytest.mark.parametrize("typed", ["QZZZZZZ", "PUT", "FOO"])
def test_other_unknown_commands_get_redis_text(typed: str) -> None:
    client = Rig().connect()
    assert client.cmd(typed, "x") == f"-ERR unknown command '{typed}', with args beginning with: 'x' \r\n".encode()


@pytest.mark.parametrize(
    "mistake",
    [
        ("QPUT", "jobs", "x", "FOO"),
        ("QPUT", "jobs", "x", "DELAY", "soon"),
        ("QNACK", "jobs", "t", "REJECT", "RELEASE"),
        ("QLEASE", "jobs", "COUNT", "0"),
        ("EXCHANGE", "DECLARE", "e", "STAR"),
        ("QDEAD", "LIST", "jobs", "OFFSET", "-1"),
    ],
)
def test_a_mistake_in_a_command_of_ours_aborts_the_transaction(mistake: tuple[str, ...]) -> None:
    client = Rig().connect()
    client.cmd("QDECLARE", "jobs")
    client.cmd("MULTI")
    assert client.cmd("QPUT", "jobs", "kept out") == b"+QUEUED\r\n"
    assert client.cmd(*mistake).startswith(b"-ERR ")
    assert client.cmd("EXEC") == b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    assert client.cmd("QPEEK", "jobs") == b"*0\r\n"
