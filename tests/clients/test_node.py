"""ioredis and node-redis with their default options, in programs of their own."""

import json
from pathlib import Path

import pytest

from tests.clients.support import run
from tests.support import ServerProcess

NODE = Path(__file__).parent / "node"


@pytest.mark.parametrize("program", ["ioredis_worker.mjs", "node_redis_worker.mjs"])
def test_a_worker_settles_every_job(server: ServerProcess, queue: str, program: str) -> None:
    output = run("node", str(NODE / program), str(server.port), queue, "25")
    assert json.loads(output) == {"put": 25, "acked": 25, "retried": 1}
