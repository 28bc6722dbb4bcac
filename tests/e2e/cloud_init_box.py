"""A provider type for tests: the real box, which takes cloud-init and keeps what it was given."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from model.instance import Instance
from providers import types
from providers.contract import CreateRequest, Provider
from providers.local.provider import LocalProvider
from providers.local.settings import LocalSettings
from providers.local.settings import parse_settings as parse_local_settings
from tests.e2e.system import System

TYPE = "cloudinit"

received: dict[str, dict[str, str | None]] = defaultdict(dict)
"""State folder to incarnation to the user-data that it was made with."""


def register(patch: pytest.MonkeyPatch, system: System) -> dict[str, Any]:
    """Make the type known to workers of this process and return a providers entry."""
    patch.setitem(types.PROVIDER_PACKAGES, TYPE, __name__)
    return {"name": "box", "type": TYPE, TYPE: system.local_provider("box")["local"]}


def parse_settings(block: Mapping[str, Any], place: str) -> LocalSettings:
    return parse_local_settings(block, place)


def create_provider(name: str, settings: LocalSettings) -> Provider:
    return CloudInitBox(name, settings)


class CloudInitBox(LocalProvider):
    """The box, with user-data."""

    def __init__(self, name: str, settings: LocalSettings) -> None:
        super().__init__(name, settings)
        self._received = received[str(settings.state_dir)]

    async def create(self, request: CreateRequest) -> Instance:
        instance = await super().create(dataclasses.replace(request, cloud_init=None))
        self._received.setdefault(instance.incarnation, request.cloud_init)
        return instance
