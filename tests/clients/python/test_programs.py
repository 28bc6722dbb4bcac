"""The README's program and the examples, run as a user runs them, with the client as pip installs it."""

import re
from pathlib import Path

import httpx
import pytest

from tests.clients.python.conftest import CLIENT, Fleet
from tests.clients.python.programs import run_program
from tests.clients.python.shop import Shop

pytestmark = pytest.mark.timeout(180)


def code_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (CLIENT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def test_the_package_is_typed_and_says_its_license(installed_client: Path) -> None:
    assert (installed_client / "egress_proxies_client" / "py.typed").exists()
    [facts] = installed_client.glob("*.dist-info/METADATA")
    assert "License-Expression: Apache-2.0" in facts.read_text().splitlines()


async def test_the_program_of_the_readme_leases_crawls_and_releases_in_under_ten_lines(
    fleet: Fleet, shop: Shop, environment: dict[str, str]
) -> None:
    program = code_blocks()[0]
    assert len([line for line in program.splitlines() if line.strip()]) < 10
    shop.refusals = ["429 Too Many Requests"]
    urls = [shop.url("/"), shop.url("/about")]

    done = await run_program("-c", program, *urls, environment=environment)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"429 {urls[0]}", f"200 {urls[1]}"]
    assert set((await fleet.active_leases()).values()) == {0}
    async with fleet.system.crawler() as crawler:
        wish = {"target": "shop.example.com"}
        async with crawler.post("/v1/leases", json=wish) as answer:
            assert answer.status == 201
        async with crawler.post("/v1/leases", json=wish) as answer:
            refusal = await answer.json()
    assert (refusal["inCooldown"], refusal["atCapacity"]) == (1, 1)


async def test_the_httpx_example_fetches_a_refused_page_through_another_proxy(
    fleet: Fleet, shop: Shop, environment: dict[str, str]
) -> None:
    shop.refusals = ["429 Too Many Requests"]
    example = str(CLIENT / "examples" / "httpx_example.py")

    done = await run_program(example, shop.url("/page"), environment=environment)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(httpx.codes.OK), str(len("the page at /page")), shop.url("/page")]
    assert shop.paths == ["/page", "/page"]
    assert set((await fleet.active_leases()).values()) == {0}


async def test_the_aiohttp_example_crawls_each_site_through_a_proxy_of_its_own(
    fleet: Fleet, shop: Shop, environment: dict[str, str]
) -> None:
    urls = [shop.url("/a"), shop.url("/bb"), shop.url("/c", host="localhost")]
    example = str(CLIENT / "examples" / "aiohttp_example.py")

    done = await run_program(example, *urls, environment=environment)

    assert done.returncode == 0, done.stderr
    lengths = [len("the page at /a"), len("the page at /bb"), len("the page at /c")]
    wanted = [f"200 {length} {url}" for length, url in zip(lengths, urls, strict=True)]
    assert sorted(done.stdout.splitlines()) == sorted(wanted)
    assert set((await fleet.active_leases()).values()) == {0}
