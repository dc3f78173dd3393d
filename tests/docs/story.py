"""Plays a page: does what it tells its readers to do, in order, and compares what it shows with what comes.

The blocks that are played, by the word behind the fence:

- `console`: `$ command` and what it prints. `respmq serve ...` starts the server that all that follows is done with;
  `redis-cli` without a command opens a terminal, `redis-cli -p 6390 SHUTDOWN` ends the server.
- `redis-cli`: a session in that terminal, `127.0.0.1:6390> command` and the reply. `redis-cli NAME` is another one. A
  command without a reply waits; the reply stands at the beginning of a later block of that terminal. So do events
  for one that has subscribed.
- `python`, `js`: a program; an `output` block behind it is what it prints. `python forever` is one that never ends: it
  is ended once it has printed that.
- `toml`: a configuration, loaded; `toml NAME` also writes it to the file that is named in later commands.
- `wire`: a session in the notation of the protocol page, see `tests.docs.wire`; `wire NAME` is another connection.
- `resp`: exact bytes, `C:` what the client sends, `S:` what comes back.
- `ini`: a unit for systemd; its `respmq` has to understand its flags.
- `text` and `sh`: nothing to play.

Files that pages have below /run are made in the folder of the story.

`loose` behind the word allows any number where the page shows one.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from respmq.cli import main
from respmq.cli.serve import serve
from respmq.config import load_config
from tests.docs.markdown import Block, blocks, name_of
from tests.docs.matching import SHOWN_PORT, Matcher, MismatchError
from tests.docs.terminals import OpenTerminal, Terminal, listens
from tests.docs.wire import PROMPT as WIRE_PROMPT
from tests.docs.wire import WireTerminal, exchange, parse
from tests.support import Conn, ServerProcess, info, run_to_end, start_server, wait_until
from tests.support.server import ROOT

PATIENCE = 60.0
PROMPT: Final = f"127.0.0.1:{SHOWN_PORT}> "
NODE_MODULES: Final = ROOT / "tests" / "clients" / "node" / "node_modules"

PLAYED = frozenset({"console", "redis-cli", "python", "js", "toml", "wire", "resp", "ini", "output"})
NOT_PLAYED = frozenset({"text", "sh"})

#: What the names of `wire` terminals begin with.
_WIRE: Final = "wire "


class StoryError(AssertionError):
    """A page is wrong; says where."""


@dataclass
class Step:
    """Something typed and what the page shows as its outcome. `command` is None where only the outcome stands here."""

    line: int
    command: str | None
    shown: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What the page shows."""
        return "".join(line + "\n" for line in self.shown)


def steps_of(block: Block, prompts: tuple[str, ...]) -> list[Step]:
    """The steps of a session, each beginning with one of the prompts, which stays before the command."""
    steps: list[Step] = []
    for number, line in enumerate(block.lines, block.line):
        if line.startswith(prompts):
            steps.append(Step(number, line))
        elif steps:
            steps[-1].shown.append(line)
        else:
            steps.append(Step(number, None, [line]))
    return steps


