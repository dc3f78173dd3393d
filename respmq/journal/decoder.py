"""Records to what they are about: the parts of payloads that several kinds share."""

from __future__ import annotations

from struct import Struct, unpack_from

from respmq.core.model import Extra, Message
from respmq.journal import format as fmt

_SIZE = Struct("<I")


def decode_ids(payload: bytes, at: int, count: int) -> list[bytes]:
    """`count` ids with their sizes before them, from a place in the payload."""
    start = at + count
    if count == 1:
        return [payload[start : start + payload[at]]]
    ids: list[bytes] = []
    for size in payload[at:start]:
        ids.append(payload[start : start + size])
        start += size
    return ids


def decode_plain_ids(payload: bytes, at: int, count: int) -> list[bytes]:
    """`count` ids as the broker makes them, all of one size, from a place in the payload."""
    return [payload[place : place + fmt.ID_SIZE] for place in range(at, at + count * fmt.ID_SIZE, fmt.ID_SIZE)]


def decode_message(payload: bytes, at: int) -> tuple[Message, int]:
    """A MESSAGE from a place in the payload, and its flags."""
    (
        flags,
        state,
        priority,
        enqueued_at,
        since,
        deadline,
        expires_at,
        order,
        attempt,
        ttl,
        id_size,
        lease_size,
        headers,
        attachments,
    ) = fmt.MESSAGE.unpack_from(payload, at)
    at += fmt.MESSAGE.size
    count = 1 + 2 * headers + attachments
    # Nearly all have nothing but a body.
    sizes = _SIZE.unpack_from(payload, at) if count == 1 else unpack_from(f"<{count}I", payload, at)
    at += 4 * count
    id = payload[at : at + id_size]
    at += id_size
    lease = payload[at : at + lease_size]
    at += lease_size
    parts: list[bytes] = []
    for size in sizes:
        parts.append(payload[at : at + size])
        at += size
    extra = None
    if headers or attachments or flags & (fmt.ANNOUNCEMENT | fmt.HAS_TTL):
        pairs = dict(zip(parts[1 : 2 * headers : 2], parts[2 : 2 * headers + 1 : 2], strict=True))
        extra = Extra(pairs, tuple(parts[1 + 2 * headers :]), ttl if flags & fmt.HAS_TTL else None)
        extra.announcement = bool(flags & fmt.ANNOUNCEMENT)
    message = Message(b"", id, parts[0], priority, enqueued_at, extra)
    message.since = since
    message.deadline = deadline
    message.expires_at = expires_at
    message.order = order
    message.attempt = attempt
    message.state = state
    if flags & fmt.HAS_LEASE:
        message.lease = lease
    return message, flags
