"""The command `respmq`, also as `python -m respmq`."""

from __future__ import annotations

import os
import signal

#: The status with which a command ends that Ctrl-C has ended, as shells have it.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line.

    An interrupt ends it with status 130 from now on and not with a traceback, whatever is being loaded or prepared;
    whoever has something to end in order takes the signal over.
    """
    # In the background of a script interrupts are ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(_INTERRUPTED))
    from respmq.cli import main as command_line  # noqa: PLC0415 - an interrupt while it loads is meant, too

    command_line(prog_name="respmq")


if __name__ == "__main__":
    main()
