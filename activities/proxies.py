"""Reads and writes of the Proxy object."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable

from temporalio import activity
from temporalio.exceptions import ApplicationError

from cluster.errors import ObjectConflictError
from cluster.events import EventWriter
from cluster.proxies import ProxyStore
from cluster.secrets import CloudInitError, CloudInitReader, ResolvedCloudInit
from model import messages, names
from model.errors import cut
from model.fingerprint import fingerprint
from model.proxy import Placement, Proxy
from model.spec_hash import spec_hash
from providers.registry import ProviderRegistry

_KEPT_ANNOTATIONS = (
    names.ANNOTATION_SPEC_HASH,
    names.ANNOTATION_SKIP_CLEANUP,
    names.ANNOTATION_RETRY,
    names.ANNOTATION_ROTATE,
)
_ANNOTATION_LIMIT = 128


class ProxyActivities:
    """Activities of the control queue that touch the object."""

    def __init__(
        self,
        store: ProxyStore,
        cloud_init: CloudInitReader,
        registry: ProviderRegistry,
        *,
        events: EventWriter,
        has_search_attributes: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare to work.

        Args:
            store: The Proxies.
            cloud_init: Reads their cloud-init.
            registry: The configured providers.
            events: Writes Kubernetes Events.
            has_search_attributes: Whether Temporal knows the search attributes of Proxies now.
        """
        self._store = store
        self._cloud_init = cloud_init
        self._registry = registry
        self._events = events
        self._has_search_attributes = has_search_attributes

    @activity.defn
    async def read_proxy(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        """Return the object, the hash of what it asks for, and where its provider is served."""
        proxy = await self._store.get(reference.namespace, reference.name)
        if proxy is None:
            return messages.ProxyReading()
        resolved, error = ResolvedCloudInit(), ""
        if proxy.spec.managed:
            try:
                resolved = await self._cloud_init.read(proxy)
            except CloudInitError as refusal:
                resolved, error = ResolvedCloudInit(secret_version=refusal.secret_version), str(refusal)
        return messages.ProxyReading(
            proxy=without_secrets(proxy),
            spec_hash="" if error else spec_hash(proxy.spec, resolved.text),
            cloud_init_error=error,
            route=await self._route(proxy),
            fingerprint=fingerprint(proxy, resolved.secret_version),
            search_attributes=self._has_search_attributes(),
        )

    async def _route(self, proxy: Proxy) -> messages.ProviderRoute | None:
        entry = await self._registry.entry(proxy.spec.provider) if proxy.spec.managed else None
        if entry is None:
            return None
        return messages.ProviderRoute(
            task_queue=entry.task_queue, probe_task_queue=entry.probe_task_queue, entry_hash=entry.entry_hash
        )

    @activity.defn
    async def add_finalizer(self, reference: messages.ProxyReference) -> messages.ProxyReading:
        """Put our finalizer on, unless the object is gone, recreated or being deleted, and read what is there then."""
        with contextlib.suppress(ObjectConflictError):
            await self._store.add_finalizer(reference.namespace, reference.name, reference.uid)
        return await self.read_proxy(reference)

    @activity.defn
    async def release_finalizers(self, reference: messages.ProxyReference) -> bool:
        """Take our finalizers off; an object that is gone is success."""
        await self._store.release(reference.namespace, reference.name, reference.uid)
        return True

    @activity.defn
    async def record_spec_hash(self, write: messages.SpecHashWrite) -> bool:
        """Write the spec-hash annotation; False when the object is gone or was recreated."""
        reference = write.reference
        try:
            await self._store.record_spec_hash(reference.namespace, reference.name, reference.uid, write.spec_hash)
        except ObjectConflictError:
            return False
        return True

    @activity.defn
    async def write_status(self, write: messages.StatusWrite) -> bool:
        """Replace the status, and write what that means to a human; False when the object is gone or was recreated."""
        reference = write.reference
        try:
            await self._store.write_status(reference.namespace, reference.name, reference.uid, write.status)
        except ObjectConflictError:
            return False
        if write.events:
            info = activity.info()
            await self._events.write(reference, write.events, f"{info.workflow_run_id}/{info.activity_id}")
        return True


def without_secrets(proxy: Proxy) -> Proxy:
    """Return the object as it may enter a history: without cloud-init, and with our annotations only.

    kubectl keeps a copy of the whole object in an annotation, inline cloud-init included. The placement is left out for
    its size: workflows know its hash, and whoever creates an instance reads the object.
    """
    annotations = {key: _short(proxy.annotations[key]) for key in _KEPT_ANNOTATIONS if key in proxy.annotations}
    spec = dataclasses.replace(proxy.spec, cloud_init=None, placement=Placement())
    return dataclasses.replace(proxy, annotations=annotations, spec=spec)


def _short(value: str) -> str:
    """Return a value in at most ``_ANNOTATION_LIMIT`` bytes; long ones end in a hash, so that no two become equal."""
    if len(value.encode("utf-8", "replace")) <= _ANNOTATION_LIMIT:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{cut(value, _ANNOTATION_LIMIT - 33)}#{digest}"


def object_changed(reference: messages.ProxyReference, why: str, tries: int) -> ApplicationError:
    """Return the failure of a step that was decided for an object that is not so any more; this try is the last."""
    return ApplicationError(
        f"{reference.namespace}/{reference.name}: {why}",
        "",
        tries,
        type="ObjectChanged",
        non_retryable=True,
    )
