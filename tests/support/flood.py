"""A client that pipelines one command without a break, as a process of its own so that it takes nothing from the test.

    python -m tests.support.flood PORT TOTAL WORD [WORD ...]

It says `flooding` once replies have begun to come, and `done` when all have come.
"""

from __future__ import annotations

import socket
import sys
import threading

from tests.support.values import encode

BATCH = 500


def main(port: int, total: int, words: list[str]) -> None:
    """Send the command `total` times and read a line for each."""
    batch = encode(*words) * BATCH
    with socket.create_connection(("127.0.0.1", port)) as sock:
        rounds = total // BATCH

        def write() -> None:
            for _ in range(rounds):
                sock.sendall(batch)

        threading.Thread(target=write, daemon=True).start()
        left = rounds * BATCH
        while left > 0:
            data = sock.recv(1 << 18)
            if not data:
                sys.exit("closed")
            if left == rounds * BATCH:
                print("flooding", flush=True)  # noqa: T201
            left -= data.count(b"\n")
    print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
