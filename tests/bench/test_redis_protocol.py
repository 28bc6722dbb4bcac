import pytest

from bench.redis_protocol import RedisError, encode, parse


def test_a_command_is_an_array_of_its_words() -> None:
    assert encode((b"GET", b"key")) == b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b":7\r\n", 7),
        (b"+OK\r\n", b"OK"),
        (b"$3\r\na\r\n\r\n", b"a\r\n"),
        (b"$-1\r\n", None),
        (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", [b"a", [1]]),
    ],
)
def test_replies_are_read_whole_or_not_at_all(data: bytes, reply: object) -> None:
    assert parse(data + b":9\r\n", 0) == (reply, len(data))
    for length in range(len(data)):
        assert parse(data[:length], 0) is None


def test_an_error_is_a_reply() -> None:
    found = parse(b"-NOSCRIPT none\r\n", 0)
    assert found is not None
    assert isinstance(found[0], RedisError)
    assert str(found[0]) == "NOSCRIPT none"
