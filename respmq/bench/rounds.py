"""The order of things: every target in every round, one after the other, each with a queue of its own."""

from __future__ import annotations

import gc
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from respmq.bench.control import Address, BenchError, Control
from respmq.bench.load import WARM_UP, Load, Measurement
from respmq.bench.targets import Mode, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The longest measurement, in seconds: the time of each cycle is kept until its end.
MOST_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How it is measured.

    Args:
        connections: how many connections there are at a time.
        depth: how many jobs a connection works on at a time, where it works on several.
        body: how many bytes the body of a job has.
        seconds: how long a measurement lasts.
        rounds: how often everything is measured.
    """

    connections: int = 50
    depth: int = 16
    body: int = 64
    seconds: float = 1.0
    rounds: int = 3


@dataclass(slots=True)
class Outcome:
    """What was found of one target in one mode: a measurement for each round, or why there is none."""

    target: Target
    mode: Mode
    measurements: list[Measurement] = field(default_factory=list)
    error: str | None = None


def duration(targets: int, settings: Settings) -> float:
    """How long it takes to measure so many targets, in seconds."""
    return targets * len(Mode) * settings.rounds * settings.seconds * (1 + WARM_UP)


def measure_all(
    targets: Sequence[tuple[Target, Address]], settings: Settings, progress: Callable[[Target, Mode], None]
) -> list[Outcome]:
    """Measure all targets, in rounds, so that what changes on the machine meanwhile changes it for all of them.

    `progress` is called before each measurement. A target that fails in a mode is not measured again in that mode.
    """
    outcomes = {(target.key, mode): Outcome(target, mode) for mode in Mode for target, _ in targets}
    for number in range(settings.rounds):
        # Nobody is always the first one.
        first = number % len(targets)
        for mode in Mode:
            for target, address in [*targets[first:], *targets[:first]]:
                outcome = outcomes[target.key, mode]
                if outcome.error is not None:
                    continue
                progress(target, mode)
                try:
                    outcome.measurements.append(_measure(target, address, mode, settings))
                except BenchError as error:
                    outcome.measurements.clear()
                    outcome.error = str(error)
    return list(outcomes.values())


def _measure(target: Target, address: Address, mode: Mode, settings: Settings) -> Measurement:
    name = f"respmq-bench-{secrets.token_hex(8)}"
    plan = target.plan(mode, name, 1 if mode is Mode.SINGLE else settings.depth, b"x" * settings.body)
    with Control(address) as control:
        target.check(control, name)
    collecting = gc.isenabled()
    # Nothing here has to be collected, and the pause would be counted as the server's.
    gc.disable()
    try:
        with Control(address) as control:
            target.make(control, name)
        with Load(address, plan, settings.connections) as load:
            measurement = load.measure(settings.seconds)
    except BaseException as error:
        left = _remove(target, address, name)
        if left is not None and isinstance(error, BenchError):
            raise BenchError(f"{error}; {left}") from None
        raise
    finally:
        if collecting:
            gc.enable()
    left = _remove(target, address, name)
    if left is not None:
        raise BenchError(left)
    return measurement


def _remove(target: Target, address: Address, name: str) -> str | None:
    """Remove the queue; says so if it may be left."""
    try:
        with Control(address) as control:
            target.remove(control, name)
    except BenchError as error:
        return f"'{name}' may be left there: {error}"
    return None
