"""What an administrator sees and does beside the provider."""

from dataclasses import dataclass
from typing import Any

from model.names import instance_name
from model.proxy import Placement
from providers.contract import CreateRequest
from tests.providers.kubernetes.relay import Relay


@dataclass(frozen=True)
class Namespace:
    """One namespace of the real API server."""

    relay: Relay
    name: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.name}"

    def request(self, uid: str = "uid-a", **changes: Any) -> CreateRequest:
        values: dict[str, Any] = {
            "name": instance_name(uid),
            "uid": uid,
            "installation": "ours",
            "namespace": self.name,
            "proxy_name": "one",
            "placement": Placement(),
            "port": 3128,
            "spec_hash": "v1-a",
        }
        return CreateRequest(**{**values, **changes})

    async def pod(self, name: str) -> dict[str, Any]:
        """Return the Pod, {} when there is none."""
        return await self.relay.admin("GET", f"{self.path}/pods/{name}")

    async def patch(self, name: str, **metadata: Any) -> None:
        await self.relay.admin("PATCH", f"{self.path}/pods/{name}", {"metadata": metadata})

    async def set_status(self, name: str, status: dict[str, Any]) -> None:
        await self.relay.admin("PATCH", f"{self.path}/pods/{name}/status", {"status": status})

    async def add(self, kind: str, body: dict[str, Any], group: str = "/api/v1") -> dict[str, Any]:
        """Create an object of a kind in the namespace."""
        return await self.relay.admin("POST", f"{group}/namespaces/{self.name}/{kind}", body)
