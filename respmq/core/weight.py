"""What things cost in memory beside the bytes that a client sent, as counted for `maxmemory`.

Measured with CPython 3.11 on a 64-bit Linux, rounded up. `MESSAGE_OVERHEAD` of the hub is that of the usual message,
whose id the broker made; here is what comes on top of it.
"""

from __future__ import annotations

from typing import Final

#: An id that the broker makes; a longer one costs as much more.
ID_LENGTH: Final = 32

#: To remember an id for DEDUPE, beside its bytes.
REMEMBERED_OVERHEAD: Final = 180

#: An entry in a heap: for the end of a TTL, for the order in which messages are dropped.
HEAP_ENTRY: Final = 160

#: A dead letter beside its message, and its error text beside its bytes.
LETTER_OVERHEAD: Final = 370
ERROR_OVERHEAD: Final = 33

#: What holds headers, attachments and a TTL; the first header, each header, each attachment.
_EXTRA: Final = 150
_HEADERS: Final = 130
_HEADER: Final = 105
_ATTACHMENT: Final = 67


def extra_overhead(headers: int, attachments: int, *, ttl: bool) -> int:
    """Of so many headers and attachments, and of a TTL of the message's own."""
    overhead = _EXTRA + _HEADER * headers + _ATTACHMENT * attachments
    if headers:
        overhead += _HEADERS
    return overhead + HEAP_ENTRY if ttl else overhead


def remembered(id: bytes) -> int:
    """Of an id that is remembered, all in all."""
    return REMEMBERED_OVERHEAD + len(id)
