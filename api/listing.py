"""``GET /v1/proxies``: the filter, and answers shared by all who ask at the same time."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from api.body import is_writable
from api.errors import ApiError
from api.views import proxy_json
from leasing.client import BrokerClient, ProxyList
from model.lease_index import matches
from model.lease_list import ListedProxy
from model.lease_operations import SELECTOR_PAIRS_LIMIT, TEXT_LIMIT

_ATTRIBUTE_PREFIX = "attr."
_HEALTHY = {"true": True, "false": False}
_CACHED_ANSWERS = 32


@dataclass(frozen=True)
class Filter:
    """Which proxies to list; ``healthy`` None lists both."""

    selector: Mapping[str, str]
    healthy: bool | None

    def accepts(self, proxy: ListedProxy) -> bool:
        """Whether the proxy is wanted."""
        if self.healthy is not None and proxy.view.healthy is not self.healthy:
            return False
        return matches(self.selector, proxy.view.attributes)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal filters."""
        return self.healthy, *sorted(self.selector.items())


def parse_filter(query: Mapping[str, str]) -> Filter:
    """Read a query; of a repeated key the first value counts, other keys are ignored.

    Raises:
        ApiError: 400 ``invalid_query``.
    """
    healthy = query.get("healthy")
    if healthy is not None and healthy not in _HEALTHY:
        raise _invalid(f"healthy must be true or false, got {healthy[:32]!r}")
    selector: dict[str, str] = {}
    for name, value in query.items():
        if name.startswith(_ATTRIBUTE_PREFIX):
            selector.setdefault(name.removeprefix(_ATTRIBUTE_PREFIX), value)
    if len(selector) > SELECTOR_PAIRS_LIMIT:
        raise _invalid(f"at most {SELECTOR_PAIRS_LIMIT} attributes can be asked for")
    for text in (*selector, *selector.values()):
        if not is_writable(text) or len(text.encode()) > TEXT_LIMIT:
            raise _invalid(f"attr.<key> and its value must be Unicode of at most {TEXT_LIMIT} bytes")
    return Filter(selector, _HEALTHY[healthy] if healthy is not None else None)


def _invalid(message: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "invalid_query", message)


class Listing:
    """Lists proxies; the same list and filter are written out once."""

    def __init__(self, broker: BrokerClient) -> None:
        self._broker = broker
        self._answers: dict[tuple[object, ...], tuple[ProxyList, bytes]] = {}

    async def answer(self, wanted: Filter) -> web.Response:
        """Return the answer to one request; ``Age`` says how old a list is that stands in for a fresh one."""
        listed = await self._broker.list_proxies()
        age = int(listed.age)
        headers = {"Age": str(age)} if age else {}
        return web.Response(body=self._body(listed, wanted), content_type="application/json", headers=headers)

    def _body(self, listed: ProxyList, wanted: Filter) -> bytes:
        cached = self._answers.get(wanted.key)
        if cached is not None and cached[0] is listed:
            return cached[1]
        proxies = [proxy_json(*proxy) for proxy in listed.proxies if wanted.accepts(proxy)]
        body = json.dumps({"proxies": proxies, "count": len(proxies)}, separators=(",", ":")).encode() + b"\n"
        if len(self._answers) >= _CACHED_ANSWERS:
            self._answers.clear()
        self._answers[wanted.key] = (listed, body)
        return body
