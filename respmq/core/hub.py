"""What the queues of one broker share: the moment, deadlines, tokens, chance, and the work that is left for later."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from respmq.core.deadlines import Deadlines
from respmq.core.ids import TokenMaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from respmq.core.chores import Chore
    from respmq.core.facts import Recorder
    from respmq.core.model import DeadLetter
    from respmq.core.stock import Stock

#: A limit that nothing reaches.
NO_LIMIT = 1 << 62

#: What a message costs beside its body: the object, its id, its places in index and line. Counted for `maxmemory`.
MESSAGE_OVERHEAD = 350

#: How many expiries, promotions or releases of memory one tick does before others get their turn.
TICK_BUDGET = 1_000

#: What is to be done after a command: queues that have both ready messages and takers, and deaths to be announced.
Agenda = OrderedDict["Stock | Obituaries", None]

#: Something that holds many objects and can be emptied one by one.
Container = dict[Any, Any] | deque[Any] | list[Any]


class Obituaries:
    """Deaths that are still to be announced, in the order in which they happened."""

    __slots__ = ("_agenda", "_letters", "wanted")

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._letters: deque[DeadLetter] = deque()
        #: Whether anybody could hear an announcement.
        self.wanted = False

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: DeadLetter) -> None:
        """A message has died. What is itself a copy of an announcement is not announced again."""
        extra = letter.message.extra
        if self.wanted and (extra is None or not extra.announcement):
            self._letters.append(letter)
            self._agenda[self] = None

    def take(self, most: int) -> list[DeadLetter]:
        """Remove and return the first ones; those that are left stay on the agenda."""
        letters = [self._letters.popleft() for _ in range(min(most, len(self._letters)))]
        if self._letters:
            self._agenda[self] = None
        return letters


class Hub:
    """Shared by a broker's queues.

    `now` is the moment at which everything happens, milliseconds since the epoch; only the broker's tick moves it,
    and never backwards. `uniform(a, b)` and `random_bytes(n)` are the sources of chance.
    """

    __slots__ = (
        "agenda",
        "budget",
        "chores",
        "deadlines",
        "graveyard",
        "limit",
        "now",
        "obituaries",
        "queues_made",
        "random_bytes",
        "recorder",
        "tokens",
        "uniform",
        "used",
    )

    def __init__(
        self, now: int, random_bytes: Callable[[int], bytes], uniform: Callable[[float, float], float]
    ) -> None:
        self.now = now
        self.random_bytes = random_bytes
        self.uniform = uniform
        self.deadlines = Deadlines()
        self.tokens = TokenMaker(random_bytes)
        self.agenda: Agenda = OrderedDict()
        self.obituaries = Obituaries(self.agenda)
        #: Who writes down what happens, if anybody does.
        self.recorder: Recorder | None = None
        #: How many queues were ever declared: each has a number of its own.
        self.queues_made = 0
        #: Bytes held, for `maxmemory`.
        self.used = 0
        #: What `used` may come to before it has to be asked whether there is room for more.
        self.limit = NO_LIMIT
        self.budget = TICK_BUDGET
        self.graveyard: deque[Container] = deque()
        self.chores: deque[Chore] = deque()

    def work_off(self) -> None:
        """Do a part of the chores, with half of the budget at most: what is due must go on."""
        budget = self.budget // 2
        while self.chores and budget > 0:
            steps = self.chores[0].work(budget)
            if steps < budget:
                self.chores.popleft()
            budget -= steps
            self.budget -= steps

    def bury(self, *containers: Container) -> None:
        """Free what `containers` hold little by little: a million objects freed at once would stop everybody."""
        self.graveyard.extend(c for c in containers if c)

    def dig(self) -> None:
        """Free a part of what was buried."""
        while self.graveyard and self.budget > 0:
            container = self.graveyard[0]
            steps = min(self.budget, len(container))
            self.budget -= steps + 1
            if isinstance(container, dict):
                for _ in range(steps):
                    container.popitem()
            else:
                del_from = container.pop
                for _ in range(steps):
                    del_from()
            if not container:
                self.graveyard.popleft()
