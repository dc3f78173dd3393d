"""A short smoke with stock clients, where they are installed: redis-py, and redis-cli in its three ways to be fed."""

import importlib
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from conformance.play import FAILED, PASSED, Result

NOT_INSTALLED = "not installed"
_ADDRESS = tuple[str, int]
_TIMEOUT = 20


def run(address: _ADDRESS, protocols: tuple[int, ...]) -> list[Result]:
    """All stages, each under each protocol."""
    results: list[Result] = []
    for protocol in protocols:
        for name, stage in (
            ("redis-py", _redis_py),
            ("redis-py-pipeline", _redis_py_pipeline),
            ("redis-cli", _redis_cli),
            ("redis-cli-stdin", _redis_cli_stdin),
            ("redis-cli-pipe", _redis_cli_pipe),
        ):
            results.append(_stage(f"{name} (RESP{protocol})", stage, address, protocol))
    return results


def _stage(name: str, stage: Callable[[_ADDRESS, int, str], str], address: _ADDRESS, protocol: int) -> Result:
    queue = f"smoke-{os.urandom(6).hex()}"
    try:
        status, got = stage(address, protocol, queue), ""
    except Exception as error:  # noqa: BLE001  (whatever a client raises is the finding)
        status, got = FAILED, f"{type(error).__name__}: {error}"
    return Result("clients", name, protocol, "whole", status, expected="the client to work" if got else "", got=got)


def _require(condition: object, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def _client(address: _ADDRESS, protocol: int) -> tuple[Any, Any] | None:
    try:
        redis = importlib.import_module("redis")
    except ImportError:
        return None
    host, port = address
    return redis, redis.Redis(host=host, port=port, protocol=protocol, socket_timeout=_TIMEOUT)


def _redis_py(address: _ADDRESS, protocol: int, queue: str) -> str:
    found = _client(address, protocol)
    if found is None:
        return NOT_INSTALLED
    redis, client = found
    with client:
        _require(client.ping(), "PING")
        _require(client.execute_command("QDECLARE", queue) in (b"OK", True), "QDECLARE")
        _require(client.execute_command("QPUT", queue, b"\x00\xff", "ID", "job") == b"job", "QPUT with an id")
        _require(client.execute_command("QPUT", queue, b"again", "ID", "job") is None, "the duplicate is None")
        [(name, job, lease, attempt, body)] = client.execute_command("QLEASE", queue)
        _require((name, job, attempt, body) == (queue.encode(), b"job", 1, b"\x00\xff"), "QLEASE")
        _require(client.execute_command("QACK", queue, lease) == 1, "QACK")
        _require(client.execute_command("QLEASE", queue) == [], "an empty QLEASE is an empty list")
        try:
            client.execute_command("QPUT", "no.such." + queue, b"x")
        except redis.ResponseError as error:
            _require(str(error).startswith("NOQUEUE no such queue"), f"NOQUEUE, not {error}")
        else:
            raise AssertionError("a put into an unknown queue raised nothing")
        _require(client.client_info()["resp"] in ("2", "3", 2, 3), "CLIENT INFO")
        _require(isinstance(client.config_get("maxclients"), dict), "CONFIG GET")
        _require("respmq_version" in client.info("server"), "INFO server")
        _require(client.execute_command("QDELETE", queue) == 1, "QDELETE")
    return PASSED


def _redis_py_pipeline(address: _ADDRESS, protocol: int, queue: str) -> str:
    found = _client(address, protocol)
    if found is None:
        return NOT_INSTALLED
    _, client = found
    with client:
        pipeline = client.pipeline(transaction=False)
        pipeline.execute_command("QDECLARE", queue)
        for number in range(100):
            pipeline.execute_command("QPUT", queue, number, "ID", f"id-{number}")
        pipeline.execute_command("QLEASE", queue, "COUNT", 200)
        replies = pipeline.execute()
        _require(replies[1:101] == [b"id-%d" % number for number in range(100)], "the ids in order")
        _require([item[4] for item in replies[101]] == [b"%d" % number for number in range(100)], "the bodies in order")
        _require(client.execute_command("QDELETE", queue) == 1, "QDELETE")
    return PASSED


def _cli(address: _ADDRESS, protocol: int, *words: str, stdin: bytes | None = None) -> str:
    command = ["redis-cli", "-h", address[0], "-p", str(address[1])]
    done = subprocess.run(  # noqa: S603 - redis-cli, with words of the vectors
        [*command, *(["-3"] if protocol == 3 else []), *words],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
        timeout=_TIMEOUT,
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace").strip()


def _redis_cli(address: _ADDRESS, protocol: int, queue: str) -> str:
    if not shutil.which("redis-cli"):
        return NOT_INSTALLED
    for words, wanted in (
        (["PING"], "PONG"),
        (["QDECLARE", queue, "ACKTIMEOUT", "1m"], "OK"),
        (["QPUT", queue, "hello world", "ID", "one"], "one"),
        (["QPUT", queue, "hello again", "ID", "one"], ""),
        (["QPUT", "no.such." + queue, "x"], f"NOQUEUE no such queue 'no.such.{queue}'"),
    ):
        got = _cli(address, protocol, *words)
        right = got.startswith(wanted) if wanted.startswith("NOQUEUE") else got == wanted
        _require(right, f"{' '.join(words)}: {got!r}, not {wanted!r}")
    lines = _cli(address, protocol, "QLEASE", queue).splitlines()
    _require(len(lines) == 5 and lines[4] == "hello world", f"QLEASE: {lines!r}")
    _require(_cli(address, protocol, "QACK", queue, lines[2]) == "1", "QACK")
    _require(_cli(address, protocol, "QDELETE", queue) == "1", "QDELETE")
    return PASSED


def _redis_cli_stdin(address: _ADDRESS, protocol: int, queue: str) -> str:
    if not shutil.which("redis-cli"):
        return NOT_INSTALLED
    typed = f"QDECLARE {queue}\nQPUT {queue} 'it is' ID x\nQPUT {queue}\nQSHOW {queue} none\nQDELETE {queue}\n"
    lines = _cli(address, protocol, stdin=typed.encode()).splitlines()
    _require(lines[:2] == ["OK", "x"] and lines[-1] == "1", f"typed commands: {lines!r}")
    _require(lines[2].startswith("ERR wrong number of arguments for 'qput' command"), f"the error: {lines!r}")
    return PASSED


def _redis_cli_pipe(address: _ADDRESS, protocol: int, queue: str) -> str:
    if not shutil.which("redis-cli"):
        return NOT_INSTALLED
    stream = f"QDECLARE {queue}\r\n" + f"QPUT {queue} x\r\n" * 100 + f"QDELETE {queue}\r\n"
    got = _cli(address, protocol, "--pipe", stdin=stream.encode())
    _require("errors: 0, replies: 102" in got, got)
    return PASSED
