"""Real crawls with Scrapy in a process of its own, through leased real proxies."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from egress_proxies_client import NoMatch
from tests.clients.python.breaking import BREAKS, WORKS, BreakingProxy
from tests.clients.python.conftest import CLIENT, Fleet
from tests.clients.python.programs import Ended, run_program
from tests.clients.python.shop import Shop
from tests.clients.python.spider import Pages
from tests.clients.python.test_programs import code_blocks

pytestmark = pytest.mark.timeout(180)

SPIDER = Path(__file__).with_name("spider.py")


class Crawl:
    """Runs spiders and reads what they found."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._items = directory / "items.json"
        self._environment = environment

    async def __call__(self, *requests: dict[str, Any], **settings: object) -> list[dict[str, Any]]:
        ended = await self.run(*requests, **settings)
        assert ended.returncode == 0, ended.stderr
        items: list[dict[str, Any]] = json.loads(self._items.read_text())
        return items

    async def run(self, *requests: dict[str, Any], **settings: object) -> Ended:
        chosen = [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
        arguments = ["-m", "scrapy", "runspider", str(SPIDER), "-O", str(self._items), *chosen]
        return await run_program(*arguments, "-a", f"requests={json.dumps(requests)}", environment=self._environment)


@pytest.fixture
def crawl(tmp_path: Path, environment: dict[str, str]) -> Crawl:
    return Crawl(tmp_path, environment)


async def cooldowns(fleet: Fleet, target: str) -> int:
    """Return how many proxies rest from a target."""
    async with fleet.system.crawler() as crawler:
        held = []
        while True:
            async with crawler.post("/v1/leases", json={"target": target}) as answer:
                body = await answer.json()
            if answer.status != 201:
                break
            held.append(body["leaseID"])
        for lease_id in held:
            await crawler.delete(f"/v1/leases/{lease_id}")
    return int(body["inCooldown"])


async def test_a_crawl_shares_one_lease_per_domain_and_releases_it_at_its_end(
    fleet: Fleet, shop: Shop, crawl: Crawl
) -> None:
    paths = [f"/{number}" for number in range(6)]
    direct = {"url": shop.url("/direct"), "meta": {"proxy": None}}

    items = await crawl(*({"url": shop.url(path)} for path in paths), direct)

    leased = [item for item in items if item["lease"]]
    assert sorted(item["text"] for item in leased) == [f"the page at {path}" for path in paths]
    assert len({item["lease"] for item in leased}) == 1
    [proxy] = {item["proxy"] for item in leased}
    addresses = {f"http://{view['ip']}:{view['port']}" for view in (await fleet.system.list_proxies()).values()}
    assert proxy in addresses
    assert [(item["url"], item["proxy"]) for item in items if not item["lease"]] == [(direct["url"], None)]
    assert set((await fleet.active_leases()).values()) == {0}


async def test_a_refused_page_is_reported_and_fetched_again_through_another_proxy(
    fleet: Fleet, shop: Shop, crawl: Crawl
) -> None:
    shop.refusals = ["429 Too Many Requests"]

    [item] = await crawl({"url": shop.url("/page")})

    assert item["status"] == 200
    assert shop.paths == ["/page", "/page"]
    assert await cooldowns(fleet, "127.0.0.1") == 1
    assert await cooldowns(fleet, "another.test") == 0


async def test_statuses_mean_what_the_settings_say(fleet: Fleet, shop: Shop, crawl: Crawl) -> None:
    shop.refusals = ["403 Forbidden"]
    [item] = await crawl({"url": shop.url("/page")}, EGRESS_PROXIES_REPORTS={})
    assert item["status"] == 403
    assert await cooldowns(fleet, "127.0.0.1") == 0

    shop.refusals = ["403 Forbidden"]
    [item] = await crawl({"url": shop.url("/page")})
    assert item["status"] == 403
    assert await cooldowns(fleet, "127.0.0.1") == 1


@pytest.mark.parametrize("fleet", [2], indirect=True)
async def test_a_transport_error_is_reported_and_the_page_fetched_again_through_another_proxy(
    fleet: Fleet, breaking: BreakingProxy, shop: Shop, crawl: Crawl
) -> None:
    async with fleet.async_client() as client:
        # The proxy with the fewest leases is the first choice.
        held = [await client.acquire(selector=WORKS) for _ in range(2)]
        [item] = await crawl({"url": shop.url("/page")})
        assert breaking.broken
        assert item["proxy"] in [lease.proxy.url for lease in held]
        assert (item["status"], shop.paths) == (200, ["/page"])
        with pytest.raises(NoMatch) as caught:
            await client.acquire(selector=BREAKS)
        assert caught.value.considered == 1


async def test_sessions_have_leases_of_their_own(fleet: Fleet, shop: Shop, crawl: Crawl) -> None:
    requests = [
        {"url": shop.url(f"/{name}{number}"), "meta": {"egress_proxies_session": name}}
        for name in ("ann", "bob")
        for number in range(2)
    ]

    items = await crawl(*requests)

    leases = {name: {item["lease"] for item in items if name in item["url"]} for name in ("ann", "bob")}
    assert [len(found) for found in leases.values()] == [1, 1]
    assert leases["ann"] != leases["bob"]
    assert set((await fleet.active_leases()).values()) == {0}


async def test_a_request_without_a_lease_fails_and_never_leaves_directly(
    fleet: Fleet, shop: Shop, crawl: Crawl
) -> None:
    settings = {"EGRESS_PROXIES_SELECTOR": {"geo": "nowhere"}, "EGRESS_PROXIES_WAIT_SECONDS": 0}
    [item] = await crawl({"url": shop.url("/page")}, **settings)
    assert item == {"url": shop.url("/page"), "error": "NoMatch"}
    assert shop.paths == []


async def test_a_setting_that_cannot_be_used_ends_the_crawl_instead_of_going_out_directly(
    shop: Shop, installed_client: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "EGRESS_PROXIES_URL": "http://api.test", "PYTHONPATH": str(installed_client)}
    crawl = Crawl(tmp_path, environment)
    ended = await crawl.run({"url": shop.url("/page")}, EGRESS_PROXIES_REPORTS={"429": "tired"})
    assert "EGRESS_PROXIES_REPORTS: 'tired' is none of ok, rate_limited" in ended.stderr
    assert shop.paths == []


def test_the_readme_shows_the_settings_that_are_tested() -> None:
    [block] = [block for block in code_blocks() if "DOWNLOADER_MIDDLEWARES" in block]
    shown: dict[str, Any] = {}
    exec(block, shown)
    assert Pages.custom_settings is not None
    assert shown["DOWNLOADER_MIDDLEWARES"] == Pages.custom_settings["DOWNLOADER_MIDDLEWARES"]


def test_the_client_itself_loads_neither_scrapy_nor_twisted() -> None:
    program = "import sys, egress_proxies_client; sys.exit(bool({'scrapy', 'twisted'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(CLIENT)}, check=True)
