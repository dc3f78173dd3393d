"""Several clients subscribe and publish, on a real redis-server and on this one: each hears the same bytes.

Topics are plain names here, and patterns such as both understand alike: what a pattern matches is different on purpose.
"""

from collections.abc import Callable

import pytest

from tests.support import Conn, ServerProcess, encode

MARK = b"-that-is-all-"

#: Who says what: several commands are one write. A name that ends in 3 speaks RESP3. `T` is a topic of the test's own.
Script = list[tuple[str, str]]

SCRIPTS: dict[str, Script] = {
    "one topic": [
        ("a", "SUBSCRIBE T"),
        ("p", "PUBLISH T hello"),
        ("p", "PUBLISH T.other nobody"),
        ("a", "UNSUBSCRIBE T"),
        ("p", "PUBLISH T nobody"),
    ],
    "several at once": [
        ("a", "SUBSCRIBE T.1 T.2 T.1; PSUBSCRIBE T.*; UNSUBSCRIBE T.2 T.none; PING; PING x"),
        ("p", "PUBLISH T.1 one; PUBLISH T.2 two; PUBLISH T.3 three; PUBLISH none four"),
        ("a", "UNSUBSCRIBE; PUNSUBSCRIBE; PING; ECHO free"),
        ("p", "PUBLISH T.1 nobody"),
    ],
    "who never subscribed": [
        ("a", "UNSUBSCRIBE; PUNSUBSCRIBE; SUNSUBSCRIBE; UNSUBSCRIBE T T.x; PUNSUBSCRIBE T; PING"),
    ],
    "a topic before patterns": [
        ("a", "PSUBSCRIBE T.*"),
        ("a", "SUBSCRIBE T.x"),
        ("b", "SUBSCRIBE T.x; PSUBSCRIBE T.*"),
        ("p", "PUBLISH T.x 1; PUBLISH T.x 2"),
    ],
    "counts of receivers": [
        ("a", "SUBSCRIBE T.1; PSUBSCRIBE T.*"),
        ("b", "SUBSCRIBE T.1"),
        ("c3", "SUBSCRIBE T.1 T.2"),
        ("p", "PUBLISH T.1 x; PUBLISH T.2 x; PUBLISH T.3 x; PUBLISH T x"),
        ("p", "PUBSUB NUMSUB T.1 T.2 T.3; PUBSUB NUMSUB; PUBSUB CHANNELS T.2; PUBSUB CHANNELS T.none"),
        ("b", "RESET"),
        ("c3", "UNSUBSCRIBE T.2"),
        ("p", "PUBLISH T.1 x; PUBLISH T.2 x; PUBSUB NUMSUB T.1 T.2; PUBSUB CHANNELS T.2"),
    ],
    "refused commands": [
        ("a", "SUBSCRIBE T; PUBLISH T x; ECHO x; HELLO 3; SUBSCRIBE; PING a b; NOPE; PUBSUB NUMPAT"),
        ("a", "UNSUBSCRIBE T; ECHO x"),
        ("b", "PSUBSCRIBE T; PUBLISH T x; SPUBLISH T x; PUNSUBSCRIBE; ECHO x"),
        ("c", "SSUBSCRIBE T; SPUBLISH T x; ECHO x; SUNSUBSCRIBE T; ECHO x"),
    ],
    "publishing to oneself": [
        ("a3", "SUBSCRIBE T; PUBLISH T 1; ECHO x; PUBLISH T 2; PUBLISH T.none 3; PING"),
        ("a3", "PSUBSCRIBE T; PUBLISH T 4; UNSUBSCRIBE T; PUBLISH T 5; PUNSUBSCRIBE T; PUBLISH T 6"),
    ],
    "reset": [
        ("a", "SUBSCRIBE T; PSUBSCRIBE T.*; SSUBSCRIBE T; RESET; PING; UNSUBSCRIBE; ECHO x"),
        ("a3", "SUBSCRIBE T; PSUBSCRIBE T.*; RESET; PING; UNSUBSCRIBE"),
        ("p", "PUBLISH T x; PUBLISH T.x x; SPUBLISH T x"),
    ],
    "another protocol while subscribed": [
        ("a3", "SUBSCRIBE T; HELLO 3"),
        ("p", "PUBLISH T 1"),
        ("a3", "HELLO 2"),
        ("p", "PUBLISH T 2"),
        ("a3", "ECHO x; PING; UNSUBSCRIBE; PING"),
    ],
    "silence": [
        ("a3", "SUBSCRIBE T; CLIENT REPLY OFF; PING; SUBSCRIBE T.2; PUBLISH T 1; UNSUBSCRIBE T.2; CLIENT REPLY ON"),
        ("a3", "CLIENT REPLY SKIP; PUBLISH T 2; PUBLISH T 3"),
        ("a3", "CLIENT REPLY SKIP; SUBSCRIBE T.3; PING"),
        ("b", "CLIENT REPLY OFF; SUBSCRIBE T; UNSUBSCRIBE; CLIENT REPLY ON"),
    ],
    "transactions": [
        ("a", "SUBSCRIBE T"),
        ("b3", "PSUBSCRIBE T"),
        ("p", "MULTI; PUBLISH T 1; PUBLISH T.none x; PUBLISH T 2; PUBSUB NUMSUB T; EXEC"),
        ("p3", "MULTI; PUBLISH T 3; DISCARD; MULTI; PUBLISH T 4; PUBLISH T; EXEC; MULTI; PUBLISH T 5; EXEC"),
    ],
    "bytes": [
        ("a", "SUBSCRIBE T.\xff\xfe T.\xe4; PSUBSCRIBE T.*"),
        ("p", "PUBLISH T.\xff\xfe \x00\xff\r\n; PUBLISH T.\xe4 \xe4; PUBLISH T.\xc3\xa4 nobody"),
        ("p", "PUBSUB NUMSUB T.\xff\xfe T.\xe4"),
    ],
    "an empty body and a large one": [
        ("a", "SUBSCRIBE T"),
        ("b3", "SUBSCRIBE T"),
        ("p", "PUBLISH T "),
        ("p", "PUBLISH T " + "x" * 300_000),
    ],
    "shards": [
        ("a", "SSUBSCRIBE T T.2; SUBSCRIBE T"),
        ("b3", "SSUBSCRIBE T"),
        ("p", "SPUBLISH T 1; PUBLISH T 2; SPUBLISH T.2 3; SPUBLISH T.3 4"),
        ("p", "PUBSUB SHARDNUMSUB T T.2 T.3; PUBSUB SHARDCHANNELS T; PUBSUB NUMSUB T T.2; PUBSUB CHANNELS T.2"),
        ("a", "SUNSUBSCRIBE T; UNSUBSCRIBE; SUNSUBSCRIBE; PING"),
        ("p", "SPUBLISH T 5"),
    ],
    "wrong arguments": [
        ("p", "SUBSCRIBE; PSUBSCRIBE; SSUBSCRIBE; PUBLISH; PUBLISH T; PUBLISH T a b; SPUBLISH T; PUBSUB; PUBSUB NOPE"),
        ("p", "PUBSUB CHANNELS a b; PUBSUB NUMPAT a; PUBSUB SHARDCHANNELS a b; PUBSUB HELP a"),
    ],
}


