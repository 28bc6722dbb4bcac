"""The providers file of the embedded stack: one ``local`` provider per proxy software that is there."""

import importlib.util
from pathlib import Path

import yaml

from providers.local.software import find_squid

PROXY_PY = "proxy-py"
SQUID = "squid"
_ADDRESSES = {SQUID: "127.0.1.0/24", PROXY_PY: "127.0.2.0/24"}


def write_providers(state_directory: Path) -> Path:
    """Write the file and return its path; state folders of the providers lie beside it."""
    software = {SQUID: "squid", PROXY_PY: "proxy.py"}
    if find_squid() is None:
        del software[SQUID]
    if importlib.util.find_spec("proxy") is None:
        del software[PROXY_PY]
    providers = [
        {
            "name": name,
            "type": "local",
            "local": {
                "software": kind,
                "addresses": [_ADDRESSES[name]],
                "stateDir": str((state_directory / "proxies" / name).resolve()),
            },
        }
        for name, kind in software.items()
    ]
    path = state_directory / "providers.yaml"
    path.write_text(yaml.safe_dump({"providers": providers}, sort_keys=False))
    return path


def state_directories(providers_config: Path) -> list[Path]:
    """Return the state folder of every ``local`` provider in a file."""
    document = yaml.safe_load(providers_config.read_text()) or {}
    entries = document.get("providers") or []
    return [Path(entry["local"]["stateDir"]) for entry in entries if entry.get("type") == "local"]
