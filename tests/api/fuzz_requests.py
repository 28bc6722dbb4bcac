"""Requests that break HTTP, JSON or the API's own rules: by hand, and by hypothesis."""

import gzip
import json
import random
from typing import NamedTuple

from hypothesis import strategies as st

ID = "A" * 26
_DEEP = 10_000
BATCH = 200


class Case(NamedTuple):
    """One request by hand; no statuses: it is half a request, to which nothing is answered yet."""

    request: bytes
    statuses: frozenset[int]
    with_token: bool = True

    def sent(self, bearer: bytes) -> bytes:
        """Return the bytes, with the token's header line after the first line where it is wanted."""
        first, newline, rest = self.request.partition(b"\r\n")
        return first + newline + bearer + rest if self.with_token and newline else self.request


def _case(request: bytes, *statuses: int, with_token: bool = True) -> Case:
    return Case(request, frozenset(statuses), with_token)


def _get(target: bytes = b"/v1/proxies", headers: bytes = b"", method: bytes = b"GET") -> bytes:
    return method + b" " + target + b" HTTP/1.1\r\nHost: api\r\n" + headers + b"\r\n"


def _post(body: bytes, headers: bytes = b"", target: bytes = b"/v1/leases") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body)
    return _get(target, headers + length, b"POST") + body


_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_REPORT = f"/v1/leases/{ID}/report".encode()