def commands(text: str, topic: bytes) -> list[list[bytes]]:
    """The commands of one write. `T` as a word of a topic stands for the topic of the test."""
    found = []
    for command in text.split("; "):
        words = command.encode("latin-1").split(b" ")
        found.append([topic + word[1:] if word[:1] == b"T" and word[1:2] in b".*" else word for word in words])
    return found


def play(open_one: Callable[[], Conn], script: Script, topic: bytes) -> dict[str, list[bytes]]:
    """What each client hears, up to the answers to PINGs that mark that all has come."""
    conns: dict[str, Conn] = {}
    heard: dict[str, list[bytes]] = {}

    def listen(who: str) -> None:
        while True:
            heard[who].append(conns[who].read_raw())
            if MARK in heard[who][-1]:
                return

    try:
        for who, text in script:
            if who not in conns:
                conns[who] = open_one()
                heard[who] = []
                if who.endswith("3"):
                    conns[who].hello(3)
            asked = [encode(*command) for command in commands(text, topic)]
            conns[who].send(b"".join(asked) + encode("PING", MARK))
            listen(who)
        for who, conn in conns.items():
            conn.send(encode("PING", MARK))
            listen(who)
    finally:
        for conn in conns.values():
            conn.close()
    return heard


def assert_alike(theirs: bytes, ours: bytes) -> None:
    if theirs.startswith((b"%7\r\n$6\r\nserver", b"*14\r\n$6\r\nserver")):
        assert ours[:14] == theirs[:14]
    elif theirs.startswith(b"-"):
        beginning = theirs.partition(b": only ")[0].removesuffix(b"\r\n").removesuffix(b".")
        assert ours.startswith(beginning), (theirs, ours)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("resp3", [False, True], ids=["as written", "all resp3"])
def test_each_hears_the_same(name: str, resp3: bool, redis_socket: str, server: ServerProcess, queue: str) -> None:
    script = SCRIPTS[name]
    if resp3:
        script = [(who.removesuffix("3") + "3", text) for who, text in script]
    redis = play(lambda: Conn(path=redis_socket), script, queue.encode())
    ours = play(lambda: Conn(server.port), script, queue.encode())
    assert list(ours) == list(redis)
    for who, theirs in redis.items():
        for their, our in zip(theirs, ours[who], strict=False):
            assert_alike(their, our)
        assert len(ours[who]) == len(theirs), who


@pytest.mark.parametrize("version", [2, 3])
def test_quit_while_subscribed(version: int, redis_socket: str, server: ServerProcess, queue: str) -> None:
    ends = []
    for conn in (Conn(path=redis_socket), Conn(server.port)):
        with conn:
            conn.hello(version)
            conn.send(encode("SUBSCRIBE", queue, "b") + encode("QUIT") + encode("PING"))
            ends.append(conn.read_to_end())
    assert ends[0] == ends[1]
