"""The sessions on the pages with the real redis-cli: what it shows, and that our own imitation shows the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import blocks, name_of, pages
from tests.docs.matching import Matcher
from tests.docs.story import Story
from tests.docs.terminals import OpenTerminal, RedisCli, ShownTerminal, quoted, words
from tests.support import ServerProcess

#: The pages with sessions.
STORIES = [
    pytest.param(page, id=name_of(page))
    for page in pages()
    if any(block.language == "redis-cli" for block in blocks(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("page", STORIES)
def test_the_real_one_shows_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    Story(page, tmp_path, RedisCli).play()


def typed(server: ServerProcess, terminal: OpenTerminal, resp: int, lines: list[str]) -> list[str]:
    one = terminal(server.port, resp)
    try:
        shown: list[str] = []
        for line in lines:
            one.send(line)
            shown.append(one.read())
    finally:
        one.close()
    return shown


@pytest.mark.parametrize("resp", [2, 3])
def test_the_imitation_shows_the_same(server: ServerProcess, queue: str, resp: int) -> None:
    lines = [
        f"QDECLARE {queue} RETRYJITTER 0.5 DEDUPE 0",
        f"QCONFIG {queue}",
        f'QPUT {queue} "a \\"b\\" \\\\ \\x00\\xff\\n" ID one HEADER k "v w" HEADER l m ATTACH 1 ATTACH 2',
        f"QMPUT {queue}",
        f"QPEEK {queue}",
        f"QLEASE {queue}.nowhere",
        f"QSHOW {queue} two",
        f"QLEASE {queue} COUNT 5 LEASE 1h REQID 'it\\'s' FULL",
        f"QDEL {queue} one",
        f"QDEAD LIST {queue}",
        "COMMAND DOCS QDEAD",
        "COMMAND INFO qput nothing",
        "QDEAD HELP",
        "PING",
        'PING "two words"',
        "CLIENT GETNAME",
        "LOLWUT",
        "nonsense 1",
    ]
    ours, real = (typed(server, terminal, resp, lines) for terminal in (ShownTerminal, RedisCli))
    # The second one has other leases and times.
    matcher = Matcher(exact=False)
    for one, other in zip(ours, real, strict=True):
        matcher.check(one, other)


def test_words_are_split_as_redis_cli_splits_them(server: ServerProcess) -> None:
    for line in ["ECHO plain", 'ECHO "a b"', "ECHO 'a \\' b'", 'ECHO "\\x41\\n\\""', "ECHO é", 'ECHO ""']:
        (_, text) = words(line)
        (shown,) = typed(server, RedisCli, 2, [line])
        assert shown == quoted(text) + "\n"
