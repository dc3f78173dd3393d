"""The runner against a fake server: it must pass what is right and notice, in time, each thing that is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cli import main, run
from conformance.connection import Broken, Control
from conformance.every import cut_everywhere
from conformance.model import Vector, load_file
from conformance.play import FAILED, PASSED, SKIPPED, Result, Settings, play
from tests.conformance.fake import Answer, FakeConnection, FakeServer, fake_server

TIMEOUT = 0.3


def vectors(tmp_path: Path, *steps: str, head: str = "") -> list[Vector]:
    """One vector for each list of steps."""
    path = tmp_path / "some.toml"
    parts = [
        f'[[vector]]\nname = "v{at}"\npromise = "It holds."\n{head}\nsteps = {text}\n' for at, text in enumerate(steps)
    ]
    path.write_text("\n".join(parts), encoding="utf-8")
    return load_file(path)


def played(server: FakeServer, vector: Vector, protocol: int = 2, cut: str = "whole") -> Result:
    """One vector, played once."""
    control = Control(server.address, TIMEOUT)
    try:
        settings = Settings(server.address, protocol, cut, TIMEOUT)
        return cut_everywhere(vector, settings, control) if cut == "every" else play(vector, settings, control)
    finally:
        control.close()


def outcome(tmp_path: Path, steps: str, answers: dict[str, Answer], protocol: int = 2, cut: str = "whole") -> Result:
    """What comes of these steps against a server that answers so."""
    with fake_server(answers, virtual=True) as server:
        return played(server, vectors(tmp_path, steps)[0], protocol, cut)


CUTS = ["whole", "bytes", "every"]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_right_server_passes(tmp_path: Path, protocol: int, cut: str) -> None:
    steps = """[
      { send = "ECHO abc", reply = "$abc" },
      { pipeline = ["PING", "ECHO x"], replies = ["+PONG", "$x"] },
      { raw = 'PING\\r\\nPI', bytes = '+PONG\\r\\n' },
      { raw = 'NG\\r\\n', reply = "+PONG", quiet = true },
      { send = "BYE", bytes = '+OK\\r\\n' },
    ]"""
    assert outcome(tmp_path, steps, {"BYE": b"+OK\r\n"}, protocol, cut).status == PASSED


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    ("steps", "answers"),
    [
        ('[{ send = "GO", reply = "+OK" }]', {"GO": b"$2\r\nOK\r\n"}),
        ('[{ send = "PING", reply = "+PONG" }]', {"PING": b"$4\r\nPONG\r\n"}),
        ('[{ send = "ECHO a", reply = "$a" }]', {"ECHO": b"-ERR no\r\n"}),
        ('[{ send = "GO", reply = "+OK" }]', {"GO": b""}),
        ('[{ send = "GO", reply = "+OK" }]', {"GO": None}),
        ('[{ send = "GO", reply = "+OK" }]', {"GO": b"what\r\n"}),
        ('[{ send = "GO", reply = "+OK" }]', {"GO": b"+O"}),
        ("[{ send = 'GO', bytes = '+OK\\r\\n' }]", {"GO": b"+ok\r\n"}),
        ("[{ send = 'GO', bytes = '+OK\\r\\n' }]", {"GO": b"+O"}),
        ("[{ send = 'GO', reply = '+OK', quiet = true }]", {"GO": b"+OK\r\n+OK\r\n"}),
        ("[{ send = 'GO', reply = '+OK', closed = true }]", {"GO": b"+OK\r\n"}),
        ("[{ send = 'GO', closed = true }]", {"GO": b"+OK\r\n"}),
    ],
)
def test_a_wrong_server_fails(tmp_path: Path, steps: str, answers: dict[str, Answer], cut: str) -> None:
    begun = time.monotonic()
    result = outcome(tmp_path, steps, answers, cut=cut)
    assert result.status == FAILED
    assert result.sent
    assert result.expected
    assert result.got
    assert time.monotonic() - begun < 10 * TIMEOUT


def test_the_report_says_where_and_what(tmp_path: Path) -> None:
    steps = """[
      { send = "PING", reply = "+PONG" },
      { repeat = 3, steps = [{ on = "B{i}", send = "ECHO {i}", reply = "$1" }] },
    ]"""
    result = outcome(tmp_path, steps, {})
    assert (result.file, result.name, result.protocol, result.cut) == ("some", "v0", 2, "whole")
    assert result.step == "2[2].1 on B2"
    assert result.sent == "ECHO 2"
    assert result.expected == "$1"
    assert result.got == "$2"


def test_a_cut_that_matters_is_found(tmp_path: Path) -> None:
    """A server that takes a line end for two bytes would pass in one piece; here: one that forgets what was cut off."""

    def half(connection: FakeConnection) -> bytes:
        first = connection.sock.recv(1)
        return b"+PONG\r\n" if first == b"\n" else b"+LOST\r\n"

    steps = "[{ raw = 'HALF\\n\\n', reply = '+PONG' }]"
    assert outcome(tmp_path, steps, {"HALF": half}, cut="every").status == FAILED


def test_null_and_maps_follow_the_protocol(tmp_path: Path) -> None:
    steps = '[{ send = "NIL", reply = "_" }, { send = "MAP", reply = { map = { a = ":1" } } }]'
    right3: dict[str, Answer] = {"NIL": b"_\r\n", "MAP": b"%1\r\n$1\r\na\r\n:1\r\n"}
    right2: dict[str, Answer] = {"NIL": b"$-1\r\n", "MAP": b"*2\r\n$1\r\na\r\n:1\r\n"}
    assert outcome(tmp_path, steps, right3, 3).status == PASSED
    assert outcome(tmp_path, steps, right2, 2).status == PASSED
    assert outcome(tmp_path, steps, right3, 2).status == FAILED
    assert outcome(tmp_path, steps, right2, 3).status == FAILED


def test_replies_for_one_protocol(tmp_path: Path) -> None:
    steps = '[{ send = "GO", reply2 = "+two", reply3 = "+three" }]'
    assert outcome(tmp_path, steps, {"GO": b"+two\r\n"}, 2).status == PASSED
    assert outcome(tmp_path, steps, {"GO": b"+two\r\n"}, 3).status == FAILED


def block(connection: FakeConnection) -> bytes:
    connection.blocked = True
    return b""


def wake(connection: FakeConnection) -> bytes:
    for other in connection.server.live.values():
        if other.blocked:
            other.blocked = False
            other.sock.sendall(b"+served\r\n")
    return b"+OK\r\n"


WAITING = """[
  { on = "A", send = "WAIT", blocked = true },
  { on = "P", send = "WAKE", reply = "+OK" },
  { on = "A", reply = "+served", quiet = true },
]"""


@pytest.mark.parametrize("cut", ["whole", "bytes"])
def test_a_blocked_client(tmp_path: Path, cut: str) -> None:
    assert outcome(tmp_path, WAITING, {"WAIT": block, "WAKE": wake}, cut=cut).status == PASSED


@pytest.mark.parametrize(
    "answers",
    [
        {"WAIT": b"*0\r\n", "WAKE": wake},
        {"WAIT": b"", "WAKE": wake},
        {"WAIT": None, "WAKE": wake},
        {"WAIT": block, "WAKE": b"+OK\r\n"},
    ],
)
def test_a_client_that_is_not_blocked_or_not_served(tmp_path: Path, answers: dict[str, Answer]) -> None:
    assert outcome(tmp_path, WAITING, answers).status == FAILED


def test_closing_waits_for_the_server_to_notice(tmp_path: Path) -> None:
    steps = '[{ send = "PING", reply = "+PONG" }, { close = "fin" }, { on = "B", send = "COUNT", reply = ":2" }]'

    def count(connection: FakeConnection) -> bytes:
        return b":%d\r\n" % len(connection.server.live)

    assert outcome(tmp_path, steps, {"COUNT": count}).status == PASSED
    assert outcome(tmp_path, steps.replace('"fin"', '"reset"'), {"COUNT": count}).status == PASSED


def test_a_send_that_expects_nothing_is_followed_by_a_round_trip(tmp_path: Path) -> None:
    with fake_server({"GO": b"", "STOP": b"+OK\r\n"}) as server:
        steps = '[{ send = "GO" }, { on = "B", send = "STOP", reply = "+OK" }]'
        assert played(server, vectors(tmp_path, steps)[0]).status == PASSED
        assert "PING" in server.received[: server.received.index("STOP")]


def test_captures_go_from_one_connection_to_another(tmp_path: Path) -> None:
    steps = '[{ send = "TAKE", reply = ["$<some as l>"] }, { on = "B", send = "ACK {q} {l}", reply = ":1" }]'
    with fake_server({"TAKE": b"*1\r\n$2\r\nt1\r\n", "ACK": b":1\r\n"}) as server:
        assert played(server, vectors(tmp_path, steps)[0]).status == PASSED
        [ack] = [line for line in server.received if line.startswith("ACK")]
        assert ack.endswith(" t1")
        assert len(ack.split()[1]) == 16


@pytest.mark.parametrize("declares", [b"+OK\r\n", b"-ERR no\r\n"])
def test_what_was_made_at_each_cut_is_removed(tmp_path: Path, declares: bytes) -> None:
    with fake_server({"QDECLARE": declares}) as server:
        [vector] = vectors(tmp_path, '[{ send = "QDECLARE {q}.x", reply = "+OK" }, { send = "PING", reply = "+PONG" }]')
        played(server, vector, cut="every")
        made = [line.split()[1] for line in server.received if line.startswith("QDECLARE")]
        removed = [line.split()[1] for line in server.received if line.startswith("QDELETE")]
        assert made
        assert set(made) <= set(removed)


def test_what_was_made_is_removed_and_undone(tmp_path: Path) -> None:
    steps = '[{ send = "QDECLARE {q}.x", reply = "+OK" }, { send = "GO {q1}", reply = "+no" }]'
    with fake_server({"QDECLARE": b"+OK\r\n", "GO": b"+yes\r\n"}) as server:
        [vector] = vectors(tmp_path, steps, head='finally = [{ send = "UNDO {q}" }]')
        assert played(server, vector).status == FAILED
        tail = server.received[-4:]
        assert tail[0].startswith("UNDO ")
        assert all(line.startswith("QDELETE ") for line in tail[1:])
        assert any(line.endswith(".x") for line in tail[1:])


def test_a_vector_that_needs_a_clock_is_counted_apart(tmp_path: Path) -> None:
    [vector] = vectors(tmp_path, '[{ advance = "5s" }, { send = "PING", reply = "+PONG" }]')
    with fake_server({}, virtual=False) as server:
        assert played(server, vector).status == SKIPPED
    with fake_server({}, virtual=True) as server:
        assert played(server, vector).status == PASSED
        assert "DEBUG ADVANCE 5s" in server.received


def test_a_clock_that_refuses_is_a_failure(tmp_path: Path) -> None:
    result = outcome(tmp_path, '[{ advance = "5s" }]', {"DEBUG ADVANCE 5s": b"-ERR no\r\n"})
    assert result.status == FAILED
    assert "DEBUG ADVANCE 5s" in result.got


def test_times_are_compared_with_the_server_s(tmp_path: Path) -> None:
    steps = '[{ send = "GO", reply = ":<time+1s>" }]'
    assert outcome(tmp_path, steps, {"GO": b":1001500\r\n"}).status == PASSED
    assert outcome(tmp_path, steps, {"GO": b":1001600\r\n"}).status == FAILED
    assert outcome(tmp_path, steps, {"GO": b":1001500\r\n", "TIME": b":1\r\n"}).status == FAILED


def test_a_failed_vector_takes_no_other_down(tmp_path: Path) -> None:
    chosen = vectors(
        tmp_path,
        '[{ send = "GO", reply = "+OK" }]',
        '[{ send = "ECHO {nothing}", reply = "?" }]',
        '[{ send = "PING", reply = "+PONG" }]',
    )
    with fake_server({"GO": None}) as server:
        control = Control(server.address, TIMEOUT)
        results = run(chosen, Settings(server.address, 2, timeout=TIMEOUT), control, lambda line: None)
        control.close()
    assert [result.status for result in results] == [FAILED, FAILED, PASSED]
    assert "closed" in results[0].got
    assert "mistake in the vector" in results[1].got


def test_a_server_that_goes_away_fails_the_rest_at_once(tmp_path: Path) -> None:
    chosen = vectors(tmp_path, *['[{ send = "PING", reply = "+PONG" }]'] * 5)
    with fake_server({}) as server:
        control = Control(server.address, TIMEOUT)
    begun = time.monotonic()
    results = run(chosen, Settings(server.address, 2, timeout=TIMEOUT), control, lambda line: None)
    control.close()
    assert {result.status for result in results} == {FAILED}
    assert time.monotonic() - begun < 5 * TIMEOUT


def test_a_server_that_stops_reading_is_a_failure(tmp_path: Path) -> None:
    def stall(connection: FakeConnection) -> bytes:
        time.sleep(3 * TIMEOUT)
        return b""

    steps = """[{ raw = 'GO\\r\\n' }, { raw = { bytes = "x", times = 50000000 }, reply = "+OK" }]"""
    result = outcome(tmp_path, steps, {"GO": stall})
    assert result.status == FAILED
    assert "of 50000000 bytes" in result.got


def test_no_server_no_control() -> None:
    with pytest.raises(Broken):
        Control(("127.0.0.1", 1), TIMEOUT)


# --- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def right() -> Iterator[FakeServer]:
    with fake_server({}) as server:
        yield server


def arguments(server: FakeServer, tmp_path: Path, *more: str) -> list[str]:
    host, port = server.address
    return [host, str(port), "--vectors", str(tmp_path), "--timeout", str(TIMEOUT), *more]


def test_exit_status(tmp_path: Path, right: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    vectors(tmp_path, '[{ send = "PING", reply = "+PONG" }]', '[{ advance = "1s" }]')
    assert main(arguments(right, tmp_path, "--only", "some/*")) == 0
    printed = capsys.readouterr().out
    assert "2 passed, 0 failed, 2 not run: they need a server with --virtual-clock" in printed
    vectors(tmp_path, '[{ send = "ECHO a", reply = "$b" }]')
    assert main(arguments(right, tmp_path, "--only", "some")) == 1
    printed = capsys.readouterr().out
    for part in ("FAILED some/v0  (RESP3, whole)", "It holds.", "ECHO a", "$b", "$a", "0 passed, 2 failed"):
        assert part in printed


def test_exit_status_if_nothing_could_be_run(
    tmp_path: Path, right: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(right, tmp_path)) == 2
    vectors(tmp_path, '[{ send = "PING", reply = "+PONG" }]')
    assert main(["127.0.0.1", "1", "--vectors", str(tmp_path)]) == 2
    assert main(["127.0.0.1", "--vectors", str(tmp_path)]) == 2
    assert main(arguments(right, tmp_path, "--only", "other/*")) == 2
    (tmp_path / "some.toml").write_text("nonsense", encoding="utf-8")
    assert main(arguments(right, tmp_path)) == 2
    assert "some.toml" in capsys.readouterr().err


def test_one_protocol_as_json(tmp_path: Path, right: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    vectors(tmp_path, '[{ send = "PING", reply = "+PONG" }]', '[{ send = "PING", reply = "$PONG" }]')
    assert main(arguments(right, tmp_path, "--json", "--protocol", "3", "--no-clients", "--cut", "bytes")) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["totals"] == {"passed": 1, "failed": 1}
    assert [(each["name"], each["status"], each["protocol"]) for each in found["results"]] == [
        ("v0", "passed", 3),
        ("v1", "failed", 3),
    ]
    assert found["results"][1]["got"] == "+PONG"


def test_list_needs_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors(tmp_path, '[{ send = "PING", reply = "+PONG" }]')
    assert main(["--list", "--vectors", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "some/v0: It holds.\n"


def test_stock_redis_only(tmp_path: Path, right: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    vectors(tmp_path, '[{ send = "PING", reply = "+PONG" }]', head="redis = true")
    assert main(arguments(right, tmp_path, "--stock-redis")) == 0
    vectors(tmp_path, '[{ send = "PING", reply = "+PONG" }]')
    assert main(arguments(right, tmp_path, "--stock-redis")) == 0
    assert "0 passed, 0 failed" in capsys.readouterr().out


def test_the_stages_with_stock_clients_notice_a_wrong_server(
    tmp_path: Path, right: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors(tmp_path, '[{ send = "PING", reply = "+PONG" }]')
    assert main(arguments(right, tmp_path, "--protocol", "2")) == 1
    assert "FAILED clients/redis-py (RESP2)" in capsys.readouterr().out
