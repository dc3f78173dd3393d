"""A queue that sees everything: all events, and the deaths of messages, which the broker publishes as events too.

Run it with the port of a broker: `python audit_queue.py 6390`.
"""

import sys
from typing import Any

import redis

call: Any = redis.Redis(port=int(sys.argv[1]), decode_responses=True).execute_command

# A full queue loses copies; this one makes room, so that it always has the newest.
call("QDECLARE", "audit", "MAXLEN", 100_000, "OVERFLOW", "DROPHEAD")
call("QBIND", "#", "audit")

call("PUBLISH", "users.login", "alice")
call("QDECLARE", "jobs")
call("QPUT", "jobs", "resize cat.jpg")
for _, _, lease, _, _ in call("QLEASE", "jobs"):
    call("QNACK", "jobs", lease, "REJECT", "ERROR", "not an image")

for event in call("QLEASE", "audit", "COUNT", 100, "FULL"):
    print(event["headers"]["topic"], event["body"])
    call("QACK", "audit", event["lease"])
