"""Commands on servers for tests: DEBUG ADVANCE.

Written by respmq/codegen/generate.py from the command table: change that, then run it.
"""

from __future__ import annotations

from respmq.calls import decode
from respmq.calls.call import Call, Words
from respmq.calls.runner import AsyncRunner, Runner


def debug_advance(duration: float) -> Call[None]:
    """Moves the clock of a server that runs under a virtual one; answers when all that fell due has happened."""
    words = Words(b"DEBUG", b"ADVANCE")
    words.duration("duration", duration)
    return Call(words.done(), decode.nothing, resend=False)


class ServerCommands(Runner):
    """Commands on servers for tests, blocking."""

    def debug_advance(self, duration: float) -> None:
        """Moves the clock of a server that runs under a virtual one; answers when all that fell due has happened.

        Args:
            duration: By how much; 0 does nothing. Seconds.

        Raises:
            InvalidRequestError, BrokerUnavailableError: see there.
        """
        return self._run_call(debug_advance(duration))


class AsyncServerCommands(AsyncRunner):
    """Commands on servers for tests, awaited."""

    async def debug_advance(self, duration: float) -> None:
        """Moves the clock of a server that runs under a virtual one; answers when all that fell due has happened.

        Args:
            duration: By how much; 0 does nothing. Seconds.

        Raises:
            InvalidRequestError, BrokerUnavailableError: see there.
        """
        return await self._run_call(debug_advance(duration))
