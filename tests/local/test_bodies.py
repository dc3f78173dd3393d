"""How values become bytes and bytes values: exact between Python programs, sensible with others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respmq import BodyDecodeError, Event, InvalidRequestError, JsonValue
from respmq.api.bodies import decode_body, decode_event_body, encode_body, encode_event_body, octets, text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    max_leaves=10,
)


@settings(deadline=None)
@given(JSON | st.binary())
def test_what_went_in_comes_out(body: JsonValue | bytes) -> None:
    raw, headers = encode_body(body, {"user": "ann"})
    out = decode_body(raw, headers)
    assert out == body
    assert type(out) is type(body)
    assert headers["user"] == "ann"


@settings(deadline=None)
@given(st.binary())
def test_names_and_headers_of_any_bytes_come_through(value: bytes) -> None:
    assert octets(text(value), "header") == value


def test_what_stands_on_the_wire() -> None:
    assert encode_body("h\N{LATIN SMALL LETTER E WITH ACUTE}") == (b"h\xc3\xa9", {})
    assert encode_body(b"\xff") == (b"\xff", {"content-type": "application/octet-stream"})
    assert encode_body({"a": ["\N{SNOWMAN}"]}) == (
        b'{"a":["\xe2\x98\x83"]}',
        {"content-type": "application/json"},
    )
    assert encode_event_body({"a": 1}) == b'{"a":1}'


@pytest.mark.parametrize(
    ("raw", "kind", "body"),
    [
        (b"text", "", "text"),
        (b"\xff", "", b"\xff"),
        (b'{"a": 1}', "", '{"a": 1}'),
        (b"1", "application/json", 1),
        (b"[1]", "Application/JSON; charset=utf-8", [1]),
        (b"{}", "application/vnd.api+json", {}),
        (b"text", "text/plain; charset=utf-8", "text"),
        (b"<a/>", "application/xml", b"<a/>"),
    ],
)
def test_what_others_have_put(raw: bytes, kind: str, body: object) -> None:
    out = decode_body(raw, {"content-type": kind} if kind else {})
    assert out == body
    assert type(out) is type(body)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [(b"{", "application/json"), (b"\xff", "application/json"), (b"NaN", "application/json"), (b"\xff", "text/plain")],
)
def test_what_is_not_what_it_says_can_not_be_decoded(raw: bytes, kind: str) -> None:
    with pytest.raises(BodyDecodeError, match="the body is marked as") as error:
        decode_body(raw, {"content-type": kind})
    assert error.value.code == "ERR"


def test_nesting_without_end_is_an_error_both_ways() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidRequestError, match="Circular reference"):
        encode_body(endless)
    with pytest.raises(BodyDecodeError, match="recursion"):
        decode_body(b"[" * 100_000, {"content-type": "application/json"})


def test_a_copy_of_an_announcement_is_json() -> None:
    assert decode_body(b'{"reason":"rejected"}', {"topic": "$sys.dead.jobs"}) == {"reason": "rejected"}
    assert decode_body(b'{"reason":"rejected"}', {"topic": "news"}) == '{"reason":"rejected"}'


def test_events_without_headers() -> None:
    assert Event("$sys.dead.jobs", b'{"reason":"rejected"}').body["reason"] == "rejected"
    assert Event("t", b'{"a":1}').body == {"a": 1}
    assert Event("t", b"[1]").body == [1]
    assert Event("t", b"[not json").body == "[not json"
    assert Event("t", b"17").body == "17"
    assert Event("t", b"\xff").body == b"\xff"
    assert Event("t", b"[1]", {}).body == "[1]"
    assert decode_event_body(b"7", "t", {"content-type": "application/json"}) == 7


def test_a_body_is_decoded_once_for_its_reader() -> None:
    event = Event("t", b"[1]")
    assert event.body is event.body
    assert event == Event("t", b"[1]")
    assert hash(event) == hash(Event("t", b"[1]"))


@pytest.mark.parametrize("body", [{1: "a"}, {"a": [{None: 1}]}, [({True: 1},)]])
def test_keys_that_would_come_back_as_strings_are_refused(body: Any) -> None:
    with pytest.raises(InvalidRequestError, match="of an object is no str"):
        encode_body(body)


def test_names_that_are_no_strings() -> None:
    a_name: Any = b"jobs"
    with pytest.raises(InvalidRequestError, match="name b'jobs' is of the type bytes, a str is wanted"):
        octets(a_name, "name")


def test_surrogates_that_stand_for_no_byte() -> None:
    with pytest.raises(InvalidRequestError, match=r"name '.ud800' can't be encoded"):
        octets("\ud800", "name")
