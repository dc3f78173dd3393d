"""What travels: nothing in its right shape, bytes as they are, and inline commands by Redis' quoting rules."""

from __future__ import annotations

import pytest

from tests.support import (
    OK,
    Arg,
    Conn,
    Connect,
    Map,
    Simple,
    Value,
    advance,
    as_dict,
    as_list,
    dead,
    encode,
    is_empty_map,
    lease,
    lease_one,
    messages,
    peek,
    peeked_bodies,
    put,
)

NULL = {2: b"$-1\r\n", 3: b"_\r\n"}
NULL_MAP = {2: {b"*-1\r\n", b"$-1\r\n"}, 3: {b"_\r\n"}}
ALL_BYTES = bytes(range(256))
PROTOCOLS = pytest.mark.parametrize("resp", [2, 3])


@PROTOCOLS
def test_a_lease_that_finds_nothing_is_an_empty_array(resp: int, connect: Connect, queue: str) -> None:
    """QLEASE answers `*0` in both protocols, whether it waited or not; it has no null."""
    a = connect(resp=resp)
    a.ok("QDECLARE", queue)
    assert a.raw("QLEASE", queue) == b"*0\r\n"
    assert a.raw("QLEASE", queue, "WAIT", "0.05") == b"*0\r\n"
    assert a.raw("QLEASE", queue, "FULL", "COUNT", 5) == b"*0\r\n"


@PROTOCOLS
def test_a_duplicate_is_the_null_of_the_protocol(resp: int, connect: Connect, queue: str) -> None:
    """QPUT of an id that is in the queue answers the null in the place of the id."""
    a = connect(resp=resp)
    a.ok("QDECLARE", queue)
    assert a.raw("QPUT", queue, "b", "ID", "k") == b"$1\r\nk\r\n"
    assert a.raw("QPUT", queue, "b", "ID", "k") == NULL[resp]


@PROTOCOLS
def test_an_unknown_message_is_the_null_of_the_protocol(resp: int, connect: Connect, queue: str) -> None:
    """QSHOW of an id that isn't there answers a null, no empty map and no error."""
    a = connect(resp=resp)
    a.ok("QDECLARE", queue)
    assert a.raw("QSHOW", queue, "none") in NULL_MAP[resp]


@PROTOCOLS
def test_lists_of_nothing_are_empty_arrays(resp: int, connect: Connect, queue: str) -> None:
    """What answers an array answers `*0` when there is nothing to list."""
    a = connect(resp=resp)
    a.ok("QDECLARE", queue)
    for command in (
        ("QPEEK", queue),
        ("QPEEK", queue, "STATE", "DELAYED"),
        ("QPEEK", queue, "STATE", "LEASED"),
        ("QDEAD", "LIST", queue),
        ("QDEAD", "POP", queue),
        ("QLIST", "MATCH", "no-such-*"),
    ):
        assert a.raw(*command) == b"*0\r\n", command


@PROTOCOLS
def test_missing_values_inside_maps_are_the_null_of_the_protocol(resp: int, connect: Connect, queue: str) -> None:
    """`ttl` of QCONFIG, `oldest_ready_age` of QSTATS, `lease` and `deadline` of QPEEK."""
    a = connect(resp=resp)
    a.ok("QDECLARE", queue)
    assert b"ttl\r\n" + NULL[resp] in a.raw("QCONFIG", queue)
    assert b"oldest_ready_age\r\n" + NULL[resp] in a.raw("QSTATS", queue)
    put(a, queue, "m")
    shown = a.raw("QPEEK", queue)
    assert b"lease\r\n" + NULL[resp] in shown
    assert b"deadline\r\n" + NULL[resp] in shown


@PROTOCOLS
def test_maps_have_the_shape_of_the_protocol(resp: int, connect: Connect, queue: str) -> None:
    """A map is a map in RESP3 and a flat array in RESP2; so is one inside another, even an empty one."""
    a = connect(resp=resp)
    a.ok("QDECLARE", queue)
    for command in (("QCONFIG", queue), ("QSTATS", queue), ("QSTATS",)):
        assert isinstance(a.cmd(*command), Map if resp == 3 else list), command
    put(a, queue, "plain")
    put(a, queue, "rich", "HEADER", "h", "v", "ATTACH", "blob")
    plain, rich = as_list(a.cmd("QLEASE", queue, "COUNT", 2, "FULL"))
    assert isinstance(plain, Map if resp == 3 else list)
    assert as_dict(plain)[b"headers"] == (Map(()) if resp == 3 else [])
    assert as_dict(plain)[b"attachments"] == []
    assert as_dict(rich)[b"headers"] == (Map(((b"h", b"v"),)) if resp == 3 else [b"h", b"v"])
    assert as_dict(rich)[b"attachments"] == [b"blob"]