BY_HAND: dict[str, Case] = {
    "charset that is none": _case(_post(b"{}", b"Content-Type: application/json; charset=test\r\n"), 415),
    "charset utf-16": _case(_post(b"{}", b"Content-Type: application/json; charset=utf-16\r\n"), 415),
    "charset not ASCII": _case(_post(b"{}", b"Content-Type: application/json; charset=\xff\xfe\r\n"), 415),
    "charset with NUL": _case(_post(b"{}", b"Content-Type: application/json; charset=\x00\r\n"), 400),
    "content type of junk": _case(_post(b"{}", b"Content-Type: ;;==,\x01\r\n"), 201, 400),
    "two content types": _case(_post(b"{}", b"Content-Type: a/b\r\nContent-Type: c/d; charset=x\r\n"), 201, 400, 415),
    "lone surrogate": _case(_post(b'{"target":"\\ud800"}'), 400),
    "lone surrogate as a key": _case(_post(b'{"selector":{"\\udfff":"x"}}'), 400),
    "lone surrogate as an unknown key": _case(_post(b'{"\\udfff":"\\ud800"}'), 201),
    "surrogate as result": _case(_post(b'{"result":"\\ud800"}', target=_REPORT), 400),
    "NaN": _case(_post(b'{"ttlSeconds":NaN}'), 400),
    "Infinity": _case(_post(b'{"ttlSeconds":Infinity}'), 400),
    "minus Infinity": _case(_post(b'{"other":-Infinity}'), 400),
    "infinite float": _case(_post(b'{"ttlSeconds":1e999}'), 400),
    "minus zero": _case(_post(b'{"ttlSeconds":-0}'), 201),
    "5,000 digits": _case(_post(b'{"ttlSeconds":' + b"7" * 5000 + b"}"), 400),
    "5,000 digits elsewhere": _case(_post(b'{"other":-' + b"7" * 5000 + b"}"), 400),
    "5,000 digits after the point": _case(_post(b'{"ttlSeconds":0.' + b"7" * 5000 + b"}"), 400),
    "10,000 nested arrays": _case(_post(b'{"a":' + b"[" * _DEEP + b"]" * _DEEP + b"}"), 400),
    "10,000 open arrays": _case(_post(b"[" * _DEEP), 400),
    "10,000 nested objects": _case(_post(b'{"a":' * 9000 + b"1" + b"}" * 9000), 400),
    "repeated keys": _case(_post(b'{"target":1,"target":"a.example"}'), 201),
    "byte order mark": _case(_post(b"\xef\xbb\xbf{}"), 400),
    "UTF-16 body": _case(_post("{}".encode("utf-16")), 400),
    "overlong UTF-8": _case(_post(b'{"target":"\xc0\xaf"}'), 400),
    "NUL in the body": _case(_post(b'{"target":"\x00"}'), 400),
    "NUL by escape": _case(_post(b'{"target":"\\u0000"}'), 201),
    "token not ASCII": _case(_get(headers="Authorization: Bearer tök\r\n".encode()), 401, with_token=False),
    "token not UTF-8": _case(_get(headers=b"Authorization: Bearer caf\xe9\xff\r\n"), 401, with_token=False),
    "token of 8,000 bytes": _case(
        _get(headers=b"Authorization: Bearer " + b"x" * 8000 + b"\r\n"), 401, with_token=False
    ),
    "token with NUL": _case(_get(headers=b"Authorization: Bearer \x00\r\n"), 400, with_token=False),
    "empty authorization": _case(_get(headers=b"Authorization:\r\n"), 401, with_token=False),
    "token twice": _case(_get(headers=b"Authorization: Bearer x\r\n"), 401),
    "no token": _case(_get(), 401, with_token=False),
    "OPTIONS without token": _case(_get(method=b"OPTIONS"), 401, with_token=False),
    "HEAD without token": _case(_get(method=b"HEAD"), 401, with_token=False),
    "OPTIONS of everything": _case(_get(b"*", method=b"OPTIONS"), 400, 404, 405),
    "OPTIONS of everything without token": _case(_get(b"*", method=b"OPTIONS"), 400, 401, with_token=False),
    "HEAD": _case(_get(method=b"HEAD"), 200),
    "HEAD of nothing": _case(_get(b"/nowhere", method=b"HEAD"), 404),
    "OPTIONS": _case(_get(method=b"OPTIONS"), 405),
    "CONNECT": _case(b"CONNECT api:80 HTTP/1.1\r\nHost: api:80\r\n\r\n", 400, 404, 405),
    "TRACE": _case(_get(method=b"TRACE"), 405),
    "PATCH": _case(_get(b"/v1/leases", method=b"PATCH"), 405),
    "method of junk": _case(_get(method=b"G@T"), 400, 405),
    "method not ASCII": _case(_get(method=b"G\xc9T"), 400, 405),
    "method in small letters": _case(_get(method=b"get"), 400, 405),
    "method of 10,000 letters": _case(_get(method=b"A" * 10_000), 400, 405),
    "both length headers": _case(_post(b"0\r\n\r\n", _CHUNKED), 400),
    "two lengths": _case(_post(b"{}", b"Content-Length: 3\r\n"), 400),
    "two equal lengths": _case(_post(b"{}", b"Content-Length: 2\r\n"), 201, 400),
    "length of letters": _case(_get(b"/v1/leases", b"Content-Length: two\r\n", b"POST"), 400),
    "negative length": _case(_get(b"/v1/leases", b"Content-Length: -1\r\n", b"POST"), 400),
    "length with a plus": _case(_get(b"/v1/leases", b"Content-Length: +2\r\n", b"POST") + b"{}", 400),
    "length of 5,000 digits": _case(
        _get(b"/v1/leases", b"Content-Length: " + b"9" * 5000 + b"\r\n", b"POST"), 400, 413
    ),
    "length in other digits": _case(_get(b"/v1/leases", "Content-Length: ²\r\n".encode(), b"POST") + b"{}", 400),
    "no length": _case(_get(b"/v1/leases", method=b"POST"), 400),
    "chunks": _case(_get(b"/v1/leases", _CHUNKED, b"POST") + b"2;a=b\r\n{}\r\n0\r\nA: b\r\n\r\n", 201),
    "chunk size of junk": _case(_get(b"/v1/leases", _CHUNKED, b"POST") + b"zz\r\n{}\r\n0\r\n\r\n", 400),
    "chunk size below zero": _case(_get(b"/v1/leases", _CHUNKED, b"POST") + b"-2\r\n{}\r\n0\r\n\r\n", 400),
    "chunk size over 64 bits": _case(
        _get(b"/v1/leases", _CHUNKED, b"POST") + b"f" * 40 + b"\r\n{}\r\n0\r\n\r\n", 400, 413
    ),
    "chunk without its end": _case(_get(b"/v1/leases", _CHUNKED, b"POST") + b"2\r\n{}0\r\n\r\n", 400),
    "chunk line without end": _case(_get(b"/v1/leases", _CHUNKED, b"POST") + b"2;" + b"x" * 70_000),
    "chunked twice": _case(_get(b"/v1/leases", _CHUNKED * 2, b"POST") + b"2\r\n{}\r\n0\r\n\r\n", 201, 400),
    "coding of junk": _case(_get(b"/v1/leases", b"Transfer-Encoding: x\r\n", b"POST") + b"{}", 400),
    "chunked, then another": _case(_get(b"/v1/leases", b"Transfer-Encoding: chunked, x\r\n", b"POST"), 400),
    "trailers of 100 KB": _case(
        _get(b"/v1/leases", _CHUNKED, b"POST") + b"2\r\n{}\r\n0\r\n" + b"A: b\r\n" * 17_000 + b"\r\n", 201, 400
    ),
    "gzip that is none": _case(_post(b"not gzip", b"Content-Encoding: gzip\r\n"), 400),
    "gzip cut short": _case(_post(gzip.compress(b"{}" + b" " * 1000)[:-9], b"Content-Encoding: gzip\r\n"), 201, 400),
    "gzip bomb": _case(_post(gzip.compress(b" " * 50_000_000), b"Content-Encoding: gzip\r\n"), 413),
    "deflate that is none": _case(_post(b"\x00\x01", b"Content-Encoding: deflate\r\n"), 400),
    "br that is none": _case(_post(b"\x00\x01", b"Content-Encoding: br\r\n"), 400),
    "encoding of junk": _case(_post(b"{}", b"Content-Encoding: \xff\r\n"), 201, 400),
    "body over the limit": _case(_post(b" " * 70_000), 413),
    "expectation of junk": _case(_post(b"{}", b"Expect: the-unexpected\r\n"), 417),
    "expectation": _case(_post(b"{}", b"Expect: 100-continue\r\n"), 201),
    "upgrade": _case(_get(headers=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"), 200, 400),
    "upgrade to HTTP/2": _case(
        _get(headers=b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"), 200, 400
    ),
    "HTTP/2 preface": _case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 404, with_token=False),
    "range": _case(_get(headers=b"Range: bytes=9-1,-,a\r\nIf-Range: \xff\r\n"), 200),
    "NUL in the path": _case(_get(b"/v1/\x00"), 400),
    "NUL in the path by escape": _case(_get(b"/v1/leases/%00", method=b"DELETE"), 204),
    "NUL in a header": _case(_get(headers=b"X: a\x00b\r\n"), 400),
    "NUL in a header's name": _case(_get(headers=b"X\x00: a\r\n"), 400),
    "header without colon": _case(_get(headers=b"No Colon\r\n"), 400),
    "header without name": _case(_get(headers=b": value\r\n"), 400),
    "space before the colon": _case(_get(headers=b"X : a\r\n"), 400),
    "folded header": _case(_get(headers=b"X: a\r\n b\r\n"), 200, 400),
    "bare CR in a header": _case(_get(headers=b"X: a\rb\r\n"), 400),
    "bare LF": _case(b"GET /healthz HTTP/1.1\nHost: api\n\n", 200, 400, with_token=False),
    "header of 9,000 bytes": _case(_get(headers=b"X: " + b"x" * 9000 + b"\r\n"), 400),
    "header of 1 MB": _case(_get(headers=b"X: " + b"x" * 1_000_000 + b"\r\n"), 400),
    "name of 1 MB": _case(_get(headers=b"x" * 1_000_000 + b": y\r\n"), 400),
    "20,000 headers": _case(_get(headers=b"X: y\r\n" * 20_000), 400),
    "two hosts": _case(_get(headers=b"Host: other\r\n"), 200, 400),
    "host of junk": _case(b"GET /v1/proxies HTTP/1.1\r\nHost: [::1\xff]:99999999\r\n\r\n", 200, 400),
    "no host": _case(b"GET /v1/proxies HTTP/1.1\r\n\r\n", 200, 400),
    "cookie of junk": _case(_get(headers=b'Cookie: \xff=;;=\x7f; a="\r\n'), 200, 400),
    "HTTP/0.9": _case(b"GET /healthz\r\n\r\n", 200, 400, with_token=False),
    "HTTP/0.9 without anything": _case(b"GET /healthz\r\n", with_token=False),
    "HTTP/1.0": _case(b"GET /v1/proxies HTTP/1.0\r\n\r\n", 200),
    "HTTP/9.9": _case(b"GET /v1/proxies HTTP/9.9\r\nHost: api\r\n\r\n", 200, 400),
    "HTTP/1.10": _case(b"GET /v1/proxies HTTP/1.10\r\nHost: api\r\n\r\n", 400),
    "another protocol": _case(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", 400, with_token=False),
    "TLS": _case(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32 + b"\r\n\r\n", 400, with_token=False),
    "nothing but ends of lines": _case(b"\r\n" * 1000 + b"X\r\n\r\n", 400, with_token=False),
    "absolute form": _case(_get(b"http://elsewhere.example/v1/proxies"), 200, 400, 404),
    "absolute form without token": _case(_get(b"http://elsewhere.example/v1/proxies"), 400, 401, with_token=False),
    "absolute form of the health check": _case(_get(b"http://x/healthz?/v1/proxies"), 200, 400, with_token=False),
    "absolute form with a user": _case(_get(b"http://a:b@elsewhere.example:99999/v1/proxies"), 200, 400, 404),
    "absolute form of junk": _case(_get(b"http://[::1/v1/proxies"), 400),
    "absolute form of an odd host": _case(_get("http://ü..\u2028/v1/proxies".encode()), 200, 400, 404),
    "another scheme": _case(_get(b"ftp://x/v1/proxies"), 200, 400, 404),
    "authority form": _case(_get(b"api:80"), 400, 404),
    "target without slash": _case(_get(b"v1/proxies"), 400, 404),
    "two slashes": _case(_get(b"//v1/proxies"), 404),
    "way up": _case(_get(b"/v1/../v1/%2e%2e/proxies"), 404),
    "fragment": _case(_get(b"/v1/proxies#x"), 200, 400, 404),
    "target of 9,000 bytes": _case(_get(b"/v1/" + b"x" * 9000), 400),
    "target of 1 MB": _case(_get(b"/v1/proxies?" + b"x" * 1_000_000), 400),
    "query of junk": _case(_get(b"/v1/proxies?%ff=%zz&&&=&attr.=%00&attr.%ff=%f0%28"), 200, 400),
    "query not ASCII": _case(_get(b"/v1/proxies?attr.\xff=\xfe"), 200, 400),
    "id not UTF-8": _case(_get(b"/v1/leases/%ff%fe", method=b"DELETE"), 204),
    "id of half an escape": _case(_get(b"/v1/leases/%e", method=b"DELETE"), 204, 400),
    "id of a surrogate": _case(_get(b"/v1/leases/%ed%a0%80", method=b"DELETE"), 204),
    "id of braces": _case(_get(b"/v1/leases/%7Bid%7D", method=b"DELETE"), 204),
    "id of bare braces": _case(_get(b"/v1/leases/{id}", method=b"DELETE"), 204),
    "id with a slash": _case(_get(b"/v1/leases/a%2Fb", method=b"DELETE"), 204),
    "id of dots": _case(_get(b"/v1/leases/%2e%2e", method=b"DELETE"), 204, 404, 405),
    "id of 7,000 bytes": _case(_get(b"/v1/leases/" + b"%41" * 2333, method=b"DELETE"), 204),
    "no id": _case(_get(b"/v1/leases/", method=b"DELETE"), 404),
    "report on junk": _case(_post(b'{"result":"ok"}', target=b"/v1/leases/%ff/report"), 404),
    "half a request line": _case(b"GET /healthz HT", with_token=False),
    "half a head": _case(b"GET /healthz HTTP/1.1\r\nHost: a", with_token=False),
    "half a body": _case(_get(b"/v1/leases", b"Content-Length: 10\r\n", b"POST") + b"{"),
    "nothing": _case(b"", with_token=False),
}

_METHODS = [b"GET", b"GET", b"POST", b"POST", b"POST", b"DELETE", b"DELETE", b"HEAD", b"OPTIONS", b"PUT", b"X"]
_SEGMENTS = st.one_of(
    st.sampled_from(
        ["v1", "leases", "proxies", "report", "renew", "healthz", "docs", "openapi.json", ID, "", ".", ".."]
    ),
    st.text(max_size=8),
    st.binary(max_size=4).map(lambda raw: "".join(f"%{byte:02x}" for byte in raw)),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
_KNOWN_TARGETS = st.sampled_from(
    [b"/v1/leases", b"/v1/proxies", _REPORT, f"/v1/leases/{ID}".encode(), f"/v1/leases/{ID}/renew".encode(), b"/docs"]
)
_QUERIES = st.one_of(st.just(b""), st.binary(max_size=12).map(lambda raw: b"?" + raw.translate(None, b" \r\n")))
_TARGETS = st.one_of(
    _KNOWN_TARGETS,
    st.builds(lambda target, query: target + query, _KNOWN_TARGETS, _QUERIES),
    st.lists(_SEGMENTS, max_size=5).map(lambda parts: b"/" + b"/".join(parts)),
)
_NAMES = st.one_of(
    st.sampled_from(
        (
            b"Content-Type Content-Encoding Content-Length Transfer-Encoding Authorization Expect Idempotency-Key "
            b"If-None-Match Accept-Encoding Connection Host Range Cookie"
        ).split()
    ),
    st.binary(min_size=1, max_size=6),
)
_VALUES = st.one_of(
    st.sampled_from([b"chunked", b"gzip", b"close", b"application/json; charset=utf-16", b"*", b'W/"x"', b"0", b"2"]),
    st.binary(max_size=12),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=20).map(str.encode),
)
_HEADERS = st.builds(lambda name, value: name + b": " + value + b"\r\n", _NAMES, _VALUES)
_FIELDS = st.sampled_from(["ttlSeconds", "target", "selector", "result", "session", "sessionMode", "other"])
_NUMBERS = st.one_of(
    st.integers(-2, 4000),
    st.integers(),
    st.floats(),
    st.integers(300, 5000).map(lambda digits: 10 ** min(digits, 4000)),
)
_TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["ok", "banned", "strict", "\ud800", "\x00", "x" * 300]))
_LEAVES = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS)
_THINGS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=5,
)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


