"""What is read back from the journal is what was there, after any operations, in any segments."""

from __future__ import annotations

import itertools
import random

import pytest

from respmq.engine.memory import MemoryEngine
from respmq.journal.encoder import Encoder
from respmq.journal.homes import Homes
from respmq.journal.replay import Replay
from tests.property.effort import examples
from tests.property.test_model import Player, search
from tests.property.twins import START, Twins
from tests.support.dump import dump


class RecordedTwins(Twins):
    """The real broker is recorded; now and then the records are read, and the broker that they make is compared."""

    def __init__(self, seed: int = 0, *, size: int = 1 << 62, memory: int = 1 << 62, short: bool = True) -> None:
        super().__init__(seed, size=size, memory=memory, short=short)
        self.chance = random.Random(seed)
        self.homes = Homes()
        self.encoder = Encoder(self.homes)
        self.real.record(self.encoder)
        self.segments: list[list[bytes]] = [[]]

    def compare(self) -> None:
        super().compare()
        self.segments[-1] += self.encoder.records
        self.encoder.records.clear()
        if self.chance.random() < 0.1:
            self.segments.append([])
            self.homes.begin(len(self.segments) - 1)
        if self.chance.random() < 0.1:
            self.read_back()

    def read_back(self) -> None:
        homes = Homes()
        replay = Replay(homes)
        for number, records in enumerate(self.segments):
            homes.begin(number)
            replay.begin(number)
            replay.apply(b"".join(records))
        for queue in replay.image.queues.values():
            assert queue.settings is not None
        chance = random.Random(0)
        loaded = MemoryEngine(START, chance.randbytes, chance.uniform)
        for _ in loaded.load(replay.image, self.real.now):
            pass
        there, here = dump(self.real), dump(loaded)
        assert here == there


class RecordedPlayer(Player):
    twins_class = RecordedTwins


@pytest.mark.parametrize("part", range(4))
def test_what_is_read_back_is_what_was_there(part: int) -> None:
    search(itertools.islice(itertools.count(part, 4), examples(120)), RecordedPlayer)
