import ssl
from pathlib import Path

import aiohttp
import pytest

from app.dev.origin import PAGE, https_origin


async def test_the_page_and_the_probe_are_served_to_who_trusts_the_authority(tmp_path: Path) -> None:
    async with https_origin(tmp_path / "origin") as origin, aiohttp.ClientSession() as session:
        tls = ssl.create_default_context(cafile=str(origin.authority))
        async with session.get(origin.url, ssl=tls) as page:
            assert await page.text() == f"{PAGE}It was fetched from 127.0.0.1.\n"
        async with session.get(origin.probe_url, ssl=tls) as probe:
            assert (probe.status, probe.headers["X-Exit-IP"]) == (204, "127.0.0.1")


async def test_nobody_else_trusts_it(tmp_path: Path) -> None:
    async with https_origin(tmp_path / "origin") as origin, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(origin.url, ssl=ssl.create_default_context())


async def test_its_keys_are_readable_for_their_owner_alone(tmp_path: Path) -> None:
    async with https_origin(tmp_path / "origin"):
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "origin").iterdir()}

    assert set(modes.values()) == {0o600}
    assert {"ca.crt", "server.pem"} <= set(modes)
