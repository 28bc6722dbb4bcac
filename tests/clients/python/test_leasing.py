"""Both clients against the real API, with real proxies behind it."""

import asyncio

import aiohttp
import httpx
import pytest

from egress_proxies_client import (
    AsyncClient,
    Client,
    InvalidRequest,
    LeaseExpired,
    NoMatch,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    UnknownLease,
)
from tests.clients.python.conftest import Fleet
from tests.clients.python.shop import Shop
from tests.e2e.system import free_port
from tests.probing.certificates import Authority

pytestmark = pytest.mark.timeout(180)


class CrawlFailedError(Exception):
    """Something of the crawler's own."""


async def test_a_lease_in_a_block_fetches_reports_and_is_released(
    fleet: Fleet, shop: Shop, e2e_authority: Authority
) -> None:
    trust = e2e_authority.trust()

    def crawl() -> str:
        with fleet.client() as client:
            with client.lease(target="shop.test", ttl_seconds=60) as lease:
                assert [proxy.active_leases for proxy in client.proxies() if proxy.id == lease.proxy.id] == [1]
                page = httpx.get(shop.url("/a"), proxy=lease.proxy_url, verify=trust)
                lease.report("rate_limited")
            assert page.text == "the page at /a"
            with pytest.raises(LeaseExpired):
                _ = lease.proxy_url
            return lease.proxy.id

    limited = await asyncio.to_thread(crawl)

    assert set((await fleet.active_leases()).values()) == {0}
    async with fleet.async_client() as client:
        other = await client.acquire(target="shop.test")
        assert other.proxy.id != limited
        with pytest.raises(NoMatch) as caught:
            await client.acquire(target="shop.test")
    refusal = caught.value
    assert (refusal.considered, refusal.in_cooldown, refusal.at_capacity, refusal.unhealthy) == (2, 1, 1, 0)


async def test_a_lease_in_an_async_block_fetches_with_aiohttp_and_is_released(
    fleet: Fleet, shop: Shop, e2e_authority: Authority
) -> None:
    async with fleet.async_client() as client, aiohttp.ClientSession() as session:
        async with (
            client.lease(target="shop.test") as lease,
            session.get(shop.url("/b"), proxy=lease.proxy_url, ssl=e2e_authority.trust()) as page,
        ):
            assert await page.text() == "the page at /b"
            assert sum((await fleet.active_leases()).values()) == 1
        assert set((await fleet.active_leases()).values()) == {0}
        with pytest.raises(LeaseExpired):
            _ = lease.proxy_url


async def test_a_block_that_fails_releases_and_raises_what_it_raised(fleet: Fleet) -> None:
    def crawl() -> None:
        with fleet.client() as client, client.lease():
            raise CrawlFailedError

    with pytest.raises(CrawlFailedError):
        await asyncio.to_thread(crawl)
    with pytest.raises(CrawlFailedError):
        async with fleet.async_client() as client, client.lease():
            raise CrawlFailedError
    assert set((await fleet.active_leases()).values()) == {0}


async def test_a_cancelled_block_releases(fleet: Fleet) -> None:
    held = asyncio.Event()

    async def crawl() -> None:
        async with fleet.async_client() as client, client.lease():
            held.set()
            await asyncio.Event().wait()

    crawling = asyncio.create_task(crawl())
    await held.wait()
    crawling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await crawling
    assert set((await fleet.active_leases()).values()) == {0}


async def test_what_the_api_refuses_is_raised_as_its_error(fleet: Fleet) -> None:
    async with fleet.async_client() as client:
        with pytest.raises(InvalidRequest) as invalid:
            await client.acquire(ttl_seconds=10_000_000)
        assert (invalid.value.field, invalid.value.code) == ("ttlSeconds", "invalid_ttl")
        with pytest.raises(InvalidRequest) as invalid:
            await client.acquire(selector={"geo": "x" * 300})
        assert invalid.value.field == "selector.geo"
        with pytest.raises(UnknownLease):
            await client.report("A" * 26, "banned")
        with pytest.raises(NoMatch, match="considered 0"):
            await client.acquire(selector={"geo": "nowhere"})
        assert await client.proxies(healthy=False) == []
        await client.release("A" * 26)
    async with AsyncClient(fleet.url, token="wrong") as stranger:
        with pytest.raises(Unauthorized):
            await stranger.proxies()


async def test_a_released_slot_is_leased_again(fleet: Fleet) -> None:
    async with fleet.async_client() as client:
        one, two = await client.acquire(), await client.acquire()
        assert {one.proxy.id, two.proxy.id} == {f"{fleet.system.kubectl.namespace}/{name}" for name in ("one", "two")}
        await one.release()
        again = await client.acquire()
        assert again.proxy.id == one.proxy.id


def test_an_api_that_nobody_serves_is_unavailable_after_the_time_for_retries() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, token="", retry_for=0.5) as client, pytest.raises(Unavailable, match="ConnectError"):
        client.acquire()


async def test_the_environments_proxy_is_not_used_on_the_way_to_the_api(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    async with fleet.async_client(retry_for=0.0) as client:
        assert len(await client.proxies()) == 2


def test_trust_for_an_https_api_comes_from_ssl_cert_file(
    e2e_authority: Authority, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = shop.url("")
    with Client(url, token="", retry_for=0.0) as stranger, pytest.raises(Unavailable, match="certificate"):
        stranger.proxies()
    monkeypatch.setenv("SSL_CERT_FILE", str(e2e_authority.path))
    with Client(url, token="", retry_for=0.0) as client, pytest.raises(UnexpectedAnswer):
        client.proxies()
    assert shop.paths == ["/v1/proxies"]
