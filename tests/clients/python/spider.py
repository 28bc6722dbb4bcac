"""A spider that a test runs with ``scrapy runspider``; its arguments say what to fetch."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.http import Response


class Pages(scrapy.Spider):
    """Fetches pages and keeps what came back, or what went wrong."""

    name = "pages"
    custom_settings = {  # noqa: RUF012 (as Scrapy's own documentation writes it)
        "DOWNLOADER_MIDDLEWARES": {"egress_proxies_client.scrapy.EgressProxiesMiddleware": 740},
        "HTTPERROR_ALLOW_ALL": True,
        "TELNETCONSOLE_ENABLED": False,
        "RETRY_PRIORITY_ADJUST": 0,
    }

    def __init__(self, requests: str) -> None:
        super().__init__()
        self.wanted: list[dict[str, Any]] = json.loads(requests)

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for wanted in self.wanted:
            yield scrapy.Request(wanted["url"], meta=wanted.get("meta"), errback=self.failed, dont_filter=True)

    def parse(self, response: Response, **_: Any) -> Iterator[dict[str, Any]]:
        yield {
            "url": response.url,
            "status": response.status,
            "text": response.text,
            "lease": response.meta.get("egress_proxies_lease"),
            "proxy": response.meta.get("proxy"),
        }

    def failed(self, failure: Any) -> Iterator[dict[str, Any]]:
        yield {"url": failure.request.url, "error": type(failure.value).__name__}
