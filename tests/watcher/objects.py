"""Proxies as the watcher sees them."""

from typing import Any

from model import names
from model.proxy import CloudInit, Proxy, ProxySpec

KEY = ("ns", "one")


def proxy(name: str = "one", secret: str = "", spec: ProxySpec | None = None, **changes: Any) -> Proxy:
    cloud_init = CloudInit(secret_name=secret) if secret else None
    values: dict[str, Any] = {
        "namespace": "ns",
        "name": name,
        "uid": f"uid-{name}",
        "generation": 1,
        "finalizers": (names.FINALIZER,),
        "spec": spec or ProxySpec(mode="Managed", provider="box", cloud_init=cloud_init),
    }
    return Proxy(**(values | changes))
