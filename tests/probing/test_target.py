"""Probe URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import ConfigurationError
from probing.target import parse_target


@pytest.mark.parametrize(
    ("url", "authority", "host_header", "path"),
    [
        ("https://www.gstatic.com/generate_204", "www.gstatic.com:443", "www.gstatic.com", "/generate_204"),
        ("http://example.com", "example.com:80", "example.com", "/"),
        ("HTTP://Example.COM:80?q=1", "example.com:80", "example.com", "/?q=1"),
        ("https://example.com:8443/a/b?c=d#e", "example.com:8443", "example.com:8443", "/a/b?c=d"),
        ("https://[2001:DB8::1]/", "[2001:db8::1]:443", "[2001:db8::1]", "/"),
        ("http://[::1]:8080/x", "[::1]:8080", "[::1]:8080", "/x"),
        ("https://bücher.example./", "xn--bcher-kva.example:443", "xn--bcher-kva.example", "/"),
        ("https://my_host/%7Eä b", "my_host:443", "my_host", "/%7E%C3%A4%20b"),
        ("https://user:p%40ss@example.com/", "example.com:443", "example.com", "/"),
    ],
)
def test_urls_are_taken_apart(url: str, authority: str, host_header: str, path: str) -> None:
    target = parse_target(url)
    assert (target.authority, target.host_header, target.path) == (authority, host_header, path)
    assert target.absolute_url == f"{url.split(':')[0].lower()}://{host_header}{path}"


def test_user_information_becomes_a_header_that_is_not_shown() -> None:
    target = parse_target("https://user:p%40ss:w%C3%B6rd@example.com/")
    assert target.authorization == "Basic dXNlcjpwQHNzOnfDtnJk"
    assert "dXNlcjpwQHNzOnfDtnJk" not in repr(target)
    assert "p@ss" not in target.absolute_url


@given(st.text() | st.text().map("https://".__add__) | st.text().map("http://h/".__add__))
def test_whatever_is_accepted_is_safe_on_the_wire(url: str) -> None:
    try:
        target = parse_target(url)
    except ConfigurationError:
        return
    for text in (target.authority, target.host_header, target.path, target.authorization):
        assert text.isascii()
        assert text.isprintable()
    assert " " not in target.path + target.authority
    assert 1 <= target.port <= 65535
