"""COMMAND and the HELP subcommands: everything that is said about commands is true of them."""

import pytest

from respmq.commands.flags import CATEGORIES, FLAGS, OWN_FLAGS
from respmq.commands.registry import Table, load
from tests.unit.rig import Talker, Word

TABLE = load()


@pytest.fixture
def table() -> Table:
    return TABLE


def test_info_has_ten_fields_of_the_right_types(client: Talker, client3: Talker) -> None:
    fields2 = (
        b"*10\r\n$4\r\necho\r\n:2\r\n*3\r\n+loading\r\n+stale\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"
        b"*2\r\n+@fast\r\n+@connection\r\n*0\r\n*0\r\n*0\r\n"
    )
    assert client.cmd("COMMAND", "INFO", "nope", "ECHO") == b"*2\r\n$-1\r\n" + fields2
    fields3 = (
        b"*10\r\n$4\r\necho\r\n:2\r\n~3\r\n+loading\r\n+stale\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"
        b"~2\r\n+@fast\r\n+@connection\r\n~0\r\n~0\r\n~0\r\n"
    )
    assert client3.cmd("COMMAND", "INFO", "nope", "ECHO") == b"*2\r\n_\r\n" + fields3


def test_info_takes_so_many_names(client: Talker) -> None:
    assert client.cmd("COMMAND", "INFO", *["nope"] * 500) == b"*500\r\n" + b"$-1\r\n" * 500
    assert client.error("COMMAND", "INFO", *["nope"] * 501) == (
        "ERR COMMAND INFO takes at most 500 names, these are 501: ask for some at a time"
    )


def test_docs_tell_once_of_what_is_named_twice(client: Talker) -> None:
    assert client.cmd("COMMAND", "DOCS", *["QPUT", "qput"] * 1_000) == client.cmd("COMMAND", "DOCS", "QPUT")


def test_keys_are_described_twice(client3: Talker) -> None:
    reply = client3.cmd("COMMAND", "INFO", "qdead|len")
    assert reply == (
        b"*1\r\n*10\r\n$9\r\nqdead|len\r\n:3\r\n~2\r\n+readonly\r\n+fast\r\n:2\r\n:2\r\n:1\r\n"
        b"~3\r\n+@read\r\n+@queue\r\n+@fast\r\n~0\r\n"
        b"~1\r\n%3\r\n$5\r\nflags\r\n~2\r\n+RO\r\n+access\r\n"
        b"$12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:2\r\n"
        b"$9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n"
        b"%3\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n~0\r\n"
    )


def test_keys_before_options_are_movable(client: Talker) -> None:
    assert b"+movablekeys\r\n:1\r\n:1\r\n:1\r\n" in client.cmd("COMMAND", "INFO", "qlease")
    assert b"+incomplete\r\n" in client.cmd("COMMAND", "INFO", "qlease")


def test_containers_have_their_subcommands(client: Talker, table: Table) -> None:
    reply = client.cmd("COMMAND", "INFO", "client")
    assert reply.startswith(b"*1\r\n*10\r\n$6\r\nclient\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*1\r\n+@slow\r\n*0\r\n*0\r\n")
    assert all(b"client|%b\r\n" % name.lower().encode() in reply for name in table.containers["CLIENT"].subcommands)
    assert client.cmd("COMMAND", "INFO", "command").startswith(b"*1\r\n*10\r\n$7\r\ncommand\r\n:-1\r\n")


def test_command_alone_describes_all(client: Talker) -> None:
    count = client.integer("COMMAND", "COUNT")
    everything = client.cmd("COMMAND")
    assert everything.startswith(b"*%d\r\n*10\r\n" % count)
    assert client.cmd("COMMAND", "INFO") == everything
    assert client.error("COMMAND", "COUNT", "x").startswith("ERR wrong number of arguments for 'command|count' command")


