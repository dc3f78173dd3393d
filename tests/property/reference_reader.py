"""The request reader as simply as it can be written: all bytes at once, by Redis' rules, with no thought of speed."""

from __future__ import annotations

import re

from respmq.resp.limits import Limits

INLINE = 64 * 1024
HEADER = 32


class Unreadable(Exception):
    """The stream can't be followed from here on; the text begins what the error says."""


class Incomplete(Exception):
    """More bytes are needed."""


def read_all(data: bytes, limits: list[Limits]) -> tuple[list[list[bytes]], str | None]:
    """The requests in `data`, and with what the error that follows them begins, None if there is none.

    `limits[i]` hold for request number i, the last of them for all that follow.
    """
    requests: list[list[bytes]] = []
    at = 0
    while True:
        try:
            request, at = read_one(data, at, limits[min(len(requests), len(limits) - 1)])
        except Incomplete:
            return requests, None
        except Unreadable as error:
            return requests, str(error)
        if request:
            requests.append(request)


def read_one(data: bytes, at: int, limits: Limits) -> tuple[list[bytes], int]:
    """The request that begins at `at` (empty if it has no arguments), and where the next one begins."""
    if at == len(data):
        raise Incomplete
    if data[at] != ord("*"):
        end = data.find(b"\n", at)
        if end < 0 or end > at + INLINE:
            raise Unreadable("too big inline request") if len(data) > at + INLINE else Incomplete
        line = data[at:end]
        return split_words(line[:-1] if line.endswith(b"\r") else line), end + 1
    count, at = read_header(data, at, "mbulk", "multibulk")
    if count > limits.arguments:
        raise Unreadable("unauthenticated multibulk length" if limits.before_login else "invalid multibulk length")
    request: list[bytes] = []
    while len(request) < count:
        argument, at = read_bulk(data, at, limits, sum(map(len, request)))
        request.append(argument)
    return request, at


def read_bulk(data: bytes, at: int, limits: Limits, before: int) -> tuple[bytes, int]:
    if at == len(data):
        raise Incomplete
    if data[at] != ord("$"):
        raise Unreadable("expected '$'")
    length, at = read_header(data, at, "bulk", "bulk")
    if length > limits.bulk and limits.before_login:
        raise Unreadable("unauthenticated bulk length")
    if not 0 <= length <= limits.bulk:
        raise Unreadable("invalid bulk length")
    if before + length > limits.request:
        raise Unreadable("the request is above")
    end = data[at + length : at + length + 2]
    if not b"\r\n".startswith(end):
        raise Unreadable("expected CR LF")
    if len(end) < 2:
        raise Incomplete
    return data[at : at + length], at + length + 2


def read_header(data: bytes, at: int, short: str, long: str) -> tuple[int, int]:
    end = data.find(b"\n", at)
    if end < 0 or end >= at + HEADER:
        raise Unreadable(f"too big {short} count string") if len(data) >= at + HEADER else Incomplete
    number = re.fullmatch(rb"(0|-?[1-9][0-9]{0,17})\r", data[at + 1 : end])
    if number is None:
        raise Unreadable(f"invalid {long} length")
    return int(number[1]), end + 1


def split_words(line: bytes) -> list[bytes]:
    """The words of an inline command, byte for byte as Redis' `sdssplitargs` finds them."""
    words: list[bytes] = []
    line = line.split(b"\0")[0]
    at = 0
    while True:
        while line[at : at + 1].isspace():
            at += 1
        if at == len(line):
            return words
        word, at = one_word(line, at)
        words.append(word)


def one_word(line: bytes, at: int) -> tuple[bytes, int]:
    word = b""
    quote = b""
    while True:
        char = line[at : at + 1]
        if quote and not char:
            raise Unreadable("unbalanced quotes")
        if quote == b'"' and char == b"\\" and re.match(rb"x[0-9a-fA-F]{2}", line[at + 1 :]):
            word += bytes([int(line[at + 2 : at + 4], 16)])
            at += 4
        elif quote == b'"' and char == b"\\" and at + 1 < len(line):
            escaped = line[at + 1 : at + 2]
            word += {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}.get(escaped, escaped)
            at += 2
        elif quote == b"'" and line[at : at + 2] == b"\\'":
            word += b"'"
            at += 2
        elif quote and char == quote:
            if line[at + 1 : at + 2] and not line[at + 1 : at + 2].isspace():
                raise Unreadable("unbalanced quotes")
            return word, at + 1
        elif not quote and (char in {b"'", b'"'}):
            quote = char
            at += 1
        elif not quote and (char in {b"", b" ", b"\n", b"\r", b"\t"}):
            return word, at
        else:
            word += char
            at += 1
