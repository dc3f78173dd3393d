"""redis-cli in all its modes and redis-benchmark."""

import json
import re

import pytest

from tests.clients.support import Program, run
from tests.support import ServerProcess


def cli(server: ServerProcess, *arguments: str, stdin: bytes = b"") -> str:
    return run("redis-cli", "-p", str(server.port), *arguments, stdin=stdin).decode()


def stats(server: ServerProcess, queue: str) -> dict[str, object]:
    reply: object = json.loads(cli(server, "-3", "--json", "QSTATS", queue))
    assert isinstance(reply, dict)
    return reply


def encode(*arguments: bytes) -> bytes:
    head = b"*%d\r\n" % len(arguments)
    return head + b"".join(b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments)


def test_one_command_a_run(server: ServerProcess, queue: str) -> None:
    assert cli(server, "QDECLARE", queue) == "OK\n"
    assert cli(server, "QPUT", queue, "resize photo", "ID", "job-1") == "job-1\n"
    source, message, lease, attempt, body = cli(server, "QLEASE", queue, "WAIT", "1").splitlines()
    assert (source, message, attempt, body) == (queue, "job-1", "1", "resize photo")
    assert cli(server, "QACK", queue, lease) == "1\n"
    assert cli(server, "QACK", queue, lease) == "0\n"


def test_an_error_reaches_the_shell(server: ServerProcess, queue: str) -> None:
    assert cli(server, "QPUT", queue, "x").strip() == f"NOQUEUE no such queue '{queue}'"


def test_resp3_maps(server: ServerProcess, queue: str) -> None:
    assert cli(server, "-3", "QDECLARE", queue, "ACKTIMEOUT", "45") == "OK\n"
    cli(server, "-3", "QPUT", queue, "x")
    assert f'# "name" => "{queue}"\n' in cli(server, "-3", "--no-raw", "QSTATS", queue)
    assert stats(server, queue)["ready"] == 1


def test_commands_on_standard_input(server: ServerProcess, queue: str) -> None:
    script = f"""
        QDECLARE {queue}
        QPUT {queue} "two words" ID first

        QPUT {queue} 'it is' ID second
        QPEEK {queue}.nowhere
        QLIST MATCH {queue}
    """
    answers = [line for line in cli(server, stdin=script.encode()).splitlines() if line]
    assert answers == ["OK", "first", "second", f"NOQUEUE no such queue '{queue}.nowhere'", queue]


def test_repeated_command(server: ServerProcess, queue: str) -> None:
    cli(server, "QDECLARE", queue)
    assert len(set(cli(server, "-r", "5", "QPUT", queue, "again").split())) == 5
    assert stats(server, queue)["ready"] == 5


def test_bulk_loading(server: ServerProcess, queue: str) -> None:
    name = queue.encode()
    load = encode(b"QDECLARE", name)
    load += b"".join(encode(b"QPUT", name, b"job\r\n%d\x00" % n) for n in range(2000))
    assert "errors: 0, replies: 2001\n" in cli(server, "--pipe", stdin=load)
    assert stats(server, queue)["ready"] == 2000


def test_latency(server: ServerProcess) -> None:
    # With its output not at a terminal it measures for one interval and ends.
    least, most, average, samples = map(float, cli(server, "--latency", "-i", "0.2").split())
    assert least <= average <= most
    assert samples >= 1


def test_stat(server: ServerProcess) -> None:
    with Program("redis-cli", "-p", str(server.port), "--stat", "-i", "0.1") as program:
        program.read_until(b"connections")
        program.read_until(b"\n")
        for _ in range(2):
            line = program.read_until(b"\n")
            # keys, memory, clients, blocked, requests, connections
            assert re.match(rb"\d+ +[0-9.]+[BKMG] +[1-9]\d* +\d+ +\d+ \(\+\d+\) +[1-9]\d*", line), line


def test_info(server: ServerProcess) -> None:
    everything = cli(server, "INFO").replace("\r\n", "\n")
    assert "# Server\n" in everything
    assert re.search(r"^redis_version:\d+\.\d+\.\d+$", everything, re.MULTILINE)
    assert re.search(r"^respmq_version:\S+$", everything, re.MULTILINE)
    assert f"tcp_port:{server.port}\n" in everything
    section = cli(server, "-3", "INFO", "replication").replace("\r\n", "\n")
    assert "role:master\n" in section
    assert "# Server" not in section


def test_monitor(server: ServerProcess, queue: str) -> None:
    with Program("redis-cli", "-p", str(server.port), "MONITOR") as program:
        program.read_until(b"OK")
        cli(server, "QDECLARE", queue)
        cli(server, "QPUT", queue, "photo")
        seen = program.read_until(f'"QPUT" "{queue}" "photo"'.encode())
    assert re.search(rf'\d+\.\d+ \[0 127\.0\.0\.1:\d+\] "QDECLARE" "{queue}"', seen.decode())


def test_subscribe(server: ServerProcess, queue: str) -> None:
    with Program("redis-cli", "-p", str(server.port), "PSUBSCRIBE", f"{queue}.*.failed") as program:
        program.read_until(b"psubscribe")
        program.read_until(b"(integer) 1")
        assert cli(server, "PUBLISH", f"{queue}.nightly.failed", "disk full") == "1\n"
        assert f"{queue}.nightly.failed".encode() in program.read_until(b"disk full")


def test_at_a_terminal(server: ServerProcess, queue: str) -> None:
    # Help, hints and completion come from COMMAND DOCS, and redis-cli aborts if that has a wrong shape.
    prompt = f"127.0.0.1:{server.port}> ".encode()
    with Program("redis-cli", "-p", str(server.port)) as program:
        program.read_until(prompt)
        program.type("QDECL\t")
        program.read_until(b"QDECLARE")
        program.type(f" {queue}\r")
        program.read_until(b"OK\r\n")
        program.read_until(prompt)
        program.type("qput ")
        program.read_until(b"queue body")
        program.type(f"{queue} photo ID job-1\r")
        program.read_until(b'"job-1"\r\n')
        program.read_until(prompt)
        program.type("help qlease\r")
        assert b"queue [queue ...]" in program.read_until(b"summary:")
        program.read_until(prompt)
        program.type("quit\r")
        assert program.wait() == 0


@pytest.mark.parametrize("protocol", [[], ["-3"]], ids=["resp2", "resp3"])
def test_benchmark(server: ServerProcess, queue: str, protocol: list[str]) -> None:
    cli(server, "QDECLARE", queue, "MAXLEN", "1000000")
    load = ["-c", "5", "-P", "16", "-n", "2000", "--csv", "QPUT", queue, "x"]
    output = run("redis-benchmark", "-p", str(server.port), *protocol, *load).decode()
    name, rate, *_ = output.splitlines()[-1].split(",")
    assert name == f'"QPUT {queue} x"'
    assert float(rate.strip('"')) > 0
    assert stats(server, queue)["enqueued"] == 2000


def test_benchmark_of_ping(server: ServerProcess) -> None:
    output = run("redis-benchmark", "-p", str(server.port), "-t", "ping", "-c", "5", "-n", "500", "--csv").decode()
    assert [line.split(",")[0] for line in output.splitlines()[1:]] == ['"PING_INLINE"', '"PING_MBULK"']
