"""INFO: its shape, its sections, and that its figures are right."""

import pytest

from tests.unit.rig import Rig, Talker, verbatim


def figures(client: Talker, *sections: str) -> dict[str, str]:
    text = client.text("INFO", *sections)
    return dict(line.split(":", 1) for line in text.split("\r\n") if line and not line.startswith("#"))


def titles(client: Talker, *sections: str) -> list[str]:
    return [line.removeprefix("# ") for line in client.text("INFO", *sections).split("\r\n") if line.startswith("#")]


USUAL = [
    "Server",
    "Clients",
    "Memory",
    "Persistence",
    "Stats",
    "Replication",
    "CPU",
    "Errorstats",
    "Cluster",
    "Keyspace",
]


def test_it_is_a_text(client: Talker, client3: Talker) -> None:
    section = "# Cluster\r\ncluster_enabled:0\r\n"
    assert client.cmd("INFO", "cluster") == b"$%d\r\n%b\r\n" % (len(section), section.encode())
    assert client3.cmd("INFO", "cluster") == b"=%d\r\ntxt:%b\r\n" % (len(section) + 4, section.encode())
    assert (client.cmd("INFO", "nope"), client3.cmd("INFO", "nope")) == (b"$0\r\n\r\n", b"=4\r\ntxt:\r\n")


def test_sections(client: Talker) -> None:
    assert titles(client) == titles(client, "default") == USUAL
    assert titles(client, "all") == titles(client, "ALL", "server")
    assert sorted(titles(client, "all")) == sorted([*USUAL, "Commandstats"])
    assert sorted(titles(client, "everything")) == sorted([*USUAL, "Commandstats", "Queues"])
    assert titles(client, "keyspace", "SERVER", "nope") == ["Server", "Keyspace"]
    assert "\r\n\r\n# Keyspace\r\n" in client.text("INFO", "server", "keyspace")


def test_server(rig: Rig, client: Talker) -> None:
    rig.state.listening = ["unix:/run/respmq.sock", "[::1]:6391"]
    rig.advance(86_400_999)
    found = figures(client, "server")
    assert (found["redis_mode"], found["arch_bits"], found["tcp_port"]) == ("standalone", "64", "6391")
    assert (found["uptime_in_seconds"], found["uptime_in_days"]) == ("86400", "1")
    assert found["run_id"] == rig.state.run_id
    assert found["listener0"] == "unix:/run/respmq.sock"
    assert all(part.isdigit() for part in found["redis_version"].split("."))
    assert found["respmq_version"][0].isdigit()


def test_clients(rig: Rig, client: Talker) -> None:
    waiting = rig.connect()
    client.cmd("QDECLARE", "q")
    waiting.cmd("QLEASE", "q", "WAIT", 1)
    found = figures(client, "clients")
    assert (found["connected_clients"], found["blocked_clients"], found["maxclients"]) == ("2", "1", "10000")
    rig.advance(1_000)
    assert figures(client, "clients")["blocked_clients"] == "0"


def test_memory(client: Talker) -> None:
    empty = figures(client, "memory")
    assert (empty["used_memory"], empty["used_memory_human"]) == ("0", "0B")
    assert int(empty["used_memory_rss"]) > 1_000_000
    client.cmd("CONFIG", "SET", "maxmemory", "3mb")
    client.cmd("QDECLARE", "q")
    client.cmd("QPUT", "q", "x" * 1_500_000)
    found = figures(client, "memory")
    assert 1_500_000 < int(found["used_memory"]) < 1_501_000
    assert (found["used_memory_human"], found["maxmemory"], found["maxmemory_human"]) == ("1.43M", "3145728", "3.00M")


def test_stats(rig: Rig, client: Talker) -> None:
    client.all(("PING",), ("NOPE",), ("PING", "a", "b"), ("QPUT", "nowhere", "x"))
    found = figures(client, "stats")
    assert (found["total_commands_processed"], found["total_error_replies"]) == ("4", "3")
    assert found["total_connections_received"] == "1"
    rig.connect()
    assert figures(client, "stats")["total_connections_received"] == "2"


def test_operations_per_second(rig: Rig, client: Talker) -> None:
    assert figures(client, "stats")["instantaneous_ops_per_sec"] == "0"
    rig.step = 0
    rig.state.sample_calls()
    client.all(*[("PING",)] * 99)
    rig.pass_nanos(50 * 1_000_000_000)
    rig.state.sample_calls()
    # INFO and 99 PINGs in 50 seconds.
    assert figures(client, "stats")["instantaneous_ops_per_sec"] == "2"


def test_replication_says_master(client: Talker) -> None:
    found = figures(client, "replication")
    assert (found["role"], found["connected_slaves"]) == ("master", "0")


def test_commandstats(rig: Rig, client: Talker) -> None:
    rig.step = 2_000
    client.all(("PING",), ("PING",), ("PING", "a", "b"), ("CLIENT", "ID"))
    found = figures(client, "commandstats")
    assert found["cmdstat_ping"] == "calls=3,usec=6,usec_per_call=2.00,rejected_calls=0,failed_calls=1"
    assert found["cmdstat_client|id"] == "calls=1,usec=2,usec_per_call=2.00,rejected_calls=0,failed_calls=0"
    assert "cmdstat_echo" not in found


def test_errorstats(client: Talker) -> None:
    client.all(("NOPE",), ("QPUT", "nowhere", "x"), ("QPUT", "nowhere", "x"))
    assert figures(client, "errorstats") == {"errorstat_ERR": "count=1", "errorstat_NOQUEUE": "count=2"}


def test_keyspace_counts_queues(client: Talker) -> None:
    assert figures(client, "keyspace") == {}
    client.cmd("QDECLARE", "a")
    client.cmd("QDECLARE", "b")
    assert figures(client, "keyspace") == {"db0": "keys=2,expires=0,avg_ttl=0"}


def test_queues_have_a_line_each(rig: Rig, client: Talker) -> None:
    client.cmd("QDECLARE", "a:b")
    client.cmd("QDECLARE", "c")
    client.cmd("QPUT", "a:b", "xyz")
    client.cmd("QPUT", "a:b", "xyz", "DELAY", 60)
    rig.advance(2_500)
    found = figures(client, "queues")
    assert list(found) == ["queue_a%3Ab", "queue_c"]
    line = dict(pair.split("=") for pair in found["queue_a%3Ab"].split(","))
    assert (line["ready"], line["delayed"], line["enqueued"], line["bytes"]) == ("1", "1", "2", "6")
    assert line["oldest_ready_age"] == "2.5"
    assert "oldest_ready_age=0," in found["queue_c"]


def test_of_very_many_queues_the_first_are_shown(client: Talker) -> None:
    for n in range(2_003):
        client.cmd("QDECLARE", f"q{n:04}")
    found = figures(client, "queues")
    assert len(found) == 2_001
    assert list(found)[-2:] == ["queue_q1999", "queues_left_out"]
    assert found["queues_left_out"] == "3"


@pytest.mark.parametrize("section", ["persistence", "cpu"])
def test_sections_that_monitoring_reads(section: str, client: Talker) -> None:
    wanted = {"persistence": {"loading": "0"}, "cpu": {}}[section]
    assert wanted.items() <= figures(client, section).items()
    assert all(float(value) >= 0 for value in figures(client, section).values())


def test_verbatim_is_what_resp3_gets(client3: Talker) -> None:
    assert verbatim(client3.cmd("INFO")).startswith("# Server\r\nredis_version:")
