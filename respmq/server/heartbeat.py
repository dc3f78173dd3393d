"""Peers that have vanished: a machine that lost its power, a network that forgot the connection.

While nothing is on its way to a peer, the system's keepalive asks whether it is still there. Keepalive rests while data
is on its way, and to limit the time until that data is taken (TCP_USER_TIMEOUT) would end a peer that is well but
doesn't read. So the server itself looks from time to time whether the peer's system has answered the data, or the
probes that are sent while the peer's window is closed.
"""

from __future__ import annotations

import errno
import math
import socket
import struct
import sys

#: What Linux takes as seconds of keepalive, and as milliseconds between two attempts to send.
_MAX_KEEPALIVE = 32767
_LEAST_RTO_MAX = 1_000
_MOST_RTO_MAX = 120_000

#: Linux 6.15 and newer; Python has no name for it.
_TCP_RTO_MAX_MS = 44

#: The beginning of Linux' `struct tcp_info`: tcpi_probes (zero-window probes without an answer), tcpi_unacked (segments
#: on their way), tcpi_last_ack_recv (milliseconds since the peer was heard).
_TCP_INFO = struct.Struct("=3xB20xI28xI")


def set_heartbeat(sock: socket.socket, millis: int) -> None:
    """Let the system end an idle TCP connection when the peer hasn't been heard of for about twice `millis` (0: never).

    It also lets the system send again at least every `millis` what isn't answered, so that `Pulse` can tell. Linux
    before 6.15 can't: it takes longer and longer pauses, up to two minutes.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(millis > 0))
    if not millis:
        return
    seconds = min(max(1, millis // 1000), _MAX_KEEPALIVE)
    for name, value in (
        ("TCP_KEEPIDLE", seconds),
        ("TCP_KEEPINTVL", max(1, seconds // 3)),
        ("TCP_KEEPCNT", min(max(2, seconds), 3)),
    ):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    if sys.platform == "linux":
        pause = min(max(millis, _LEAST_RTO_MAX), _MOST_RTO_MAX)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, pause)
        except OSError as error:
            if error.errno != errno.ENOPROTOOPT:
                raise


def unanswered(sock: socket.socket) -> float:
    """Seconds since the peer of a TCP connection was heard, 0 if nothing is on its way that it has to answer.

    Only on Linux.

    Raises:
        OSError: the socket is none that can tell.
    """
    probes, unacked, last_ack = _TCP_INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    return last_ack / 1000 if probes or unacked else 0.0


class Pulse:
    """Whether the peer of one connection still answers what is sent to it.

    Args:
        sock: the connection.
        millis: the heartbeat; 0, and anything but TCP on Linux: no peer is ever found to be lost.
    """

    __slots__ = ("_next_look", "_period", "_silent_since", "_sock")

    def __init__(self, sock: socket.socket, millis: int) -> None:
        self._sock = sock
        # The system's own pauses aren't shorter.
        self._period = max(millis, _LEAST_RTO_MAX) / 1000
        looks = sys.platform == "linux" and millis > 0 and sock.family != socket.AF_UNIX
        self._next_look = -math.inf if looks else math.inf
        self._silent_since: float | None = None

    def lost(self, now: float) -> bool:
        """Whether the peer has left unanswered, for two heartbeats, what was sent to it; `now` in seconds.

        To be called often: it looks once a heartbeat, but each time while something is without an answer.
        """
        if now < self._next_look:
            return False
        silence = unanswered(self._sock)
        if not silence:
            self._next_look = now + self._period
        if silence < self._period:
            self._silent_since = None
            return False
        if self._silent_since is None:
            # Between two probes, which may be far apart, nothing is heard of a peer that is well either. So this may
            # be a probe of just now, whose answer is on its way.
            self._silent_since = now
        return silence >= 2 * self._period and now - self._silent_since >= self._period