def test_docs_shape(client: Talker, client3: Talker) -> None:
    assert client3.cmd("COMMAND", "DOCS", "nope", "Echo") == (
        b"%1\r\n$4\r\necho\r\n%5\r\n$7\r\nsummary\r\n$20\r\nReturns the message.\r\n$5\r\nsince\r\n$5\r\n0.1.0\r\n"
        b"$5\r\ngroup\r\n$10\r\nconnection\r\n$10\r\ncomplexity\r\n$4\r\nO(1)\r\n"
        b"$9\r\narguments\r\n*1\r\n%2\r\n$4\r\nname\r\n$7\r\nmessage\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
    )
    assert client.cmd("COMMAND", "DOCS", "nope") == b"*0\r\n"
    assert client.cmd("COMMAND", "DOCS", "time").startswith(b"*2\r\n$4\r\ntime\r\n*8\r\n$7\r\nsummary\r\n")


def test_docs_of_each_kind_of_argument(client3: Talker) -> None:
    def argument(*pairs: bytes) -> bytes:
        return b"%%%d\r\n" % (len(pairs) // 2) + b"".join(pairs)

    def bulk(text: str) -> bytes:
        return b"$%d\r\n%b\r\n" % (len(text), text.encode())

    optional = b"~1\r\n+optional\r\n"
    qput = client3.cmd("COMMAND", "DOCS", "qput")
    key = (bulk("name"), bulk("queue"), bulk("type"), bulk("key"), bulk("key_spec_index"), b":0\r\n")
    assert argument(*key) in qput
    priority = (bulk("name"), bulk("n"), bulk("type"), bulk("integer"), bulk("token"), bulk("PRIORITY"))
    assert argument(*priority, bulk("flags"), optional) in qput
    pair = b"*2\r\n" + b"".join(
        argument(bulk("name"), bulk(name), bulk("type"), bulk("string")) for name in ("name", "value")
    )
    repeated = b"~3\r\n+optional\r\n+multiple\r\n+multiple_token\r\n"
    header = (bulk("name"), bulk("header"), bulk("type"), bulk("block"), bulk("token"), bulk("HEADER"))
    assert argument(*header, bulk("flags"), repeated, bulk("arguments"), pair) in qput
    shutdown = client3.cmd("COMMAND", "DOCS", "shutdown")
    now = (bulk("name"), bulk("now"), bulk("type"), bulk("pure-token"), bulk("token"), bulk("NOW"))
    assert argument(*now, bulk("flags"), optional) in shutdown
    words = b"*2\r\n" + b"".join(
        argument(bulk("name"), bulk(name), bulk("type"), bulk("pure-token"), bulk("token"), bulk(name.upper()))
        for name in ("nosave", "save")
    )
    save = (bulk("name"), bulk("save"), bulk("type"), bulk("oneof"), bulk("flags"), optional)
    assert argument(*save, bulk("arguments"), words) in shutdown
    several = b"~2\r\n+optional\r\n+multiple\r\n"
    id = (bulk("name"), bulk("client-id"), bulk("type"), bulk("integer"), bulk("token"), bulk("ID"))
    assert argument(*id, bulk("flags"), several) in client3.cmd("COMMAND", "DOCS", "client|list")


def test_docs_of_containers(client: Talker, table: Table) -> None:
    for name, container in table.containers.items():
        reply = client.cmd("COMMAND", "DOCS", name)
        assert reply.startswith(b"*2\r\n$%d\r\n%b\r\n" % (len(name), name.lower().encode()))
        assert b"$11\r\nsubcommands\r\n*%d\r\n" % (2 * len(container.subcommands)) in reply


def test_list(client: Talker, table: Table) -> None:
    names = client.cmd("COMMAND", "LIST").split(b"\r\n")[2::2]
    assert (
        len(set(names))
        == len(names)
        == sum(1 for _ in table.all_specs()) + len(set(table.containers).difference(table.commands))
    )
    assert {b"ping", b"client", b"client|id", b"command", b"command|list", b"qdead|help"} <= set(names)


def test_list_filters(client: Talker) -> None:
    assert client.cmd("COMMAND", "LIST", "FILTERBY", "pattern", "PIN*") == b"*1\r\n$4\r\nping\r\n"
    assert client.cmd("COMMAND", "LIST", "FILTERBY", "MODULE", "x") == b"*0\r\n"
    assert client.cmd("COMMAND", "LIST", "FILTERBY", "ACLCAT", "nope") == b"*0\r\n"
    connection = client.cmd("COMMAND", "LIST", "FILTERBY", "ACLCAT", "Connection")
    assert b"\r\nclient|id\r\n" in connection
    assert b"config" not in connection


@pytest.mark.parametrize("args", [("x",), ("FILTERBY",), ("FILTERBY", "x", "y"), ("FILTERBY", "PATTERN", "x", "y")])
def test_list_errors(args: tuple[Word, ...], client: Talker) -> None:
    assert client.error("COMMAND", "LIST", *args).startswith("ERR syntax error")


@pytest.mark.parametrize(
    ("call", "keys"),
    [
        ("QPUT jobs body", b"*1\r\n$4\r\njobs\r\n"),
        ("qlease a b c COUNT 5", b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("qdead list jobs", b"*1\r\n$4\r\njobs\r\n"),
        ("QDEAD REPLAY jobs 1 2", b"*1\r\n$4\r\njobs\r\n"),
        ("QSTATS jobs", b"*1\r\n$4\r\njobs\r\n"),
    ],
)
def test_getkeys(call: str, keys: bytes, client: Talker) -> None:
    assert client.cmd("COMMAND", "GETKEYS", *call.split()) == keys


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("PING", "ERR wrong number of arguments for 'command|getkeys' command"),
        ("NOPE x", "ERR Invalid command specified"),
        ("CLIENT NOPE", "ERR Invalid command specified"),
        ("ECHO x", "ERR The command has no key arguments"),
        ("CLIENT ID", "ERR The command has no key arguments"),
        ("QPUT jobs", "ERR Invalid number of arguments specified for command"),
        ("QDELETE a b", "ERR Invalid number of arguments specified for command"),
    ],
)
def test_getkeys_errors(call: str, error: str, client: Talker) -> None:
    assert client.error("COMMAND", "GETKEYS", *call.split()).startswith(error)


