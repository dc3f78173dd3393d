"""Programs that the tests with stock clients run, to the end or as somebody at a keyboard would."""

import fcntl
import os
import pty
import selectors
import struct
import subprocess
import termios
import time
from types import TracebackType
from typing import Final, Self

PATIENCE: Final = 30.0  # seconds until a program that says nothing is a failure, generous for a busy machine


def environment() -> dict[str, str]:
    """No password, history or preferences of whoever runs the tests."""
    return {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "REDISCLI_HISTFILE": "/dev/null",
        "REDISCLI_RCFILE": "/dev/null",
        "TERM": "xterm",
    }


def run(*argv: str, stdin: bytes = b"") -> bytes:
    """The standard output of a program that ends by itself and has nothing to complain about."""
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=PATIENCE, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, b""), done
    return done.stdout


class Program:
    """A program on a pseudo-terminal, as somebody at a keyboard would use it; killed at the end of the `with` block."""

    def __init__(self, *argv: str) -> None:
        self._terminal, its_end = pty.openpty()
        try:
            # With no size redis-cli would ask the terminal for it, and wait for the answer.
            fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
            self._process = subprocess.Popen(
                argv, stdin=its_end, stdout=its_end, stderr=its_end, env=environment(), start_new_session=True
            )
        except BaseException:
            os.close(self._terminal)
            raise
        finally:
            os.close(its_end)
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def read_until(self, wanted: bytes) -> bytes:
        """What the program wrote since the last call, up to and including `wanted`."""
        give_up_at = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self._terminal, selectors.EVENT_READ)
            while wanted not in self._unread:
                if not selector.select(give_up_at - time.monotonic()):
                    raise AssertionError(f"no {wanted!r} within {PATIENCE} s, but {self._unread!r}")
                try:
                    chunk = os.read(self._terminal, 65536)
                except OSError:  # how Linux says that the other end is closed
                    chunk = b""
                if not chunk:
                    raise AssertionError(f"ended without {wanted!r}, after {self._unread!r}")
                self._unread += chunk
        before, found, self._unread = self._unread.partition(wanted)
        return before + found

    def wait(self) -> int:
        """The exit status of a program that is about to end."""
        return self._process.wait(PATIENCE)
