"""What is read back from the journal is what was there, after any operations, in any segments."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

import respmq.journal.compaction
from respmq.engine.journaled import JournaledEngine
from respmq.engine.memory import MemoryEngine
from respmq.journal.encoder import Encoder
from respmq.journal.homes import Homes
from respmq.journal.replay import Replay
from tests.property.effort import examples
from tests.property.test_model import Player, search
from tests.property.twins import START, Twins
from tests.support.disk import InlineWorker
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
    search(itertools.islice(itertools.count(part, 4), examples(90)), RecordedPlayer)


class JournaledTwins(Twins):
    """The real broker has a journal in a folder, with tiny segments that are compacted all the time."""

    def __init__(self, seed: int = 0, *, size: int = 1 << 62, memory: int = 1 << 62, short: bool = True) -> None:
        super().__init__(seed, size=size, memory=memory, short=short)
        self.chance = random.Random(seed)
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        chance = random.Random(seed)
        engine = self.open(self.path, chance)
        engine.max_message_size = size
        engine.max_memory = memory
        self.real = self.engine = engine

    def close(self) -> None:
        self.engine.close()
        self._folder.cleanup()

    def open(self, path: Path, chance: random.Random) -> JournaledEngine:
        engine = JournaledEngine(
            START,
            chance.randbytes,
            chance.uniform,
            path,
            policy="no",
            segment_size=2_000,
            wall=lambda: START,
            stands_still=True,
            make_worker=InlineWorker,
        )
        for _ in engine.loading():
            pass
        return engine

    def compare(self) -> None:
        super().compare()
        engine = self.engine
        engine.commit()
        if self.chance.random() < 0.1 and engine.compactor is not None:
            engine.compact()
        if self.chance.random() < 0.3 and engine.compactor is not None:
            engine.every_second()
            # A step is a record: what was written again stands in its old segment as well for a while.
            for _ in range(self.chance.choice((0, 1, 5, 50))):
                if engine.compactor.running:
                    engine.compactor.step(engine.now)
        if self.chance.random() < 0.1:
            self.read_back()

    def read_back(self) -> None:
        check_homes(self.engine)
        with tempfile.TemporaryDirectory() as folder:
            for path in self.path.iterdir():
                shutil.copy(path, folder)
            loaded = self.open(Path(folder), random.Random(0))
            # Nothing is due, but ids are forgotten without a word in the journal.
            loaded.advance(self.real.now)
            there, here = dump(self.real), dump(loaded)
            check_homes(loaded)
            if self.chance.random() < 0.3:
                # It knows where everything is written, too.
                compact(loaded)
                loaded.close()
                loaded = self.open(Path(folder), random.Random(1))
                loaded.advance(self.real.now)
                assert dump(loaded) == here
            loaded.close()
        assert here == there


def check_homes(engine: JournaledEngine) -> None:
    """Of each segment it is known what is needed of it: neither less nor more."""
    assert engine.journal is not None
    homes = engine.journal.homes
    found: Counter[tuple[int, int, str]] = Counter()
    for queue in map(engine.find, engine.names()):
        found.update((queue.number, message.home.segment, "live") for message in queue.live.values())
        found.update((queue.number, letter.message.home.segment, "dead") for letter in queue.dead)
    known = {
        (number, segment, kind): getattr(home, kind)
        for number, by_segment in homes._by_queue.items()
        for segment, home in by_segment.items()
        for kind in ("live", "dead")
        if getattr(home, kind)
    }
    assert known == found
    assert {segment for _, segment, _ in known} <= engine.journal.sizes.keys()
    assert homes._queues.keys() == {queue.number for queue in map(engine.find, engine.names())}


def compact(engine: JournaledEngine) -> None:
    """Let all be written down again that was before."""
    engine.commit()
    engine.compact()
    engine.every_second()
    while engine.compactor is not None and engine.compactor.running:
        engine.compactor.step(engine.now)
        engine.commit()


class JournaledPlayer(Player):
    twins_class = JournaledTwins


@pytest.mark.parametrize("part", range(4))
def test_what_a_compacted_journal_tells_is_what_was_there(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(respmq.journal.compaction, "_RECORDS_AT_ONCE", 1)
    search(itertools.islice(itertools.count(part, 4), examples(40)), JournaledPlayer)
