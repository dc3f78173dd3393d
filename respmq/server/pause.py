"""CLIENT PAUSE: commands wait, whole or those that write, until the pause is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from respmq.pending import Pending

if TYPE_CHECKING:
    from respmq.server.entries import Entry


class Pause:
    """A pause that lasts until `until`, milliseconds of the broker's time."""

    def __init__(self, until: int, *, writes_only: bool, held: list[Pending[None]]) -> None:
        self.until = until
        self.writes_only = writes_only
        self._held = held

    def holds(self, entry: Entry) -> bool:
        """Whether a command has to wait. CLIENT never does, nor what moves a virtual clock: they can end the pause."""
        if entry.spec.name.startswith("CLIENT ") or entry.spec.name == "DEBUG ADVANCE":
            return False
        # EXEC may write; what it runs isn't looked at one by one.
        return not self.writes_only or "write" in entry.spec.flags or entry.spec.name == "EXEC"

    def join(self) -> Pending[None]:
        """Wait for the end."""
        pending: Pending[None] = Pending()
        self._held.append(pending)
        return pending

    def take_held(self) -> list[Pending[None]]:
        """Those who wait, for a pause that takes the place of this one."""
        held, self._held = self._held, []
        return held

    def end(self) -> None:
        """Let all go on, in the order in which they began to wait."""
        for pending in self.take_held():
            pending.resolve(None)
