"""Writes journals as this version does: `python -m tests.unit.journal.files.make NAME...`.

For a new version of the format. Journals that are there already are never made again: tests read them for ever.

- `everything-vN`: records of every kind, in segments some of which were compacted away.
- `export-vN.jsonl`: what `respmq export` prints of the former; N is the version of that, which changes by itself.
- `example`: the one that docs/journal.md explains byte by byte; this one is made anew for the page.

Beside each of them its broker's state is written as JSON, in which bytes are Latin-1 text.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from pathlib import Path
from typing import Any

from respmq.core.broker import Broker
from respmq.core.model import Extra, Message, QueueSettings
from respmq.engine.journaled import JournaledEngine
from respmq.engine.memory import MemoryEngine
from respmq.journal.encoder import Encoder
from respmq.journal.export import export_lines
from respmq.journal.homes import Homes
from respmq.journal.recovery import Recovery
from respmq.journal.segment import encode_batch, segment_head, segment_path
from tests.support.disk import InlineWorker
from tests.support.dump import dump

HERE = Path(__file__).resolve().parent
START = 1_700_000_000_000

#: How large the segments become, and how many messages are put that go again and are compacted away.
_SEGMENT_SIZE = 4_000
_PASSING = 60


def as_json(value: Any) -> Any:
    """A state as JSON can hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return as_json(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {_key(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _key(key: Any) -> str:
    return " ".join(map(_key, key)) if isinstance(key, tuple) else as_json(key)


def state_of(broker: Broker) -> Any:
    """All of a broker that a journal keeps."""
    return as_json(dump(broker))


def _taken(engine: MemoryEngine, queue: bytes, count: int = 1, **options: Any) -> list[tuple[bytes, bytes]]:
    """Lease messages: id and token of each."""
    leased = engine.lease((queue,), count, **options)
    assert isinstance(leased, list)
    return [(message.id, message.lease or b"") for message in leased if isinstance(message, Message)]


class _Maker:
    """Engines on one folder, whose time stands still, and a wall clock that may be ahead of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ahead = 0
        self.engine = self._open(START)

    def _open(self, now: int) -> JournaledEngine:
        chance = random.Random(now)
        engine = JournaledEngine(
            now,
            chance.randbytes,
            chance.uniform,
            self._folder,
            policy="no",
            segment_size=_SEGMENT_SIZE,
            wall=lambda: engine.now + self.ahead,
            make_worker=InlineWorker,
        )
        for _ in engine.loading():
            pass
        return engine

    def restart(self) -> None:
        """Go on with another engine, at the moment of the wall clock."""
        now = self.engine.now + self.ahead
        self.engine.close()
        self.ahead = 0
        self.engine = self._open(now)


def make_everything(folder: Path) -> Any:
    """Let everything happen that there are records for; have it compacted; let it happen again. Returns the state."""
    maker = _Maker(folder)
    engine = maker.engine
    _do_everything(engine, b"keep")
    for _ in range(_PASSING):
        engine.purge(b"small")
        engine.put(b"small", bytes(100))
        engine.commit()
    engine.purge(b"small")
    engine.commit()
    _compact(engine)
    # The wall clock is set while it runs: all deadlines are moved by the restart.
    maker.ahead = 60_000
    engine.put(b"keep", b"at another time", None, 0, 3_600_000)
    engine.commit()
    maker.restart()
    engine = maker.engine
    _do_everything(engine, b"more")
    engine.declare(b"gone", QueueSettings())
    engine.put(b"gone", b"with its queue")
    engine.delete(b"gone")
    engine.commit()
    state = state_of(engine)
    engine.close()
    (folder / "lock").unlink()
    return state


def _do_everything(engine: JournaledEngine, queue: bytes) -> None:
    settings = QueueSettings(max_attempts=2, retry_delay=5_000, max_retry_delay=5_000, max_dead=3, dedupe=86_400_000)
    engine.declare(queue, settings)
    engine.declare(b"small", QueueSettings(max_len=1, ttl=3_600_000, dedupe=60_000))
    for step in (_messages, _letters, _ways_in):
        step(engine, queue)
        engine.commit()


def _messages(engine: JournaledEngine, queue: bytes) -> None:
    first = engine.put(queue, b"plain")
    assert first is not None
    # The queue changes the mark of its own ids, since this one has it and is none of those that it has made.
    engine.put(queue, b"chosen", b"%012x70008000" % (engine.now + 1_000_000) + first[20:])
    engine.put(queue, bytes(range(256)), b"every byte \xff\x00", -3, 0, _extra())
    engine.put(queue, b"again", b"every byte \xff\x00")
    engine.put(queue, b"later", b"delayed", 0, 50)
    engine.put(queue, b"much later", None, 0, 86_400_000)
    engine.put_many(queue, tuple(b"many %d" % number for number in range(12)))
    engine.put(queue, b"to be deleted", b"deleted")
    engine.remove(queue, (b"deleted",))
    engine.advance(engine.now + 100)
    (acked,) = _taken(engine, queue)
    engine.ack(queue, (acked[1],))
    _, second, third, fourth = _taken(engine, queue, 4, lease=7_200_000)
    engine.touch(queue, (second[1], third[1]), 10_800_000)
    engine.nack(queue, third[1], None, b"failed \xff")
    engine.release(queue, fourth[1])
    _taken(engine, queue, 2, request=(b"default", b"key \xfe"), lease=9_000_000)
    (expiring,) = _taken(engine, queue, lease=10)
    engine.advance(engine.now + 1_000)
    assert engine.show(queue, expiring[0]) is not None
    engine.undeliver([(queue, _taken(engine, queue)[0][1])])


def _extra() -> Extra:
    return Extra({b"name": b"value", b"\xff": b""}, (b"", b"attached \x80"), 7_200_000)


def _letters(engine: JournaledEngine, queue: bytes) -> None:
    for number in range(6):
        engine.put(queue, b"dies", b"letter %d" % number, -9)
        (leased,) = _taken(engine, queue)
        engine.reject(queue, leased[1], b"broken \xff" if number % 2 else None)
    engine.replay_dead(queue, (b"letter 4",))
    engine.put(b"small", b"dies")
    engine.advance(engine.now + 3_600_000)
    assert engine.dead_count(b"small") == 1
    engine.purge_dead(b"small")


def _ways_in(engine: JournaledEngine, queue: bytes) -> None:
    engine.topics.bind(b"news.*", queue)
    engine.topics.bind(b"other", queue)
    engine.topics.unbind(b"other", queue)
    engine.topics.bind(b"news.small", b"small")
    engine.topics.publish(b"news.small", b"to both")
    engine.topics.publish(b"news.small", b"no room in small")
    engine.exchanges.declare(b"direct", "DIRECT")
    engine.exchanges.declare(b"topic", "TOPIC")
    engine.exchanges.declare(b"fanout", "FANOUT")
    engine.exchanges.bind(b"direct", queue, b"key \xff")
    engine.exchanges.bind(b"direct", queue, b"other")
    engine.exchanges.unbind(b"direct", queue, b"other")
    engine.exchanges.bind(b"topic", queue, b"a." + queue)
    engine.exchanges.publish(b"topic", b"a." + queue, b"by exchange", {b"h": b"v"}, ())
    engine.exchanges.delete(b"fanout")


def _compact(engine: JournaledEngine) -> None:
    assert engine.compactor is not None
    engine.compact()
    for _ in range(1_000):
        engine.every_second()
        engine.compactor.step(engine.now)


def make_example(folder: Path) -> Any:
    """Write the journal of docs/journal.md; returns the state."""
    chance = random.Random(1)
    broker = MemoryEngine(START, chance.randbytes, chance.uniform)
    encoder = Encoder(Homes())
    broker.record(encoder)
    salt = 0x5A17_5A17
    parts = [segment_head(1, 1, START, salt)]

    def commit(sequence: int) -> None:
        parts.append(encode_batch(sequence, broker.now, broker.now, sequence - 1, b"".join(encoder.records), salt))
        encoder.records.clear()

    encoder.broker(0, 0, 1)
    broker.declare(b"q", QueueSettings())
    commit(1)
    broker.put_one(b"q", b"hi")
    commit(2)
    broker.advance(START + 5)
    (leased,) = _taken(broker, b"q")
    commit(3)
    broker.ack(b"q", (leased[1],))
    commit(4)
    folder.mkdir()
    segment_path(folder, 1).write_bytes(b"".join(parts))
    return state_of(broker)


def main(names: list[str]) -> None:
    """Write journals by their names, where there are none yet."""
    for name in names:
        if name.endswith(".jsonl"):
            recovery = Recovery(HERE / name.removesuffix(".jsonl").replace("export", "everything"))
            for _ in recovery.read():
                pass
            lines = "".join(line + "\n" for line in export_lines(recovery.image))
            (HERE / name).write_text(lines, encoding="utf-8")
            continue
        make = make_example if name == "example" else make_everything
        state = make(HERE / name)
        text = json.dumps(state, indent=1, sort_keys=True) + "\n"
        (HERE / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
