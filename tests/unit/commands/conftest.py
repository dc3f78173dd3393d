"""Fixtures for tests of commands on sessions without sockets."""

import pytest

from tests.unit.rig import Rig, Talker


@pytest.fixture
def rig() -> Rig:
    """A server with the default settings."""
    return Rig()


@pytest.fixture
def client(rig: Rig) -> Talker:
    """A client of it that speaks RESP2."""
    return rig.connect()


@pytest.fixture
def client3(rig: Rig) -> Talker:
    """A client of it that speaks RESP3."""
    return rig.connect(resp=3)
