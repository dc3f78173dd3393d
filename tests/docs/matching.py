"""Compares what a page shows with what really came.

Ids, lease tokens and times differ from run to run, so a page shows those of some earlier run. They are recognised by
their form, and have to be used as the real ones are: the same where those are the same, another where they differ, and
times as far apart as the real ones.
"""

from __future__ import annotations

import re
from typing import NoReturn

#: The port that all pages show.
SHOWN_PORT = 6390

_ID = r"[0-9a-f]{12}7[0-9a-f]{3}8[0-9a-f]{15}"
_LEASE = r"[0-9a-f]{12}-[0-9a-f]{4,8}"
_TIME = r"1[0-9]{12}"
_EDGE = r"(?<![0-9a-f-])(?:%s)(?![0-9A-Za-z-])"
_FORMS = {"id": _ID, "lease": _LEASE, "time": _TIME}
#: The placeholders.
KNOWN = re.compile("|".join(f"(?P<{name}>{_EDGE % form})" for name, form in _FORMS.items()))
#: Times as people read them; of these only the form is looked at.
_ISO_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_NUMBER = r"[0-9]+(?:\.[0-9]+)*"
#: Lines left out, or items within a line.
ELLIPSIS = r"^ *\.\.\.\n|(?:, )?\.\.\.(?=[,\]}\"])"
#: What no page has to show: redis-cli's note that a reply took long, and blanks at the ends of lines.
_UNSEEN = re.compile(r"^\([0-9]+\.[0-9]+s\)\n| +$", re.MULTILINE)


class MismatchError(AssertionError):
    """A page shows something else than what came."""


class Matcher:
    """What was learned about the placeholders of one page.

    Args:
        exact: whether the server's time stands still, so that times can be compared to the millisecond.
    """

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self._real: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._offset: int | None = None

    def real(self, text: str) -> str:
        """A command of the page with the placeholders replaced by what they stand for."""
        return KNOWN.sub(lambda match: self._real.get(match[0], match[0]), text)

    def check(self, shown: str, real: str, *, loose: bool = False) -> None:
        """See that the page shows what came; `loose`: numbers may be any numbers.

        Raises:
            MismatchError: it doesn't.
        """
        shown, real = (_ISO_TIME.sub("<moment>", _UNSEEN.sub("", text)) for text in (shown, real))
        pattern, placeholders = self._pattern(shown, loose=loose)
        match = re.fullmatch(pattern, real)
        if match is None:
            _fail(shown, real, "it differs")
        for (kind, placeholder), found in zip(placeholders, match.groups(), strict=True):
            if kind == "time":
                self._check_time(placeholder, found, shown, real)
            elif self._real.setdefault(placeholder, found) != found:
                _fail(shown, real, f"{placeholder} stood for another {kind} before")
            elif self._shown.setdefault(found, placeholder) != placeholder:
                _fail(shown, real, f"{placeholder} should be {self._shown[found]}, which stands for the same {kind}")

    def _check_time(self, placeholder: str, found: str, shown: str, real: str) -> None:
        offset = int(found) - int(placeholder)
        if self.exact and self._offset is not None and self._offset != offset:
            wrong = self._offset - offset
            _fail(shown, real, f"the time {placeholder} is {-wrong} ms too small, compared with those before")
        self._offset = offset

    @staticmethod
    def _pattern(shown: str, *, loose: bool) -> tuple[str, list[tuple[str, str]]]:
        placeholders: list[tuple[str, str]] = []
        parts: list[str] = []
        place = 0
        for match in re.finditer(f"{KNOWN.pattern}|(?P<gap>{ELLIPSIS})|(?P<number>{_NUMBER})", shown, re.MULTILINE):
            parts.append(re.escape(shown[place : match.start()]))
            place = match.end()
            kind = match.lastgroup or ""
            if kind == "gap":
                parts.append(r"(?:.*\n)*?" if match[0].endswith("\n") else ".*?")
            elif kind == "number":
                parts.append(_NUMBER if loose else re.escape(match[0]))
            elif loose:
                parts.append(_FORMS[kind])
            else:
                parts.append(f"({_FORMS[kind]})")
                placeholders.append((kind, match[0]))
        parts.append(re.escape(shown[place:]))
        return "".join(parts), placeholders


def _fail(shown: str, real: str, why: str) -> NoReturn:
    raise MismatchError(f"{why}\n--- the page shows\n{shown}--- what came\n{real}")
