"""Leases that last: renewal, waiting, sessions, and what an API that was away has granted, all against the real API."""

import asyncio
import time
import uuid

import httpx
import pytest

from egress_proxies_client import (
    AsyncLease,
    IdempotencyKeyReused,
    LeaseExpired,
    LeaseRevoked,
    NoMatch,
    SessionUnavailable,
    UnknownLease,
)
from tests.clients.python.breaking import BREAKS, BreakingProxy
from tests.clients.python.conftest import Fleet
from tests.clients.python.shop import Shop
from tests.e2e.polling import eventually
from tests.probing.certificates import Authority

pytestmark = pytest.mark.timeout(180)


async def test_a_lease_in_a_block_outlives_its_ttl(fleet: Fleet) -> None:
    def hold() -> None:
        with fleet.client() as client, client.lease(ttl_seconds=4) as lease:
            first = lease.expires_at
            deadline = time.monotonic() + 20
            while (lease.expires_at - first).total_seconds() < 5:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert lease.proxy_url == lease.proxy.url
            assert client.get(lease.id).expires_at == lease.expires_at

    async def hold_async() -> None:
        async with fleet.async_client() as client, client.lease(ttl_seconds=4) as lease:
            first = lease.expires_at

            async def gained() -> float:
                return (lease.expires_at - first).total_seconds()

            await eventually(gained, lambda seconds: seconds >= 5)
            assert lease.proxy_url == lease.proxy.url

    await asyncio.gather(asyncio.to_thread(hold), hold_async())
    assert set((await fleet.active_leases()).values()) == {0}


async def test_renewal_by_hand_and_a_handle_by_id(fleet: Fleet) -> None:
    async with fleet.async_client() as client:
        lease = await client.acquire(ttl_seconds=60)
        await lease.renew(120)
        assert 100 < lease.seconds_left <= 120
        handle = await client.get(lease.id)
        assert (handle.id, handle.proxy.id, handle.expires_at) == (lease.id, lease.proxy.id, lease.expires_at)
        await handle.release()
        with pytest.raises((LeaseExpired, UnknownLease)):
            await lease.renew()
        with pytest.raises((LeaseExpired, UnknownLease)):
            _ = lease.proxy_url
        with pytest.raises(UnknownLease):
            await client.get(lease.id)


async def test_a_lease_whose_proxy_is_deleted_is_told_as_revoked(fleet: Fleet) -> None:
    async with fleet.async_client() as client, client.lease(ttl_seconds=4) as lease:
        await fleet.system.kubectl.acall("delete", "px", lease.proxy.id.partition("/")[2], "--timeout=30s")

        async def ended() -> BaseException | None:
            return lease.ended

        assert isinstance(await eventually(ended, lambda error: error is not None), LeaseRevoked)
        with pytest.raises(LeaseRevoked):
            _ = lease.proxy_url


async def test_wait_gets_the_proxy_that_time_frees_and_not_before(fleet: Fleet) -> None:
    async with fleet.async_client() as client:
        await client.acquire(ttl_seconds=4)
        await client.acquire(ttl_seconds=60)
        with pytest.raises(NoMatch) as caught:
            await client.acquire()
        assert caught.value.retry_after is not None
        assert caught.value.earliest_available is not None
        assert 1 <= caught.value.retry_after <= 4
        lease = await client.acquire(wait=20)
        assert lease.expires_at > caught.value.earliest_available


async def test_a_session_keeps_to_its_proxy(fleet: Fleet) -> None:
    async with fleet.async_client() as client:
        async with client.lease(session="cart-17") as lease:
            first = lease.proxy.id
        async with client.lease(session="cart-17", session_mode="strict") as lease:
            assert lease.proxy.id == first
            with pytest.raises(SessionUnavailable):
                await client.acquire(session="cart-17", session_mode="strict")
            relaxed = await client.acquire(session="cart-17")
            assert relaxed.proxy.id != first


async def test_a_key_stands_for_one_lease(fleet: Fleet) -> None:
    key = str(uuid.uuid4())
    async with fleet.async_client() as client:
        lease = await client.acquire(idempotency_key=key, target="shop.test")
        again = await client.acquire(idempotency_key=key, target="shop.test")
        assert again.id == lease.id
        assert sum((await fleet.active_leases()).values()) == 1
        with pytest.raises(IdempotencyKeyReused):
            await client.acquire(idempotency_key=key, target="other.test")
        await lease.release()
        with pytest.raises(LeaseExpired):
            await client.acquire(idempotency_key=key, target="shop.test")


async def test_a_lease_is_taken_once_the_api_is_back(fleet: Fleet) -> None:
    await fleet.system.stop("api")
    async with fleet.async_client() as client:
        acquiring = asyncio.create_task(client.acquire())
        await asyncio.sleep(0)
        fleet.system.start_api()
        lease = await acquiring
    assert sum((await fleet.active_leases()).values()) == 1
    assert lease.ended is None


async def test_an_exception_that_the_caller_names_is_reported_as_a_transport_error(
    fleet: Fleet, breaking: BreakingProxy, shop: Shop, e2e_authority: Authority
) -> None:
    trust = e2e_authority.trust()

    async def crawl(lease: AsyncLease) -> None:
        async with httpx.AsyncClient(proxy=lease.proxy_url, verify=trust) as browser:
            await browser.get(shop.url("/a"))

    async with fleet.async_client() as client:
        with pytest.raises(httpx.TransportError):
            async with client.lease(selector=BREAKS, transport_errors=(httpx.TransportError,)) as lease:
                await crawl(lease)
        with pytest.raises(NoMatch) as caught:
            await client.acquire(selector=BREAKS)
    assert breaking.broken
    assert caught.value.considered == 1
