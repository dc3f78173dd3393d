"""Answers that needn't wait for the disk."""

from __future__ import annotations


class Stateless(bytes):
    """An answer that tells nothing of queues and messages."""

    __slots__ = ()
