"""Settings in seconds, as the broker has them in milliseconds."""

from __future__ import annotations

from typing import Any

import pytest

from respmq import InvalidRequestError, QueueConfig
from respmq.api.settings import SETTINGS, milliseconds
from respmq.core.directory import SETTING_NAMES
from respmq.core.model import QueueSettings


def test_the_defaults_and_the_names_are_those_of_qdeclare() -> None:
    assert QueueConfig().to_settings() == QueueSettings()
    assert QueueConfig.from_settings(QueueSettings()) == QueueConfig()
    assert set(SETTINGS) == set(SETTING_NAMES)


def test_every_setting_comes_through() -> None:
    config = QueueConfig(
        ack_timeout=1.5,
        max_attempts=2,
        retry_delay=0,
        max_retry_delay=0.25,
        retry_jitter=0.5,
        max_len=3,
        overflow="DROPHEAD",
        ttl=7,
        max_dead=0,
        dedupe=0,
    )
    assert QueueConfig.from_settings(config.to_settings()) == config
    assert config.to_settings().max_retry_delay == 250


#: Any: no type checker would let these through.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"ack_timeout": 0}, "invalid ack_timeout 0: a number of seconds is wanted, above 0"),
    ({"ack_timeout": "30s"}, "invalid ack_timeout '30s'"),
    ({"ack_timeout": True}, "invalid ack_timeout True"),
    ({"ack_timeout": float("nan")}, "invalid ack_timeout nan"),
    ({"ttl": 3651 * 86_400}, "at most 315360000 (3650 days)"),
    ({"retry_delay": -1}, "invalid retry_delay -1: a number of seconds is wanted, from 0"),
    ({"retry_delay": 100}, "MAXRETRYDELAY 60s is below RETRYDELAY 100s"),
    ({"max_attempts": 0}, "invalid max_attempts 0: an integer of at least 1"),
    ({"max_len": 1.5}, "invalid max_len 1.5"),
    ({"max_dead": -1}, "invalid max_dead -1: an integer of at least 0"),
    ({"retry_jitter": 1.1}, "invalid retry_jitter 1.1: a number from 0 to 1"),
    ({"overflow": "drop"}, "invalid overflow 'drop': 'REJECT' or 'DROPHEAD'"),
    ({"maxlen": 5}, "unknown settings maxlen: there are ack_timeout"),
]


@pytest.mark.parametrize(("settings", "text"), WRONG, ids=[text for _, text in WRONG])
def test_what_can_not_be_is_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        QueueConfig.from_mapping(settings)
    assert text in str(error.value)


def test_durations_are_rounded_as_they_are_written() -> None:
    assert milliseconds(0.29, "delay") == 290
    assert milliseconds(1.001, "delay") == 1001
    assert milliseconds(0.0015, "delay") == 1
    assert milliseconds(1e-9, "delay") == 1
    assert milliseconds(0, "delay") == 0
