"""What a queue may be called."""

from __future__ import annotations

import re

from respmq.errors import InvalidNameError, quote

#: QLEASE takes queue names up to its first option word, so a queue can't be called like one.
RESERVED = frozenset({b"COUNT", b"WAIT", b"LEASE", b"REQID", b"FULL"})

_MAX_NAME = 200
_NAME = re.compile(rb"[A-Za-z0-9_:/@{}-]+(?:\.[A-Za-z0-9_:/@{}-]+)*")


def check_queue_name(name: bytes) -> None:
    """Check a queue name.

    Raises:
        InvalidNameError: the name is empty, too long, has a character or an empty word that a name can't have, or
            is an option word of QLEASE.
    """
    if not name:
        msg = "a queue name is 1 to 200 bytes, this one is empty"
    elif len(name) > _MAX_NAME:
        msg = f"queue name '{quote(name)}' is {len(name)} bytes long, at most {_MAX_NAME} are allowed"
    elif _NAME.fullmatch(name) is None:
        msg = f"queue name '{quote(name)}' must be made of A-Z a-z 0-9 . _ : / @ {{ }} - without an empty word between dots"
    elif name.upper() in RESERVED:
        msg = f"queue name '{quote(name)}' is an option of QLEASE, choose another name"
    else:
        return
    raise InvalidNameError(msg)
