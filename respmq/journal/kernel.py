"""Syncs that the kernel does in the background: Linux' asynchronous I/O, io_submit(2) with IOCB_CMD_FDSYNC.

A thread that waits for fdatasync() has to take the interpreter's lock two or three times for each, in the middle of the
event loop's work: with syncs of a quarter of a millisecond that takes longer than all that is done between them. Here a
sync is one system call that begins it and one that asks for its result, and an eventfd tells when.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: io_setup, io_destroy, io_getevents, io_submit. The C library has no functions for them.
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}

_FDSYNC = 3
_TELLS_EVENTFD = 1

#: How many syncs may be on their way at a time.
_MOST = 16


class _Request(ctypes.Structure):
    """`struct iocb`, whose first fields stand in this order on little-endian machines."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """`struct io_event`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("more", ctypes.c_int64),
    )


class KernelSync:
    """Syncs files in the background; `eventfd` becomes readable when one is done.

    Raises:
        OSError: this system can't.
    """

    def __init__(self, eventfd: int) -> None:
        calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
        if calls is None or sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._setup, self._destroy, self._get_events, self._submit = calls
        self._call_kernel = ctypes.CDLL(None, use_errno=True).syscall
        self._call_kernel.restype = ctypes.c_long
        self._eventfd = eventfd
        self._context = ctypes.c_ulong(0)
        self._call(self._setup, ctypes.c_long(_MOST), ctypes.byref(self._context))
        self._events = (_Event * _MOST)()
        self._no_time = (ctypes.c_long * 2)(0, 0)
        self._numbers = 0
        #: Whom to call back, and the request, which has to stay where it is until then.
        self._running: dict[int, tuple[Callable[[OSError | None], None], _Request]] = {}

    def _call(self, number: int, *arguments: object) -> int:
        result: int = self._call_kernel(ctypes.c_long(number), *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def submit(self, fd: int, done: Callable[[OSError | None], None]) -> None:
        """Begin to sync a file as fdatasync() does; `done` is called by `finish` with None or what went wrong.

        Raises:
            OSError: it can't be begun, and nothing was; EAGAIN if too many are on their way.
        """
        self._numbers += 1
        request = _Request(data=self._numbers, opcode=_FDSYNC, fd=fd, flags=_TELLS_EVENTFD, eventfd=self._eventfd)
        self._call(self._submit, self._context, ctypes.c_long(1), ctypes.byref(ctypes.pointer(request)))
        self._running[self._numbers] = done, request

    def finish(self, *, wait: bool = False) -> None:
        """Call back for all syncs that are done; `wait` until all are."""
        while self._running:
            found = self._ask(len(self._running) if wait else 0)
            for event in self._events[:found]:
                done, _ = self._running.pop(event.data)
                code = -event.result
                done(OSError(code, os.strerror(code)) if code else None)
            if not wait and found < _MOST:
                return

    def _ask(self, least: int) -> int:
        """Fetch events, at least so many; returns their number."""
        limit = None if least else ctypes.byref(self._no_time)
        while True:
            try:
                return self._call(
                    self._get_events,
                    self._context,
                    ctypes.c_long(least),
                    ctypes.c_long(_MOST),
                    ctypes.byref(self._events),
                    limit,
                )
            except InterruptedError:
                if not least:
                    return 0

    def close(self) -> None:
        """Wait for what is on its way, and release the kernel's part."""
        self.finish(wait=True)
        self._call(self._destroy, self._context)
