"""Commands and replies as redis-cli shows them (each of these was compared with `redis-cli --no-raw`)."""

from __future__ import annotations

import pytest

from respmq.cli.transcript import OK, Reply, show_command, show_reply


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (OK, "OK"),
        (b"OK", '"OK"'),
        (b"", '""'),
        (1, "(integer) 1"),
        (-3, "(integer) -3"),
        (None, "(nil)"),
        ([], "(empty array)"),
        (b'a "b" \\ c', '"a \\"b\\" \\\\ c"'),
        (b"\x00\x07\x08\t\n\r\x1b\xff~", '"\\x00\\a\\b\\t\\n\\r\\x1b\\xff~"'),
        ([b"a", 1, None, []], '1) "a"\n2) (integer) 1\n3) (nil)\n4) (empty array)'),
        ([[b"a", [b"b", b"c"]], [b"d"]], '1) 1) "a"\n   2) 1) "b"\n      2) "c"\n2) 1) "d"'),
    ],
)
def test_replies(reply: Reply, shown: str) -> None:
    assert show_reply(reply) == shown


def test_numbers_of_long_arrays_stand_in_a_column() -> None:
    lines = show_reply([list[Reply](range(10)), *range(9)]).splitlines()
    assert lines[0] == " 1)  1) (integer) 0"
    assert lines[1] == "     2) (integer) 1"
    assert lines[9] == "    10) (integer) 9"
    assert lines[10] == " 2) (integer) 0"
    assert lines[-1] == "10) (integer) 8"


def test_commands() -> None:
    words = ("QPUT", "mail", "welcome ann", "ID", "", "HEADER", "a\\b", 'say "hi"', "it's", "é")
    assert show_command(words) == ('QPUT mail "welcome ann" ID "" HEADER "a\\\\b" "say \\"hi\\"" "it\'s" "\\xc3\\xa9"')
