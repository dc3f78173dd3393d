"""The command line of the runner. Exit status: 0 all kept, 1 a promise was broken, 2 it could not be run."""

import argparse
import fnmatch
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance import clients, every, report
from conformance.connection import Broken, Control
from conformance.model import DIRECTORY, Vector, load
from conformance.play import FAILED, Result, Settings, play
from conformance.text import VectorError

CUTS = ("whole", "bytes", "every")


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m conformance", description="Test a server against the conformance vectors."
    )
    options.add_argument("host", nargs="?", default="127.0.0.1", metavar="HOST")
    options.add_argument("port", nargs="?", type=int, metavar="PORT")
    options.add_argument("--protocol", type=int, choices=(2, 3), help="only RESP2 or only RESP3 (default: both)")
    options.add_argument("--only", metavar="GLOB", help="only the vectors whose FILE/NAME matches")
    options.add_argument("--cut", choices=CUTS, default="whole", help="how requests are cut into writes")
    options.add_argument("--timeout", type=float, default=5.0, metavar="S", help="deadline of every read")
    options.add_argument("--vectors", type=Path, default=DIRECTORY, metavar="DIR", help="another directory of vectors")
    options.add_argument("--stock-redis", action="store_true", help="only what a stock Redis 7.0 answers alike")
    options.add_argument("--no-clients", action="store_true", help="leave out the stages with redis-py and redis-cli")
    options.add_argument("--list", action="store_true", help="list the vectors and their promises, and run nothing")
    options.add_argument("--json", action="store_true", help="print the results as one JSON object")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    options = parser().parse_args(arguments)
    try:
        vectors = select(load(options.vectors), options.only, stock_redis=options.stock_redis)
    except (VectorError, OSError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    if options.list:
        for vector in vectors:
            print(f"{vector.title}: {vector.promise}")
        return 0
    if options.port is None:
        print("conformance: PORT is missing", file=sys.stderr)
        return 2
    address = (options.host, options.port)
    try:
        control = Control(address, options.timeout)
    except Broken as error:
        print(f"conformance: no server to test at {options.host}:{options.port}: {error}", file=sys.stderr)
        return 2
    say: Callable[[str], None] = _nothing if options.json else print
    results: list[Result] = []
    for protocol in (options.protocol,) if options.protocol else (2, 3):
        settings = Settings(address, protocol, options.cut, options.timeout)
        results += run(vectors, settings, control, say)
    if not (options.no_clients or options.stock_redis or options.only):
        say("Stock clients")
        stages = clients.run(address, (options.protocol,) if options.protocol else (2, 3))
        results += stages
        for result in stages:
            say(f"  {result.name:<40}{result.status}")
    control.close()
    promises = {(vector.file, vector.name): vector.promise for vector in vectors}
    for result in results:
        if result.status == FAILED:
            say("")
            for line in report.failure_lines(result, promises.get((result.file, result.name), "")):
                say(line)
    say("")
    say(report.summary(results))
    if options.json:
        print(report.as_json(f"{options.host}:{options.port}", results))
    return 1 if any(result.status == FAILED for result in results) else 0


def select(vectors: list[Vector], glob: str | None, *, stock_redis: bool) -> list[Vector]:
    """The vectors that the options ask for."""
    found = [vector for vector in vectors if vector.redis or not stock_redis]
    if glob:
        found = [vector for vector in found if fnmatch.fnmatchcase(vector.title, glob) or vector.file == glob]
        if not found:
            raise VectorError(f"no vector matches {glob!r}")
    return found


def _safely(
    one: Callable[[Vector, Settings, Control], Result], vector: Vector, settings: Settings, control: Control
) -> Result:
    """One vector; a fault of the runner itself is a failure of this vector and doesn't end the others."""
    try:
        return one(vector, settings, control)
    except Exception as error:  # noqa: BLE001  (a reply that nobody thought of must not end the run)
        got = f"a fault in the runner: {type(error).__name__}: {error}"
        return Result(vector.file, vector.name, settings.protocol, settings.cut, FAILED, got=got)


def _nothing(_: str) -> None:
    """Where the lines for people go when programs want JSON."""


def run(
    vectors: list[Vector], settings: Settings, control: Control, say: Callable[[str], None] = print
) -> list[Result]:
    """One pass: every vector that exists in this protocol (and, with --cut every, can be cut)."""
    chosen = [vector for vector in vectors if settings.protocol in vector.protocols]
    one = play
    title = f"RESP{settings.protocol}, {settings.cut}"
    if settings.cut == "every":
        title += f": {sum(map(every.is_pure, chosen))} of {len(chosen)} vectors are pure"
        chosen = [vector for vector in chosen if every.is_pure(vector)]
        one = every.cut_everywhere
    say(title)
    results: list[Result] = []
    for file in dict.fromkeys(vector.file for vector in chosen):
        part = [_safely(one, vector, settings, control) for vector in chosen if vector.file == file]
        for line in report.group_lines(part):
            say(line)
        results += part
    return results
