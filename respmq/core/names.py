"""What queues and exchanges may be called."""

from __future__ import annotations

import re

from respmq.errors import InvalidNameError, quote

#: QLEASE takes queue names up to its first option word, so a queue can't be called like one.
RESERVED = frozenset({b"COUNT", b"WAIT", b"LEASE", b"REQID", b"FULL"})

_MAX_NAME = 200
_NAME = re.compile(rb"[A-Za-z0-9_:/@{}-]+(?:\.[A-Za-z0-9_:/@{}-]+)*")


def check_name(name: bytes, what: str = "queue") -> None:
    """Check the name of a queue or exchange.

    Raises:
        InvalidNameError: the name is empty, too long, has a character or an empty word that a name can't have, or
            is an option word of QLEASE.
    """
    if not name:
        msg = f"a name of 1 to {_MAX_NAME} bytes is wanted for the {what}, this one is empty"
    elif len(name) > _MAX_NAME:
        msg = f"{what} name '{quote(name)}' is {len(name)} bytes long, at most {_MAX_NAME} are allowed"
    elif _NAME.fullmatch(name) is None:
        msg = (
            f"{what} name '{quote(name)}' must be made of A-Z a-z 0-9 . _ : / @ {{ }} - without an empty word before, "
            "between or after dots"
        )
    elif name.upper() in RESERVED:
        msg = f"{what} name '{quote(name)}' is an option word of QLEASE, choose another one"
    else:
        return
    raise InvalidNameError(msg)
