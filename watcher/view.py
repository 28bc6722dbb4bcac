"""What the watcher has seen and last told, object by object."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from model.fingerprint import fingerprint
from model.messages import Poke
from model.proxy import Proxy

Key = tuple[str, str]


@dataclass(kw_only=True)
class _Seen:
    proxy: Proxy
    told: str = ""


class FleetView:
    """The Proxies and the versions of the labelled Secrets, as of the last change.

    Every method that takes in a change returns the pokes it calls for; a change that no workflow cares about returns
    none.
    """

    def __init__(self) -> None:
        self._seen: dict[Key, _Seen] = {}
        self._secret_versions: dict[Key, str] = {}

    @property
    def keys(self) -> list[Key]:
        """Namespace and name of every Proxy."""
        return list(self._seen)

    def phases(self) -> Counter[str]:
        """Return the number of Proxies per phase; one without a phase counts as Pending."""
        # A copy, made at once: a scrape asks from another thread while the view changes.
        return Counter(seen.proxy.status.phase or "Pending" for seen in list(self._seen.values()))

    def see_proxy(self, proxy: Proxy) -> list[Poke]:
        """Take in a Proxy as it is now."""
        key = (proxy.namespace, proxy.name)
        seen = self._seen.setdefault(key, _Seen(proxy=proxy))
        seen.proxy = proxy
        return self._pokes([key])

    def lose_proxy(self, key: Key) -> list[Poke]:
        """Take in that a Proxy is gone."""
        seen = self._seen.pop(key, None)
        if seen is None:
            return []
        return [Poke(namespace=key[0], name=key[1], uid=seen.proxy.uid)]

    def keep_only(self, listed: set[Key]) -> list[Poke]:
        """Take in a complete listing: what it did not show is gone."""
        gone = [key for key in self._seen if key not in listed]
        return [poke for key in gone for poke in self.lose_proxy(key)]

    def see_secret(self, key: Key, version: str) -> list[Poke]:
        """Take in a labelled Secret; "" as its version means that it is gone."""
        if self._secret_versions.get(key, "") == version:
            return []
        if version:
            self._secret_versions[key] = version
        else:
            self._secret_versions.pop(key, None)
        return self._pokes(proxy_key for proxy_key, seen in self._seen.items() if _secret_key(seen.proxy) == key)

    def keep_only_secrets(self, listed: set[Key]) -> list[Poke]:
        """Take in a complete listing of Secrets."""
        gone = [key for key in self._secret_versions if key not in listed]
        return [poke for key in gone for poke in self.see_secret(key, "")]

    def without_counterpart(self, running: set[Key]) -> list[Poke]:
        """Compare with the running workflows, and poke what is on one side only."""
        orphaned = [Poke(namespace=key[0], name=key[1]) for key in sorted(running - self._seen.keys())]
        unattended = [self._poke(key) for key in self._seen if key not in running]
        return orphaned + unattended

    def _pokes(self, keys: Iterable[Key]) -> list[Poke]:
        pokes = []
        for key in keys:
            poke = self._poke(key)
            if poke.fingerprint != self._seen[key].told:
                self._seen[key].told = poke.fingerprint
                pokes.append(poke)
        return pokes

    def _poke(self, key: Key) -> Poke:
        proxy = self._seen[key].proxy
        secret = _secret_key(proxy)
        version = self._secret_versions.get(secret, "") if secret is not None else ""
        return Poke(namespace=proxy.namespace, name=proxy.name, uid=proxy.uid, fingerprint=fingerprint(proxy, version))


def _secret_key(proxy: Proxy) -> Key | None:
    source = proxy.spec.cloud_init if proxy.spec.managed else None
    if source is None or not source.secret_name:
        return None
    return proxy.namespace, source.secret_name
