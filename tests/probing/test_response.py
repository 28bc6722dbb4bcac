"""Reading responses, whatever a peer sends."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probing.exit_ip import exit_ip_of
from probing.faults import InvalidResponseError
from probing.response import HEAD_LIMIT, Head, read_body, read_head, status_text


class Pieces:
    """A stream that gives these pieces and ends."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None:
        raise AssertionError(data)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", ["\r\n", "\n"])
async def test_a_head_in_pieces(size: int, end: str) -> None:
    data = f"HTTP/1.1 100 Continue{end}{end}HTTP/1.0 200{end}A: b{end}no colon{end}a : c {end}{end}body".encode()
    stream = Pieces(cut(data, size))
    head, rest = await read_head(stream)
    assert (head.status, head.headers) == (200, {"a": "c"})
    assert await read_body(stream, head, rest, 100) == b"body"


async def test_switching_protocols_is_final() -> None:
    head, _ = await read_head(Pieces([b"HTTP/1.1 101 Switching Protocols\r\n\r\n"]))
    assert head.status == 101


@pytest.mark.parametrize(("padding", "accepted"), [(0, True), (1, False)])
async def test_the_longest_head(padding: int, accepted: bool) -> None:
    start, end = b"HTTP/1.1 200 OK\r\nX: ", b"\r\n\r\n"
    data = start + b"a" * (HEAD_LIMIT - len(start) - len(end) + padding) + end
    if accepted:
        assert (await read_head(Pieces(cut(data, 1000))))[0].status == 200
    else:
        with pytest.raises(InvalidResponseError):
            await read_head(Pieces(cut(data, 1000)))


async def test_an_end_before_the_head_is_complete() -> None:
    for data in (b"", b"HTT", b"HTTP/1.1 200 OK\r\n"):
        with pytest.raises(ConnectionError):
            await read_head(Pieces([data]))


@given(
    st.lists(st.binary(max_size=50), max_size=8).map(lambda pieces: [b"HTTP/1.1 ", *pieces])
    | st.lists(st.binary(max_size=50), max_size=8),
    st.sampled_from([{}, {"transfer-encoding": "chunked"}, {"content-length": "20"}, {"content-length": "²"}]),
)
def test_no_bytes_raise_anything_but_the_two_errors(pieces: list[bytes], headers: dict[str, str]) -> None:
    async def read() -> None:
        with suppress(InvalidResponseError, OSError):
            await read_head(Pieces(pieces))
        try:
            body = await read_body(Pieces(pieces), Head(status=200, headers=headers), b"", 64)
        except (InvalidResponseError, OSError):
            return
        assert body is None or len(body) <= 64
        exit_ip_of(body or b"")

    asyncio.run(read())


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=5), st.integers(1, 9))
async def test_a_chunked_body_is_put_together(chunks: list[bytes], size: int) -> None:
    data = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    head = Head(status=200, headers={"transfer-encoding": "chunked"})
    assert await read_body(Pieces(cut(data, size)), head, b"", 1000) == b"".join(chunks)


@pytest.mark.parametrize(
    ("body", "ip"),
    [
        (b"203.0.113.7", "203.0.113.7"),
        (b" 2001:DB8::7\n", "2001:db8::7"),
        (b'{"ip":"2001:db8::7"}', "2001:db8::7"),
        (b"203.0.113.7, 203.0.113.8", ""),
        (b" " * 60 + b"203.0.113.7", ""),
        (b"fe80::1%eth0", ""),
        (b'{"ip":7}', ""),
        (b'{"origin":"203.0.113.7"}', ""),
        (b"[" * 1000, ""),
        (b"<html>203.0.113.7</html>", ""),
        (b"7", ""),
        (b"\xff\xfe", ""),
    ],
)
def test_the_exit_address_in_a_body(body: bytes, ip: str) -> None:
    assert exit_ip_of(body) == ip


def test_statuses_are_named_by_the_registry() -> None:
    assert status_text(503) == "503 Service Unavailable"
    assert status_text(799) == "799"
