"""Lives of a server, each ended by a kill -9 while a crew works; after each the ledger is compared with what is there.

As a program: `python -m tests.crash.torture --rounds 200 --fsync always`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.crew import Crew
from tests.crash.ledger import Ledger, Op, Phase, Queue
from tests.crash.power import PowerCut
from tests.crash.reconcile import Findings, reconcile, repeat_answered, resend_requests
from tests.crash.running import SMALLEST, close_nest, serve, serve_with
from tests.support import Conn, ServerProcess
from tests.support.server import PROGRAM, ROOT

QUEUES = [
    Queue("long", 3_600_000, expires=False),
    Queue("other.long", 7_200_000, expires=False),
    Queue("brief", 300, expires=True),
]
_SETTINGS = ("MAXATTEMPTS", 1_000_000, "MAXLEN", 1_000_000, "MAXDEAD", 1_000_000, "DEDUPE", "1h")


class Torture:
    """One folder and one ledger, over many lives of the server.

    Args:
        data: the journal's folder; it is made.
        fsync: the policy.
        seed: of all that is left to chance but the threads' course.
        power: cut the power, and don't just kill: what was not on the disk when the server ended is gone.
    """

    def __init__(self, data: Path, fsync: str, seed: int, *, power: bool = False) -> None:
        self.ledger = Ledger(QUEUES)
        self.kills = 0
        self._data = data
        self._flags = ("--fsync", fsync, *SMALLEST)
        self._seed = seed
        self._dice = random.Random(seed)
        self._cut = PowerCut(data) if power else None

    def run(self, rounds: int) -> None:
        """Live and die so many times, then look a last time."""
        with self._start() as server, Conn(server.port) as conn:
            for queue in QUEUES:
                conn.ok("QDECLARE", queue.name, "ACKTIMEOUT", f"{queue.lease}ms", "RETRYDELAY", "20ms", *_SETTINGS)
            self._die(server)
        for round in range(rounds):
            with self._start() as server:
                self._look(server)
                crew = Crew(self.ledger, server.port, self._seed * 10_000 + round)
                crew.start()
                time.sleep(self._dice.uniform(0.02, 0.5))
                crew.expect_the_end()
                self._die(server)
                crew.join()
            if self._dice.random() < 0.3:
                self._die_young()
        with self._start() as server:
            self._look(server)
            self._empty(server)
            assert server.stop() == 0, server.log

    def _start(self) -> ServerProcess:
        if self._cut is None:
            return serve(self._data, *self._flags)
        self._cut.restore()
        return serve_with(self._cut.program, self._cut.environment, self._data, *self._flags)

    def _die(self, server: ServerProcess) -> None:
        server.kill()
        self.kills += 1
        assert "Traceback" not in server.log, server.log

    def _die_young(self) -> None:
        """Kill a server that reads its journal."""
        if self._cut is not None:
            return
        process = subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", "--data", str(self._data), *self._flags],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(self._dice.uniform(0.2, 0.7))
        process.kill()
        process.wait()
        self.kills += 1

    def _look(self, server: ServerProcess) -> None:
        """Judge what is there after a start, and use some of what was held."""
        with Conn(server.port) as conn:
            findings = reconcile(self.ledger, conn)
            resend_requests(self.ledger, conn, findings)
            self._ask_again(conn, findings)
            self._ack_held(conn, findings)
            reconcile(self.ledger, conn)
        assert "Traceback" not in server.log, server.log

    def _ask_again(self, conn: Conn, findings: Findings) -> None:
        reqids = {entry.reqid for entry in self.ledger.of(Phase.LEASED) if not self.ledger.queues[entry.queue].expires}
        for reqid in sorted(reqid for reqid in reqids if reqid is not None)[:5]:
            repeat_answered(self.ledger, conn, reqid)

    def _ack_held(self, conn: Conn, findings: Findings) -> None:
        """Tokens of before the crash are good: ack half of them, and those that no client knows, and redo the puts of
        ids that are known.
        """
        for entry in self.ledger.of(Phase.LEASED):
            token = entry.token
            assert token is not None
            orphan = token in findings.orphans
            if self.ledger.queues[entry.queue].expires or not (orphan or self._dice.random() < 0.5):
                continue
            self.ledger.begin(entry, Op.ACK)
            assert conn.integer("QACK", entry.queue, token) == 1, f"not good any more: {entry}"
            self.ledger.finished(entry, Op.ACK, token)

    def _empty(self, server: ServerProcess) -> None:
        """At the end all that is known can be acked."""
        with Conn(server.port) as conn:
            for entry in self.ledger.of(Phase.LEASED):
                if not self.ledger.queues[entry.queue].expires:
                    assert conn.integer("QACK", entry.queue, entry.token or b"") == 1, f"{entry}"
            assert conn.mapping("QSTATS", "long")[b"in_flight"] == 0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--fsync", choices=["always", "everysec", "no"], default="always")
    parser.add_argument("--power", action="store_true", help="lose what was not on the disk, too")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torture = Torture(Path(folder) / "data", options.fsync, options.seed, power=options.power)
        began = time.monotonic()
        try:
            torture.run(options.rounds)
        finally:
            close_nest()
            took = time.monotonic() - began
            sys.stdout.write(f"seed {options.seed}, {torture.kills} kills, {took:.0f} s: {report(torture.ledger)}\n")


def report(ledger: Ledger) -> str:
    """How much was confirmed."""
    confirmed = ledger.confirmed
    return f"{confirmed.total()} confirmed, " + ", ".join(f"{name} {count}" for name, count in confirmed.most_common())


if __name__ == "__main__":
    main()