class Story:
    """One page being played.

    Args:
        page: the page.
        folder: an empty folder in which its programs run.
        open_terminal: how its redis-cli are started.
        wire: the version of RESP that its `wire` blocks are played in.
        text: what stands on the page, if it is no file.
    """

    def __init__(
        self, page: Path, folder: Path, open_terminal: OpenTerminal, *, wire: int = 2, text: str | None = None
    ) -> None:
        self.page = page
        self._wire = wire
        self._folder = folder
        (folder / "run").mkdir()
        self._open_terminal = open_terminal
        self._blocks = blocks(page.read_text(encoding="utf-8") if text is None else text)
        self._terminals: dict[str, Terminal] = {}
        #: Whether a command has no reply yet.
        self._waiting: dict[str, bool] = {}
        #: Terminals in which redis-cli shows events.
        self._listening: set[str] = set()
        self._observer: Conn | None = None
        self._shut_down = False
        self._resp = 2
        self._server: ServerProcess | None = None
        #: Where it keeps its messages, if it does.
        self._data: str | None = None
        self._files: dict[str, str] = {}
        self.matcher = Matcher(exact=False)
        self.mismatches: list[str] = []

    # -- the whole page --------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Do everything, in order.

        Raises:
            StoryError: something else came than the page shows; all such places are told.
        """
        try:
            for number, block in enumerate(self._blocks):
                following = self._blocks[number + 1] if number + 1 < len(self._blocks) else None
                self._play_block(block, following)
        finally:
            self._end()
        if self.mismatches:
            raise StoryError("\n\n".join(self.mismatches))

    def _play_block(self, block: Block, following: Block | None) -> None:
        match block.language:
            case "console":
                self._console(block)
            case "redis-cli" | "wire":
                prompt = PROMPT if block.language == "redis-cli" else WIRE_PROMPT
                self._session(_terminal_of(block), steps_of(block, (prompt,)), loose="loose" in block.words)
            case "python" | "js":
                self._program(block, following if following is not None and following.language == "output" else None)
            case "toml":
                self._toml(block)
            case "ini":
                _check_unit(block)
            case "resp":
                self._exchanges(block)
            case _:
                assert block.language in PLAYED | NOT_PLAYED, f"{self._where(block.line)}: what is `{block.language}`?"

    def _end(self) -> None:
        for terminal in self._terminals.values():
            terminal.close()
        self._terminals.clear()
        self._stop()

    # -- the server ------------------------------------------------------------------------------------------------

    @property
    def server(self) -> ServerProcess:
        """The server that everything is done with."""
        assert self._server is not None, f"{name_of(self.page)} starts no server"
        return self._server

    def _serve(self, words: list[str], step: Step, *, loose: bool) -> None:
        if step.shown[0].startswith(("Error", "Usage")):
            flags = [self._here(self._files.get(word, word)) for word in words[2:]]
            status, text = run_to_end("--port", "0", *flags)
            assert status != 0, text
            self._compare(step, text, loose=loose)
            return
        self._stop()
        for name, terminal in self._terminals.items():
            terminal.close()
            self._waiting[name] = False
        self._terminals.clear()
        flags = [self._here(self._files.get(word, word)) for word in words]
        environment = {}
        while "=" in flags[0]:
            name, _, value = flags.pop(0).partition("=")
            environment[name] = value
        self._server = start_server(*flags[2:], env=environment, listeners=1 + ("--unixsocket" in flags))
        # Connected before all others, so that those always have the same numbers.
        self._observer = Conn(self._server.port)
        data = flags[flags.index("--data") + 1] if "--data" in flags else None
        if data is None or data != self._data:
            # Else it knows the same ids and leases as the one before.
            self.matcher = Matcher(exact="--virtual-clock" in flags)
        self._data = data
        last = self._server.wait_for_log("^Try: ")
        lines = self._server.lines
        self._compare(step, "".join(line + "\n" for line in lines[: lines.index(last) + 1]), loose=True)

    def _stop(self) -> None:
        server, self._server = self._server, None
        if self._observer is not None:
            self._observer.close()
        if server is not None:
            status = server.wait() if self._shut_down else server.stop()
            self._shut_down = False
            assert status == 0, server.log
            assert "Traceback" not in server.log, server.log

    # -- blocks ----------------------------------------------------------------------------------------------------

    def _console(self, block: Block) -> None:
        loose = "loose" in block.words
        for step in steps_of(block, ("$ ", PROMPT)):
            assert step.command is not None, f"{self._where(step.line)}: an outcome of what?"
            if step.command.startswith(PROMPT):
                self._session("", [step], loose=loose)
                continue
            words = step.command[2:].split()
            if "respmq serve" in step.command and "|" not in step.command:
                self._serve(words, step, loose=loose)
            elif words[0] == "redis-cli" and (called := _redis_cli(step.command[2:])) is not None:
                self._redis_cli(step, *called, loose=loose)
            elif words[0] != "redis-cli" or shutil.which("redis-cli") is not None:
                self._compare(step, self._shell(self._typed(step.line, step.command[2:])), loose=loose)

    def _redis_cli(self, step: Step, resp: int, command: str, *, loose: bool) -> None:
        """`redis-cli` with a command, or without one: a terminal in which the next ones are typed."""
        if command == "SHUTDOWN":
            with Conn(self.server.port) as conn:
                conn.start(command)
                conn.read_to_end()
            self._shut_down = True
            self._stop()
            return
        if not command:
            self._resp = resp
            self._close_terminal("")
            return
        terminal = self._open_terminal(self.server.port, resp)
        terminal.send(self._here(self._typed(step.line, command)))
        real = terminal.read()
        terminal.close()
        self._compare(step, real, loose=loose)

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", self._here(command)],
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout.replace("\r\n", "\n")

    def _session(self, name: str, steps: list[Step], *, loose: bool) -> None:
        wire = name.startswith(_WIRE)
        for step in steps:
            if step.command is not None:
                assert not self._waiting.get(name), f"{self._where(step.line)}: something waits in this terminal"
                if not self._type(name, step, last=step is steps[-1]):
                    continue
            else:
                waits = wire or name in self._listening or self._waiting.get(name)
                assert waits, f"{self._where(step.line)}: nothing waits in this terminal"
            self._waiting[name] = False
            for part in _replies_of(step) if wire else _events_of(step) if name in self._listening else [step]:
                self._compare(part, self._read(name, part), loose=loose, wire=wire)

    def _read(self, name: str, step: Step) -> str:
        try:
            text = self._terminal(name).read()
        except (TimeoutError, AssertionError) as error:
            raise StoryError(f"{self._where(step.line)}: {error}") from error
        self._shut_down = text == "(closed)\n"
        return text

    def _type(self, name: str, step: Step, *, last: bool) -> bool:
        """Type a command; whether its reply is to be read now."""
        terminal = self._terminal(name)
        blocked = 0 if step.shown else self._blocked()
        command = str(step.command).removeprefix(PROMPT).removeprefix(WIRE_PROMPT)
        terminal.send(self._here(self._typed(step.line, command)))
        if not name.startswith(_WIRE) and listens(command):
            self._listening.add(name)
        if step.shown == ["(nothing)"]:
            return False
        if not step.shown:
            assert last, f"{self._where(step.line)}: no reply"
            wait_until(lambda: self._blocked() > blocked, f"the wait of {command}")
            self._waiting[name] = True
        return bool(step.shown)

    def _exchanges(self, block: Block) -> None:
        for step in steps_of(block, ("C: ",)):
            assert step.command is not None
            reply = exchange(self.server.port, self._typed(step.line, step.command[3:]))
            self._compare(step, f"S: {reply}\n", loose="loose" in block.words)

    def _blocked(self) -> int:
        assert self._observer is not None
        return int(info(self._observer, "clients")["blocked_clients"])

    def _terminal(self, name: str) -> Terminal:
        if name not in self._terminals:
            port = self.server.port
            opened = WireTerminal(port, self._wire) if name.startswith(_WIRE) else self._open_terminal(port, self._resp)
            self._terminals[name] = opened
        return self._terminals[name]

    def _close_terminal(self, name: str) -> None:
        terminal = self._terminals.pop(name, None)
        if terminal is not None:
            terminal.close()

    def _program(self, block: Block, output: Block | None) -> None:
        ending, runner = {"python": ("py", sys.executable), "js": ("mjs", shutil.which("node"))}[block.language]
        if runner is None or (block.language == "js" and not NODE_MODULES.is_dir()):
            # As with all stock clients: tested where they are.
            return
        if block.language == "js" and not (self._folder / "node_modules").exists():
            (self._folder / "node_modules").symlink_to(NODE_MODULES)
        program = self._folder / f"line{block.line}.{ending}"
        program.write_text(self._here(self._typed(block.line, block.text)), encoding="utf-8")
        shown = Step(block.line, None, []) if output is None else Step(output.line, None, list(output.lines))
        wanted = len(shown.shown) if "forever" in block.words else None
        loose = output is not None and "loose" in output.words
        self._compare(shown, self._run([runner, str(program)], wanted, block.line), loose=loose)

    def _run(self, command: list[str], lines_wanted: int | None, line: int) -> str:
        """What a program prints: all, or so many lines, after which it is ended."""
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        printed = ""
        try:
            while lines_wanted is None or printed.count("\n") < lines_wanted:
                text = process.stdout.readline()
                if not text:
                    break
                printed += text
            if lines_wanted is not None:
                assert process.poll() is None, f"{self._where(line)}: it should go on for ever\n{printed}"
                process.terminate()
            status = process.wait(PATIENCE)
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
            process.stdout.close()
        assert lines_wanted is not None or status == 0, f"{self._where(line)}: exit status {status}\n{printed}"
        return printed

    def _toml(self, block: Block) -> None:
        name = block.words[0] if block.words else f"line{block.line}.toml"
        path = self._folder / name
        path.write_text(block.text, encoding="utf-8")
        self._files[name] = str(path)
        load_config(str(path), {})

    # -- comparing -------------------------------------------------------------------------------------------------

    def _typed(self, line: int, text: str) -> str:
        """What has to be typed where the page shows this command or program in a line."""
        del line
        return self.matcher.real(text)

    def _compare(self, step: Step, real: str, *, loose: bool, wire: bool = False) -> None:
        real = self._as_shown(real)
        shown = step.text.rstrip("\n") + "\n" if step.shown else ""
        if wire:
            shown = parse(shown).render(self._wire) + "\n"
        try:
            self.matcher.check(shown, real, loose=loose)
        except MismatchError as error:
            command = "" if step.command is None else f" {step.command}"
            self.mismatches.append(f"{self._where(step.line)}{command}: {error}")

    def _as_shown(self, real: str) -> str:
        """What came, with the port and the folder that the pages show."""
        if self._server is not None:
            real = re.sub(rf"\b{self._server.port}\b", str(SHOWN_PORT), real)
        return real.replace(str(self._folder), "").rstrip("\n") + "\n" if real else ""

    def _where(self, line: int) -> str:
        return f"{name_of(self.page)}, line {line}"

    def _here(self, text: str) -> str:
        """A command or program for the server that runs."""
        text = text.replace("/run/", f"{self._folder}/run/")
        return re.sub(rf"\b{SHOWN_PORT}\b", str(self.server.port), text) if self._server is not None else text

    def _environment(self) -> Mapping[str, str]:
        """The environment of what the page runs; `respmq` is this checkout's."""
        tools = self._folder / "bin"
        if not tools.exists():
            tools.mkdir()
            for name, command in {"respmq": "-m respmq", "python": ""}.items():
                (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
                (tools / name).chmod(0o755)
            if shutil.which("redis-cli") is not None:
                (tools / "redis-cli").write_text(f'#!/bin/sh\nexec "{shutil.which("redis-cli")}" --no-raw "$@"\n')
                (tools / "redis-cli").chmod(0o755)
        return {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "LC_ALL": "C.UTF-8",
            "REDISCLI_RCFILE": "/dev/null",
        }


def _replies_of(step: Step) -> list[Step]:
    """The replies that the page shows for one command of a `wire` block."""
    replies: list[Step] = []
    for number, line in enumerate(step.shown, step.line + (step.command is not None)):
        if replies and line.startswith(" "):
            replies[-1].shown.append(line)
        else:
            replies.append(Step(number, None, [line]))
    if len(replies) == 1:
        return [step]
    return replies


def _events_of(step: Step) -> list[Step]:
    """The events that the page shows in a terminal that has subscribed."""
    events: list[Step] = []
    for number, line in enumerate(step.shown, step.line + (step.command is not None)):
        if not events or line.startswith("1) "):
            events.append(Step(number, None, []))
        events[-1].shown.append(line)
    return [step] if len(events) == 1 else events


def _terminal_of(block: Block) -> str:
    """The terminal of a session; those of `wire` blocks are others than those of redis-cli."""
    name = next((word for word in block.words if word != "loose"), "")
    return _WIRE + name if block.language == "wire" else name


def _check_unit(block: Block) -> None:
    unit = configparser.ConfigParser()
    unit.read_string(block.text)
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert Path(program).name == "respmq"
    main.make_context("respmq", arguments).close()
    assert arguments[0] == "serve"
    serve.make_context("serve", arguments[1:]).close()


def _redis_cli(line: str) -> tuple[int, str] | None:
    """Which protocol a `redis-cli` speaks and its command; None if it has other flags than those that say so."""
    match = re.fullmatch(rf"redis-cli(?: -([23]))? -p {SHOWN_PORT}(?: ([A-Z].*))?", line)
    return None if match is None else (int(match[1] or 2), match[2] or "")
