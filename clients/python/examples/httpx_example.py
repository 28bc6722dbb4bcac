"""Crawl some pages of one site with httpx: python httpx_example.py https://shop.example.com/ ...

The API is told by EGRESS_PROXIES_URL and EGRESS_PROXIES_TOKEN. A page that the site refuses with 429 is fetched again
through another proxy, because the report makes this one rest from the site.
"""

import sys
from urllib.parse import urlsplit

import httpx

from egress_proxies_client import Client, NoMatch

TRIES = 3


def fetch(client: Client, url: str) -> httpx.Response:
    """Fetch one page, through another proxy each time the site says that it was too much."""
    target = urlsplit(url).hostname or ""
    for _ in range(TRIES):
        with client.lease(target=target, wait=30, transport_errors=(httpx.TransportError,)) as lease:
            page = httpx.get(url, proxy=lease.proxy_url, timeout=20)
            if page.status_code != httpx.codes.TOO_MANY_REQUESTS:
                return page
            lease.report("rate_limited")
    raise RuntimeError(f"{url}: still refused after {TRIES} proxies")


def main() -> None:
    """Print the status and length of each page."""
    with Client() as client:
        for url in sys.argv[1:]:
            try:
                page = fetch(client, url)
            except NoMatch as refusal:
                sys.exit(f"no proxy for {url}: {refusal}")
            print(page.status_code, len(page.content), url)


if __name__ == "__main__":
    main()
