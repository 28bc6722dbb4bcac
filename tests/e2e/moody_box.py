"""A provider type for tests: the real box, which takes cloud-init and now and then refuses our credentials.

Register it in the test's own process; it refuses while the file ``refuse`` is in the state folder.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from model.errors import AccessDeniedError
from model.instance import Instance
from model.provider_health import REACHABLE, UNAUTHORIZED, TargetHealth
from providers import types
from providers.contract import Checker, CreateRequest, Provider
from providers.local.provider import LocalProvider
from providers.local.settings import LocalSettings
from providers.local.settings import parse_settings as parse_local_settings
from tests.e2e.system import System

TYPE = "moody"


def register(patch: pytest.MonkeyPatch) -> None:
    """Make the type known to workers of this process."""
    patch.setitem(types.PROVIDER_PACKAGES, TYPE, __name__)


def moody_provider(system: System, name: str) -> dict[str, Any]:
    """Return a providers entry."""
    return {"name": name, "type": TYPE, TYPE: system.local_provider(name)["local"]}


def parse_settings(block: Mapping[str, Any], place: str) -> LocalSettings:
    return parse_local_settings(block, place)


def create_provider(name: str, settings: LocalSettings) -> Provider:
    return MoodyBox(name, settings)


class MoodyBox(Provider, Checker):
    """The box with moods."""

    def __init__(self, name: str, settings: LocalSettings) -> None:
        self._box = LocalProvider(name, settings)
        self._refusal = settings.state_dir / "refuse"

    def _login(self) -> None:
        if self._refusal.exists():
            raise AccessDeniedError("the box does not know us")

    async def create(self, request: CreateRequest) -> Instance:
        self._login()
        return await self._box.create(dataclasses.replace(request, cloud_init=None))

    async def find(self, name: str) -> Instance | None:
        self._login()
        return await self._box.find(name)

    async def get(self, provider_id: str) -> Instance:
        self._login()
        return await self._box.get(provider_id)

    async def delete(self, provider_id: str, incarnation: str) -> None:
        self._login()
        await self._box.delete(provider_id, incarnation)

    async def list_managed(self) -> list[Instance]:
        self._login()
        return await self._box.list_managed()

    async def check(self) -> list[TargetHealth]:
        refuses = self._refusal.exists()
        return [TargetHealth(name="box", ready=not refuses, reason=UNAUTHORIZED if refuses else REACHABLE)]

    async def close(self) -> None:
        await self._box.close()