_BODIES = st.one_of(
    st.just(b"{}"),
    st.dictionaries(_FIELDS, _LEAVES, max_size=3).map(_json),
    st.dictionaries(_FIELDS, _THINGS, max_size=3).map(_json),
    _THINGS.map(_json),
    st.binary(max_size=30),
    st.builds(
        lambda body, at, byte: body[:at] + byte + body[at:],
        st.just(b'{"target":"a","ttlSeconds":1}'),
        st.integers(0, 28),
        st.binary(min_size=1, max_size=1),
    ),
)


def _request(
    bearer: bytes, method: bytes, target: bytes, headers: list[bytes], body: bytes, has_token: bool, chunked: bool
) -> bytes:
    token = bearer if has_token else b""
    if chunked:
        length, body = _CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    else:
        length = b"Content-Length: %d\r\n" % len(body)
    return method + b" " + target + b" HTTP/1.1\r\nHost: api\r\n" + token + b"".join(headers) + length + b"\r\n" + body


def _combined(
    bearer: bytes, targets: list[bytes], headers: list[bytes], bodies: list[bytes], source: int
) -> list[bytes]:
    chance = random.Random(source)
    return [
        _request(
            bearer,
            chance.choice(_METHODS),
            chance.choice(targets),
            chance.sample(headers, chance.choice((0, 0, 0, 1, 2))),
            chance.choice(bodies),
            has_token=chance.random() < 0.8,
            chunked=chance.random() < 0.2,
        )
        for _ in range(BATCH)
    ]


def batches(bearer: bytes) -> st.SearchStrategy[list[bytes]]:
    """Return lists of ``BATCH`` requests that are complete, though not always well-formed.

    Hypothesis makes the parts, which cost it much, and chance puts them together.
    """
    targets = st.lists(_TARGETS, min_size=10, max_size=25)
    headers = st.lists(_HEADERS, min_size=5, max_size=15)
    bodies = st.lists(_BODIES, min_size=10, max_size=25)
    return st.builds(_combined, st.just(bearer), targets, headers, bodies, st.integers(0, 2**32))