def check_binary(found: dict[bytes, Value], message_id: bytes) -> None:
    assert found[b"id"] == message_id
    assert found[b"body"] == ALL_BYTES
    assert as_dict(found[b"headers"]) == {b"\xff\xfe\x00\r\n": ALL_BYTES, b"\x80": b""}
    assert found[b"attachments"] == [ALL_BYTES, b"", b"\r\n"]


@PROTOCOLS
def test_bytes_stay_as_they_are_from_the_put_to_the_grave(resp: int, connect: Connect, queue: str) -> None:
    """Body, id, headers, attachments and error text hold any bytes, in every command that shows them."""
    a = connect(resp=resp)
    a.ok("QDECLARE", queue, "MAXATTEMPTS", 1)
    message_id = bytes(range(255))
    options: tuple[Arg, ...] = ("HEADER", b"\xff\xfe\x00\r\n", ALL_BYTES, "HEADER", b"\x80", b"", "ATTACH", ALL_BYTES)
    assert put(a, queue, ALL_BYTES, "ID", message_id, *options, "ATTACH", b"", "ATTACH", b"\r\n") == message_id
    check_binary(peek(a, queue)[0], message_id)
    check_binary(a.mapping("QSHOW", queue, message_id), message_id)
    (full,) = messages(a.cmd("QLEASE", queue, "FULL"))
    check_binary(full, message_id)
    lease_token = full[b"lease"]
    assert isinstance(lease_token, bytes)
    assert a.integer("QNACK", queue, lease_token, "ERROR", ALL_BYTES) == 1
    (letter,) = dead(a, queue)
    check_binary(letter, message_id)
    assert letter[b"error"] == ALL_BYTES
    assert letter[b"reason"] == b"max_attempts"
    check_binary(a.mapping("QSHOW", queue, message_id), message_id)
    assert a.integer("QDEAD", "REPLAY", queue, message_id) == 1
    found = lease_one(a, queue)
    assert (found.id, found.body) == (message_id, ALL_BYTES)


def test_message_ids_are_told_apart_byte_by_byte(conn: Conn, queue: str) -> None:
    """Ids are no text: no case folding, no end at a NUL, no replacement of what is no UTF-8."""
    conn.ok("QDECLARE", queue)
    ids: list[bytes] = [
        b"k",
        b"K",
        b"k\x00",
        b"k\x00x",
        b"k ",
        b" k",
        b"\xff",
        b"\xfe",
        "\N{REPLACEMENT CHARACTER}".encode(),
    ]
    for one in ids:
        assert put(conn, queue, "m", "ID", one) == one
    assert [found.id for found in lease(conn, queue, "COUNT", 100)] == ids


@pytest.mark.parametrize("length", [0, 256, 100_000])
def test_a_message_id_has_1_to_255_bytes(length: int, conn: Conn, queue: str) -> None:
    """Any other id is refused and nothing is stored."""
    conn.ok("QDECLARE", queue)
    conn.error("QPUT", queue, "m", "ID", b"i" * length)
    assert peeked_bodies(conn, queue) == []


@pytest.mark.parametrize("length", [0, 256])
def test_a_header_name_has_1_to_255_bytes(length: int, conn: Conn, queue: str) -> None:
    """Any other name is refused and nothing is stored; of a repeated one the last counts."""
    conn.ok("QDECLARE", queue)
    conn.error("QPUT", queue, "m", "HEADER", b"i" * length, "v")
    assert peeked_bodies(conn, queue) == []
    put(conn, queue, "m", "HEADER", b"h" * 255, "1", "HEADER", "h", "2", "HEADER", b"h" * 255, "3")
    assert as_dict(peek(conn, queue)[0][b"headers"]) == {b"h" * 255: b"3", b"h": b"2"}


def test_bodies_may_be_empty(conn: Conn, queue: str) -> None:
    """An empty body is a message like any other."""
    conn.ok("QDECLARE", queue)
    put(conn, queue, b"")
    conn.array("QMPUT", queue, b"", b"")
    assert [found.body for found in lease(conn, queue, "COUNT", 10)] == [b"", b"", b""]


