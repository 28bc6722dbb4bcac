"""``GET /v1/proxies``: answers shared by all who ask at the same time."""

import bisect
import hashlib
import json
import operator
import zlib
from functools import cached_property
from http import HTTPStatus

from aiohttp import hdrs, web

from api.list_query import ListQuery, continue_token
from api.views import proxy_json
from leasing.client import BrokerClient, ProxyList
from model.lease_list import ListedProxy

_CACHED_ANSWERS = 32
_COMPRESSION_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_SMALLEST_COMPRESSED = 1024


class Page:
    """One page, written out; ``tag`` is equal for equal content and no other."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    @cached_property
    def tag(self) -> str:
        """The hash of the content."""
        return hashlib.sha256(self.body).hexdigest()[:32]

    @cached_property
    def compressed(self) -> bytes:
        """The body as gzip; the same body always gives the same bytes."""
        compressor = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
        return compressor.compress(self.body) + compressor.flush()


class Listing:
    """Lists proxies; the same list and query are written out once."""

    def __init__(self, broker: BrokerClient) -> None:
        self._broker = broker
        self._pages: dict[ListQuery, tuple[ProxyList, Page]] = {}

    async def answer(self, request: web.Request, wanted: ListQuery) -> web.Response:
        """Return the answer to one request; ``Age`` says how old a list is that stands in for a fresh one."""
        listed = await self._broker.list_proxies()
        page = self._page(listed, wanted)
        zipped = len(page.body) >= _SMALLEST_COMPRESSED and _accepts_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, ""))
        # Other bytes need another tag.
        tag = f'"{page.tag}-gzip"' if zipped else f'"{page.tag}"'
        headers = {"ETag": tag, hdrs.VARY: hdrs.ACCEPT_ENCODING, hdrs.CACHE_CONTROL: "no-cache"}
        if age := int(listed.age):
            headers[hdrs.AGE] = str(age)
        if _knows(request.headers.getall(hdrs.IF_NONE_MATCH, []), tag):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        if zipped:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        body = page.compressed if zipped else page.body
        return web.Response(body=body, content_type="application/json", headers=headers)

    def _page(self, listed: ProxyList, wanted: ListQuery) -> Page:
        cached = self._pages.get(wanted)
        if cached is not None and cached[0] is listed:
            return cached[1]
        page = Page(_write(listed, wanted))
        if len(self._pages) >= _CACHED_ANSWERS:
            self._pages.clear()
        self._pages[wanted] = (listed, page)
        return page


def _write(listed: ProxyList, wanted: ListQuery) -> bytes:
    start = bisect.bisect_right(listed.proxies, wanted.after, key=operator.attrgetter("id")) if wanted.after else 0
    chosen: list[ListedProxy] = []
    more = False
    for proxy in listed.proxies[start:]:
        if not wanted.accepts(proxy):
            continue
        if len(chosen) == wanted.limit:
            more = True
            break
        chosen.append(proxy)
    body = {"proxies": [proxy_json(*proxy) for proxy in chosen], "count": len(chosen)}
    if more:
        body["continue"] = continue_token(chosen[-1].id)
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def _accepts_gzip(header: str) -> bool:
    """Whether the client takes gzip (RFC 9110, 12.5.3)."""
    qualities: dict[str, str] = {}
    for entry in header.lower().split(","):
        coding, _, parameters = entry.partition(";")
        qualities[coding.strip()] = parameters.replace(" ", "").removeprefix("q=").rstrip("0.") if parameters else "1"
    return bool(qualities.get("gzip", qualities.get("*", "")))


def _knows(values: list[str], tag: str) -> bool:
    """Whether ``If-None-Match`` names the tag; compared weakly (RFC 9110, 13.1.2)."""
    entries = [entry.strip().removeprefix("W/") for value in values for entry in value.split(",")]
    return "*" in entries or tag in entries