# -- HELP


def test_help_has_two_lines_for_each_subcommand(client: Talker, client3: Talker, table: Table) -> None:
    for name, container in table.containers.items():
        reply = client.cmd(name, "HELP")
        lines = reply.decode().split("\r\n")[1:-1]
        assert all(line.startswith("+") for line in lines)
        assert lines[0] == f"+{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
        assert lines[-2:] == ["+HELP", "+    Prints this help."]
        own = 2 if name in table.commands else 0
        assert len(lines) == 1 + own + 2 * len(container.subcommands)
        for subcommand, spec in container.subcommands.items():
            place = next(i for i, line in enumerate(lines) if line.removeprefix("+").split(" ")[0] == subcommand)
            assert lines[place + 1] == f"+    {spec.summary}"
        assert client3.cmd(name, "HELP") == reply
        shown = f"ERR wrong number of arguments for '{name.lower()}|help' command"
        assert client.error(name, "HELP", "x").startswith(shown)


def test_help_of_command_begins_with_command_itself(client: Talker) -> None:
    assert b"\r\n+(no subcommand)\r\n+    Describes all commands.\r\n" in client.cmd("COMMAND", "HELP")


# -- the table


def test_every_command_is_complete(table: Table) -> None:
    for spec in table.all_specs():
        assert spec.summary.endswith("."), spec.name
        assert spec.since, spec.name
        assert spec.reply.shape, spec.name
        assert spec.flags <= {*FLAGS, *OWN_FLAGS}, spec.name
        assert set(spec.categories) <= set(CATEGORIES), spec.name
        assert spec.complexity, spec.name


def test_wrong_numbers_of_arguments_name_the_command(client: Talker, table: Table) -> None:
    for spec in table.all_specs():
        if abs(spec.grammar.arity) > spec.grammar.depth:
            shown = spec.name.lower().replace(" ", "|")
            expected = f"ERR wrong number of arguments for '{shown}' command, usage: {spec.name}"
            assert client.error(*spec.name.split()).startswith(expected)
