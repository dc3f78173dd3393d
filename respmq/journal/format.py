"""What a journal is made of, byte by byte; docs/journal.md describes it for people.

A segment file is a header and batches; a batch is a header and records; a record is a header and a payload. All
numbers are little-endian. Payloads that are rare are JSON, those that are frequent are packed.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

VERSION: Final = 2

SEGMENT_MAGIC: Final = b"respmqJ\n"
#: magic, version, number of the segment, sequence of its first batch, milliseconds since the epoch when it was begun,
#: salt; a CRC-32 of these follows. The salt is random and the beginning of the checksum of each batch in the segment,
#: so that no body that a client sends can look like a batch.
SEGMENT_HEAD = Struct("<8sHQQqI")
SEGMENT_SIZE: Final = SEGMENT_HEAD.size + 4

BATCH_MAGIC: Final = b"RMQB"
#: magic, size of the records, CRC-32 of the salt and of all that follows here.
BATCH_HEAD = Struct("<4sII")
#: sequence of the batch, the broker's time and the wall clock's, both in milliseconds since the epoch, and the sequence
#: of the last batch that was known to be on the disk.
BATCH_META = Struct("<QqqQ")
BATCH_SIZE: Final = BATCH_HEAD.size + BATCH_META.size

#: kind, size of the payload, number of the queue (0: none).
RECORD_HEAD = Struct("<BII")


class Kind(IntEnum):
    """Kinds of records. Numbers are never used for something else."""

    BROKER = 1
    QUEUE = 2
    DELETED = 3
    PURGED = 4
    RENAMED = 5
    BOUND = 6
    UNBOUND = 7
    EXCHANGE = 8
    EXCHANGE_DELETED = 9
    EXCHANGE_BOUND = 10
    EXCHANGE_UNBOUND = 11
    COPY_DROPPED = 12
    PUT = 13
    MESSAGE = 14
    DUPLICATE = 15
    LEASED = 16
    REQUESTED = 17
    TOUCHED = 18
    ACKED = 19
    RETURNED = 20
    PROMOTED = 21
    REMOVED = 22
    DIED = 23
    LETTER = 24
    DEAD_REMOVED = 25
    DEAD_CLEARED = 26
    REPLAYED = 27
    REMEMBERED = 28
    PUT_AGAIN = 29
    SHIFTED = 30
    PUT_RUN = 31
    LEASED_RUN = 32
    ACKED_RUN = 33


#: By how many milliseconds all deadlines were moved at a start.
SHIFTED = Struct("<q")

#: now, order of the first, count; then u32 sizes of bodies, ids of 32 bytes each, bodies.
PUT = Struct("<qQI")
#: The same with its record's head, for one message and the size of its body.
PUT_ONE = Struct("<BIIqQII")
ID_SIZE: Final = 32
#: now, order of the first, count, id of the first; then u32 sizes of bodies, bodies. The ids follow each other, too.
PUT_RUN = Struct("<qQI32s")
#: count; then u64 orders, i64 moments of the puts, u32 sizes of bodies, ids of 32 bytes each, bodies.
PUT_AGAIN = Struct("<I")

#: flags, state, priority, enqueued_at, since, deadline, expires_at, order, attempt, ttl, size of id, size of lease,
#: number of headers, number of attachments; then u32 sizes of: body, names and values of headers by turns, attachments;
#: then id, lease and all those.
MESSAGE = Struct("<BBqqqqqQIqBBII")
#: Flags of a MESSAGE: the id was chosen by the client; it is no new message but one that is written down again; it is
#: a copy of the announcement of a death; it has a TTL of its own; it has (had) a lease.
CHOSEN: Final = 1
CARRIED: Final = 2
ANNOUNCEMENT: Final = 4
HAS_TTL: Final = 8
HAS_LEASE: Final = 16

#: deadline, count; then u8 sizes of ids, of tokens, then ids and tokens.
LEASED = Struct("<qI")
#: So many messages are never leased or acked at once.
MOST_IN_RUN: Final = 1 << 24
#: deadline, order of the first, count; then the token of the first. Orders and tokens of the others follow it.
LEASED_RUN = Struct("<qQI")
#: The same with its record's head.
LEASED_RUN_RECORD = Struct("<BIIqQI")
#: deadline, count; then u8 sizes and ids.
TOUCHED = Struct("<qI")
#: count; then u8 sizes and ids. Also of what is REMOVED.
IDS = Struct("<I")
#: order of the first, count. The orders of the others follow it.
ACKED_RUN = Struct("<QI")
#: The same with its record's head.
ACKED_RUN_RECORD = Struct("<BIIQI")
#: since, order of the first, count; then u8 sizes and ids.
PROMOTED = Struct("<qQI")
#: how, since, due (0: it is ready), expires_at, order; then the id.
RETURNED = Struct("<BqqqQ")
RETURNS: Final = ("failed", "expired", "released", "undelivered")

#: number of the letter, dead_at, reason, whether a lease expired, whether there is an error, size of the id; then the
#: id and the error.
DIED = Struct("<QqB??B")
REASONS: Final = ("max_attempts", "rejected", "ttl_expired", "max_length")
#: number, dead_at, reason, whether there is an error, size of the error; then the error and a MESSAGE.
LETTER = Struct("<QqB?I")
#: whether they were too many, count; then u64 numbers.
DEAD_REMOVED = Struct("<?I")
#: number of the letter, since, expires_at, order.
REPLAYED = Struct("<QqqQ")
#: sizes of user and key, count; then (u32 queue, u8 size of the token) of each lease, then user, key, tokens.
REQUESTED = Struct("<III")
REQUESTED_ITEM = Struct("<IB")
#: count; then i64 moments at which messages with these ids were put, u8 sizes, ids.
REMEMBERED = Struct("<I")
#: What one of them takes beside the id.
REMEMBERED_ID: Final = 9
