"""A downloader middleware for Scrapy: every request leaves through a leased proxy.

Settings::

    DOWNLOADER_MIDDLEWARES = {"egress_proxies_client.scrapy.EgressProxiesMiddleware": 740}
    EGRESS_PROXIES_URL = "http://egress-proxies:8090"    # or the environment variable of that name
    EGRESS_PROXIES_TOKEN = "..."                         # or the environment variable of that name
    EGRESS_PROXIES_SELECTOR = {"geo": "eu"}              # attributes of the proxies
    EGRESS_PROXIES_TTL_SECONDS = 300
    EGRESS_PROXIES_WAIT_SECONDS = 60                     # for a proxy, while waiting helps
    EGRESS_PROXIES_IDLE_SECONDS = 60                     # until an unused lease is given back
    EGRESS_PROXIES_REPORTS = {429: "rate_limited", 403: "banned"}   # by the status of the site's answer
    EGRESS_PROXIES_TRANSPORT_ERRORS = [...]              # exceptions; left out, RETRY_EXCEPTIONS

740 puts it before Scrapy's own proxy middleware on the way out, and before the retry middleware on the way back, so
that a retry leaves through another proxy.
"""

from collections.abc import Iterable
from typing import Any, Self, cast, get_args
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import is_asyncio_reactor_installed

from egress_proxies_client._async import AsyncClient
from egress_proxies_client._pool import LeasePool, SharedLease
from egress_proxies_client.records import LeaseRequest, Result

LEASE_META = "egress_proxies_lease"
"""Where a request's ``meta`` holds the id of the lease it went out with."""
SESSION_META = "egress_proxies_session"
"""Where a request's ``meta`` may name a session: its requests keep to one proxy."""

Key = tuple[str, str]
_DEFAULT_REPORTS = {429: "rate_limited", 403: "banned"}


class EgressProxiesMiddleware:
    """Leases a proxy per session and domain, reports how sites treat it, renews, and releases at the end of the crawl.

    A request that sets ``meta["proxy"]`` itself, to None as well, is left alone. A request for which there is no lease
    fails with the client's error: it never leaves without a proxy.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        self._reports = _reports(settings)
        self._transport_errors = _exceptions(settings)
        self._wish = _wish(settings)
        self._client = AsyncClient(settings.get("EGRESS_PROXIES_URL"), token=settings.get("EGRESS_PROXIES_TOKEN"))
        self._pool = LeasePool(self._client, settings.getfloat("EGRESS_PROXIES_IDLE_SECONDS", 60.0))
        self._used: WeakKeyDictionary[Request, tuple[Key, SharedLease]] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the middleware of a crawl.

        Raises:
            NotConfigured: ``EGRESS_PROXIES_ENABLED`` is false.
            ValueError: A setting cannot be used. The crawl ends: without the middleware it would go out directly.
            RuntimeError: Scrapy runs without asyncio.
        """
        if not crawler.settings.getbool("EGRESS_PROXIES_ENABLED", True):
            raise NotConfigured
        if crawler.settings.getbool("TWISTED_REACTOR_ENABLED", True) and not is_asyncio_reactor_installed():
            raise RuntimeError("EgressProxiesMiddleware needs the asyncio reactor: leave TWISTED_REACTOR as it is")
        middleware = cls(crawler)
        crawler.signals.connect(middleware.spider_closed, signal=signals.spider_closed)
        return middleware

    async def process_request(self, request: Request) -> None:
        """Give the request the proxy of its lease.

        Raises:
            EgressProxiesError: There is no lease.
        """
        if "proxy" in request.meta and LEASE_META not in request.meta:
            return
        key = (str(request.meta.get(SESSION_META, "")), urlsplit(request.url).hostname or "")
        wish: LeaseRequest = {**self._wish, "target": key[1]}
        if key[0]:
            wish["session"] = key[0]
        shared = await self._pool.take(key, wish)
        self._used[request] = (key, shared)
        request.meta["proxy"] = shared.lease.proxy.url
        request.meta[LEASE_META] = shared.lease.id

    async def process_response(self, request: Request, response: Response) -> Response:
        """Report what the answer's status says about the proxy."""
        await self._over(request, self._reports.get(response.status))
        return response

    async def process_exception(self, request: Request, exception: Exception) -> None:
        """Report a transport error; the exception goes on its way."""
        await self._over(request, "transport_error" if isinstance(exception, self._transport_errors) else None)

    async def spider_closed(self) -> None:
        """Release every lease."""
        await self._pool.close()
        await self._client.aclose()

    async def _over(self, request: Request, result: Result | None) -> None:
        used = self._used.pop(request, None)
        if used is None:
            return
        key, shared = used
        if await self._pool.give_back(key, shared, result) and self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"egress_proxies/reports/{result}")


def _wish(settings: BaseSettings) -> LeaseRequest:
    wish: LeaseRequest = {
        "selector": settings.getdict("EGRESS_PROXIES_SELECTOR"),
        "wait": settings.getfloat("EGRESS_PROXIES_WAIT_SECONDS", 60.0),
    }
    if settings.get("EGRESS_PROXIES_TTL_SECONDS") is not None:
        wish["ttl_seconds"] = settings.getint("EGRESS_PROXIES_TTL_SECONDS")
    return wish


def _reports(settings: BaseSettings) -> dict[int, Result]:
    configured: dict[Any, Any] = settings.getdict("EGRESS_PROXIES_REPORTS", _DEFAULT_REPORTS)
    wrong = [word for word in configured.values() if word not in get_args(Result)]
    if wrong:
        raise ValueError(f"EGRESS_PROXIES_REPORTS: {wrong[0]!r} is none of {', '.join(get_args(Result))}")
    return {int(status): cast("Result", word) for status, word in configured.items()}


def _exceptions(settings: BaseSettings) -> tuple[type[BaseException], ...]:
    configured: Iterable[Any] = settings.get("EGRESS_PROXIES_TRANSPORT_ERRORS") or settings.getlist("RETRY_EXCEPTIONS")
    return tuple(load_object(entry) for entry in configured)
