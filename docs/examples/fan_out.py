"""One publish, several queues: each group of workers has a queue of its own and gets a copy of everything.

Run it with the port of a broker: `python fan_out.py 6390`.
"""

import sys
from typing import Any

import redis

call: Any = redis.Redis(port=int(sys.argv[1]), decode_responses=True).execute_command
queues = ("mail", "billing", "search-index")

call("EXCHANGE", "DECLARE", "orders", "FANOUT")
for queue in queues:
    call("QDECLARE", queue)
    call("EXCHANGE", "BIND", "orders", queue)

copies = call("EXCHANGE", "PUBLISH", "orders", "", "order 17: two tins of paint")
print(f"{copies} queues got it")

for queue in queues:  # usually each is a program of its own, with a loop
    for _, _, lease, _, order in call("QLEASE", queue, "WAIT", "5s"):
        print(f"{queue} works on {order}")
        call("QACK", queue, lease)
