"""Errors: a word, a text, and nothing of the user's that could break the line."""

from __future__ import annotations

import inspect
import pickle
import re

from respmq import errors
from respmq.errors import QUOTE_LIMIT, BrokerError, ProtocolError, quote


def classes() -> list[type[BrokerError]]:
    return [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, BrokerError)]


def test_each_has_one_upper_case_word_and_says_in_its_docstring_which() -> None:
    assert len(classes()) > 10
    for kind in classes():
        assert re.fullmatch(r"[A-Z]+", kind.code), kind
        if kind is not BrokerError:
            assert (inspect.getdoc(kind) or "").startswith(f"`{kind.code}"), kind


def test_no_two_have_the_same_word_but_err() -> None:
    words = [kind.code for kind in classes() if kind.code != "ERR"]
    assert len(words) == len(set(words))


def test_the_line_on_the_wire() -> None:
    assert BrokerError("text").line() == b"ERR text"
    assert ProtocolError("too big").line() == b"ERR Protocol error: too big"
    assert errors.QueueNotFoundError.named(b"q").line() == b"NOQUEUE no such queue 'q'"


def test_quoting() -> None:
    assert quote(b"plain text") == "plain text"
    assert quote(b"") == ""
    assert quote(b"\r\n\x00\x7f\xff") == "\\x0d\\x0a\\x00\\x7f\\xff"
    assert quote("\N{EURO SIGN}".encode()) == "\\xe2\\x82\\xac"
    assert quote(b"x" * QUOTE_LIMIT) == "x" * QUOTE_LIMIT
    assert quote(b"x" * (QUOTE_LIMIT + 1)) == "x" * QUOTE_LIMIT + "..."
    for value in (bytes(range(256)), b"\x80" * 500):
        assert quote(value).isascii()
        assert quote(value).isprintable()


def test_a_client_makes_the_class_of_the_word_from_a_line() -> None:
    for kind in classes():
        if kind.code != "ERR":
            error = errors.error_from_line(f"{kind.code} some text")
            assert type(error) is kind
            assert (error.code, error.text) == (kind.code, "some text")
    error = errors.error_from_line("ERR syntax error\n")
    assert type(error) is errors.InvalidRequestError
    assert error.text == "syntax error\n"


def test_a_word_that_is_not_known_is_kept() -> None:
    error = errors.error_from_line("BUSY a script runs")
    assert type(error) is errors.OtherError
    assert (error.code, error.text, error.line()) == ("BUSY", "a script runs", b"BUSY a script runs")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own, made in this line
    assert (type(copy), copy.code, copy.text) == (errors.OtherError, "BUSY", "a script runs")
    assert errors.error_from_line("NOSCRIPT").code == "NOSCRIPT"
    assert errors.error_from_line("What is this").line() == b"ERR What is this"
    assert errors.error_from_line("what is this").line() == b"ERR what is this"
