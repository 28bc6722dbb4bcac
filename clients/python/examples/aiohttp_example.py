"""Crawl pages of several sites at once with aiohttp: python aiohttp_example.py https://shop.example.com/ ...

The API is told by EGRESS_PROXIES_URL and EGRESS_PROXIES_TOKEN. Each site gets a lease of its own, which is renewed
while its pages are fetched one after another.
"""

import asyncio
import sys
from itertools import groupby
from urllib.parse import urlsplit

import aiohttp

from egress_proxies_client import AsyncClient, EgressProxiesError


def site_of(url: str) -> str:
    """Return the host of a URL."""
    return urlsplit(url).hostname or ""


async def crawl(client: AsyncClient, session: aiohttp.ClientSession, site: str, urls: list[str]) -> None:
    """Fetch the pages of one site, until it refuses one."""
    async with client.lease(target=site, wait=30, transport_errors=(aiohttp.ClientConnectionError,)) as lease:
        for url in urls:
            async with session.get(url, proxy=lease.proxy_url) as page:
                print(page.status, len(await page.read()), url)
            if page.status == 429:
                await lease.report("rate_limited")
                break


async def main() -> None:
    """Crawl every site that the arguments name."""
    sites = {site: list(urls) for site, urls in groupby(sorted(sys.argv[1:], key=site_of), key=site_of)}
    timeout = aiohttp.ClientTimeout(total=20)
    async with AsyncClient() as client, aiohttp.ClientSession(timeout=timeout) as session:
        crawls = [crawl(client, session, site, urls) for site, urls in sites.items()]
        for outcome in await asyncio.gather(*crawls, return_exceptions=True):
            if isinstance(outcome, EgressProxiesError | aiohttp.ClientError):
                print(f"failed: {outcome}", file=sys.stderr)
            elif isinstance(outcome, BaseException):
                raise outcome


if __name__ == "__main__":
    asyncio.run(main())