INLINE = [
    (rb"'a b'", b"a b"),
    (rb'"a\x00\n"', b"a\x00\n"),
    (rb'"it' + b"'" + rb's"', b"it's"),
    (rb"'it\'s'", b"it's"),
    (rb'"say \"x\" \\ \q"', b'say "x" \\ q'),
    (rb'""', b""),
    (rb"''", b""),
    (rb"'a\nb'", rb"a\nb"),
    (rb'"\xff\xFF\xzz\a\b\r\t"', b"\xff\xffxzz\a\b\r\t"),
    (rb'a"b"', b"ab"),
    (b"\xff\xfe", b"\xff\xfe"),
    (b"\t  x  \t", b"x"),
    (b"COUNT", b"COUNT"),
]


@pytest.mark.parametrize("ending", [b"\r\n", b"\n"], ids=["crlf", "lf"])
@pytest.mark.parametrize(("line", "body"), INLINE, ids=[repr(line) for line, _ in INLINE])
def test_inline_commands_follow_redis_quoting_rules(
    line: bytes, body: bytes, ending: bytes, conn: Conn, queue: str
) -> None:
    """One quoted word is one body, with the escapes that Redis knows, and no more."""
    conn.send(b"qdeclare " + queue.encode() + ending)
    assert conn.read() == OK
    conn.send(b"QPUT " + queue.encode() + b" " + line + ending)
    assert isinstance(conn.read(), bytes)
    assert peeked_bodies(conn, queue) == [body]


def test_a_command_may_be_quoted_itself(conn: Conn) -> None:
    """Quoting holds for every word of an inline command."""
    conn.send(b'"PI\\x4eG"\r\n')
    assert conn.read() == Simple(b"PONG")


@PROTOCOLS
def test_command_names_and_options_are_case_insensitive(resp: int, connect: Connect, queue: str) -> None:
    """Commands, subcommands and options in any case; names, ids and bodies keep theirs."""
    a = connect(resp=resp)
    a.ok("qDeclare", queue, "AckTimeout", "5s", "overFLOW", "dropHead")
    assert put(a, queue, "Body", "iD", "Id", "prioRITY", 1) == b"Id"
    (found,) = lease(a, queue, "cOunt", 1)
    assert found.body == b"Body"
    assert a.integer("qnack", queue, found.lease, "reject") == 1
    assert a.integer("qdead", "LEN", queue) == 1
    assert a.integer("QDEAD", "len", queue) == 1
    assert a.mapping("QCONFIG", queue)[b"overflow"] in {b"DROPHEAD", b"drophead"}


def test_headers_and_attachments_survive_every_way_back(virtual: Conn, queue: str) -> None:
    """A nack, a release, an expiry, a death and a replay leave a message as it was put."""
    virtual.ok("QDECLARE", queue, "RETRYDELAY", 0, "ACKTIMEOUT", "1s", "MAXATTEMPTS", 3)
    message_id = put(virtual, queue, "m", "PRIORITY", -7, "HEADER", "h", "v", "ATTACH", "x")

    def check() -> None:
        (found,) = peek(virtual, queue)
        assert found[b"id"] == message_id
        assert found[b"priority"] == -7
        assert as_dict(found[b"headers"]) == {b"h": b"v"}
        assert found[b"attachments"] == [b"x"]

    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease)
    check()
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "RELEASE")
    check()
    lease_one(virtual, queue)
    advance(virtual, "1s")
    check()
    virtual.integer("QNACK", queue, lease_one(virtual, queue).lease, "REJECT")
    assert virtual.integer("QDEAD", "REPLAY", queue) == 1
    check()


def test_an_empty_map_of_headers_is_no_null(virtual: Conn, queue: str) -> None:
    """A message without headers and attachments has empty ones, dead or alive."""
    virtual.ok("QDECLARE", queue, "TTL", "1s")
    put(virtual, queue, "m")
    assert is_empty_map(peek(virtual, queue)[0][b"headers"])
    advance(virtual, "1s")
    (letter,) = dead(virtual, queue)
    assert is_empty_map(letter[b"headers"])
    assert letter[b"attachments"] == []


def test_a_pipeline_of_mixed_sizes_keeps_its_order(conn: Conn) -> None:
    """Small and large replies in one pipeline come back in the order of their commands."""
    sizes = [0, 1, 100_000, 2, 1_000_000, 3, 65_536, 16_384, 5]
    conn.send(b"".join(encode("ECHO", bytes([65 + n]) * size) for n, size in enumerate(sizes)))
    assert conn.read_many(len(sizes)) == [bytes([65 + n]) * size for n, size in enumerate(sizes)]
