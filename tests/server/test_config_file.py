"""CONFIG REWRITE: what was changed while the server ran holds after a restart."""

from __future__ import annotations

from pathlib import Path

from tests.support import Connect, start_server

BEFORE = """\
# Ours.
maxclients = 50   # enough for us
requirepass = "one"
"""
AFTER = """\
# Ours.
maxclients = 60   # enough for us
requirepass = "two"
port = 0
slowlog-max-len = 7
"""


def test_settings_survive_a_restart(connect: Connect, tmp_path: Path) -> None:
    """The file keeps its comments, its order and its permissions; flags are written too, as in Redis."""
    path = tmp_path / "respmq.toml"
    path.write_text(BEFORE)
    path.chmod(0o600)
    with start_server("--config", str(path)) as server:
        a = connect(server)
        a.ok("AUTH", "one")
        a.ok("CONFIG", "SET", "maxclients", 60, "requirepass", "two", "slowlog-max-len", 7)
        assert path.read_text() == BEFORE
        a.ok("CONFIG", "REWRITE")
        assert f"config_file:{path}\r\n" in a.text("INFO", "server")
        assert server.stop() == 0
    assert path.read_text() == AFTER
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    with start_server("--config", str(path)) as server:
        b = connect(server)
        b.ok("AUTH", "two")
        assert b.mapping("CONFIG", "GET", "maxclients", "slowlog-max-len") == {
            b"maxclients": b"60",
            b"slowlog-max-len": b"7",
        }
