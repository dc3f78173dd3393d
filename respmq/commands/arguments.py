"""Arguments that several commands have: their types, kinds and descriptions.

A command's signature uses these through `Annotated`, see `respmq.commands.spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from respmq.commands.kinds import Bytes, Integer, Sized


@dataclass(frozen=True)
class Described:
    """A sentence on an argument, for the docs; `value` is what usage lines call its value, if not by its name."""

    text: str
    value: str = ""


class NoneNeeded:
    """Says that of several arguments by place there may be none."""


NONE_NEEDED = NoneNeeded()

QUEUE = Bytes("key")
BLOB = Bytes()
MESSAGE_ID = Sized(1, 255, "a message id")
HEADER_NAME = Sized(1, 255, "a header name")
COUNT = Integer(least=1)
OFFSET = Integer(least=0)

QueueName = Annotated[bytes, QUEUE, Described("The name of the queue.")]
Blob = Annotated[bytes, BLOB]
Full = Annotated[bool, Described("Deliver maps that hold all there is to know of a message.")]
Body = Annotated[bytes, BLOB, Described("What is sent: any bytes.")]
Lease = Annotated[bytes, BLOB, Described("The token from the delivery.")]
MessageId = Annotated[bytes, BLOB, Described("The id of a message.")]
