"""The path of the README: from kubectl apply to a page fetched through a leased proxy, and back to nothing."""

import asyncio
import ssl
from typing import Any

import aiohttp

from tests.e2e.polling import eventually
from tests.e2e.system import TOKEN, System, condition
from tests.probing.certificates import Authority
from tests.probing.servers import Origin, ScriptedServer, relay


async def fetch(proxy: dict[str, Any], url: str, trust: ssl.SSLContext) -> str:
    """Fetch a page over CONNECT."""
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        session.get(url, proxy=f"http://{proxy['ip']}:{proxy['port']}", ssl=trust) as answer,
    ):
        assert answer.status == 200
        return await answer.text()


async def test_three_kinds_of_proxies_become_ready_are_leased_and_go(
    system: System, site: Origin, check: dict[str, object], e2e_authority: Authority
) -> None:
    elsewhere = ScriptedServer(relay)
    system.write_providers(
        system.local_provider("squid", software="squid"), system.local_provider("python", software="proxy.py")
    )
    system.start_all()
    specs: dict[str, dict[str, Any]] = {
        "by-squid": {"mode": "Managed", "provider": "squid", "attributes": {"kind": "squid"}},
        "by-python": {"mode": "Managed", "provider": "python", "attributes": {"kind": "python"}},
        "external": {"mode": "External", "endpoint": {"host": "127.0.0.1", "port": elsewhere.port}},
    }
    for name, spec in specs.items():
        await system.apply(name, {**spec, "healthCheck": check, "maxLeases": 2})
    objects = {name: await system.wait_ready(name) for name in specs}

    assert objects["external"]["metadata"].get("finalizers", []) == []
    assert objects["by-squid"]["metadata"]["finalizers"] == ["crawl.example.com/finalizer"]
    for name in ("by-squid", "by-python"):
        assert objects[name]["status"]["phase"] == "Ready"
        assert len(system.processes_of(objects[name]["metadata"]["uid"])) == 1
    assert condition(objects["external"], "Provisioned")["reason"] == "External"
    listed = await eventually(system.list_proxies, lambda found: all(view["healthy"] for view in found.values()))
    assert sorted(listed) == sorted(specs)

    async with system.crawler() as crawler:
        wish = {"selector": {"kind": "squid"}, "target": "example.com", "ttlSeconds": 60}
        async with crawler.post("/v1/leases", json=wish) as answer:
            assert answer.status == 201
            lease = await answer.json()
        assert lease["proxy"]["id"] == f"{system.kubectl.namespace}/by-squid"
        assert lease["proxy"]["activeLeases"] == 1
        assert await fetch(lease["proxy"], site.url, e2e_authority.trust()) == "<h1>a page</h1>"

        async with crawler.post(f"/v1/leases/{lease['leaseID']}/report", json={"result": "rate_limited"}) as answer:
            assert answer.status == 204
        async with crawler.post("/v1/leases", json=wish) as answer:
            assert answer.status == 409
            refusal = await answer.json()
        assert refusal["error"] == "no_match"
        assert (refusal["considered"], refusal["inCooldown"]) == (1, 1)
        async with crawler.delete(f"/v1/leases/{lease['leaseID']}") as answer:
            assert answer.status == 204
        assert (await system.list_proxies())["by-squid"]["activeLeases"] == 0

    await system.kubectl.acall("delete", "px", "--all", "--timeout=30s")
    for name in specs:
        assert await system.get(name) == {}
        assert system.processes_of(objects[name]["metadata"]["uid"]) == []
    await eventually(system.list_proxies, lambda found: found == {})
    elsewhere.close()


async def test_a_wrong_token_is_refused(system: System) -> None:
    system.start_worker()
    system.start_api()
    await eventually(lambda: _status(system, f"Bearer {TOKEN}"), lambda status: status == 200)
    assert await _status(system, "Bearer wrong") == 401


async def _status(system: System, authorization: str) -> int:
    try:
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{system.api_port}") as session,
            session.get("/v1/proxies", headers={"Authorization": authorization}) as answer,
        ):
            return answer.status
    except aiohttp.ClientConnectionError:
        await asyncio.sleep(0)
        return 0
