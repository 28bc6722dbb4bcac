"""The ``kubernetes`` provider: one Pod with squid per instance, and no other object."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from model import names
from model.errors import NameTakenError, NotFoundError, TransientError
from model.instance import Instance
from model.provider_health import TargetHealth
from providers.contract import Checker, CreateRequest, MarkEditor, Provider
from providers.kubernetes import identifiers, pod_spec
from providers.kubernetes.api_errors import CONFLICT, ApiError, RefusedError, provider_error
from providers.kubernetes.checking import check_api_server
from providers.kubernetes.connection import REQUEST_TIMEOUT_SECONDS, ApiServer
from providers.kubernetes.credentials import Credentials
from providers.kubernetes.observation import Pod, instance_from_pod, is_going
from providers.kubernetes.pods import Pods, proxy_exists
from providers.kubernetes.settings import KubernetesSettings

_ALL_MARKS = (names.MARK_MANAGED, names.MARK_UID, names.MARK_INSTALLATION, names.MARK_SPEC_HASH)


class KubernetesProvider(Provider, Checker, MarkEditor):
    """Runs each instance as a Pod; see ``providers.contract`` for what each method holds.

    ``spec.placement`` and ``spec.cloudInit`` do not apply to a Pod and are ignored. The incarnation is the Pod's uid.

    A Pod that is being deleted counts as stopped until its node has confirmed that it ended. Where the node is lost for
    good, that never comes by itself: the Pod is not removed by force, for its proxy may still run there.

    Args:
        settings: Where Pods are made, and of what.
        timeout: Seconds for one request to the API server.
    """

    def __init__(self, settings: KubernetesSettings, timeout: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._settings = settings
        self._server = ApiServer(Credentials(settings.kubeconfig, settings.context), timeout)
        self._pods = Pods(self._server, settings.namespace)

    async def create(self, request: CreateRequest) -> Instance:
        """Create the Pod in the configured namespace, else in its Proxy's, or adopt the one that is there.

        Raises:
            NameTakenError: The Pod of that name carries another uid or installation.
            QuotaExceededError: The namespace's quota is used up.
            PermanentError: No Pod can be made from the request or the settings, or there is no such namespace.
            AccessDeniedError: The API server refused our credentials.
            TransientError: The earlier Pod is still going away, or the API server cannot be used now.
        """
        pod_spec.check_request(request)
        namespace = self._settings.namespace or request.namespace
        # First a look: where a quota is used up, a create is refused before it is told that the name is there.
        pod = await self._get(namespace, request.name)
        if pod is None:
            pod = await self._create(namespace, request)
        if pod is None:
            pod = await self._get(namespace, request.name)
        if pod is None:
            raise TransientError(f"Pod {namespace}/{request.name} was there and is gone; call again")
        return await self._adopted(pod, request)

    async def find(self, name: str) -> Instance | None:
        """Return the Pod of that name; without a configured namespace it is looked for in all.

        Raises:
            AccessDeniedError: The API server refused our credentials.
            TransientError: The API server cannot be used now.
        """
        namespace = self._settings.namespace
        if namespace:
            pod = await self._get(namespace, name)
            return _instance(pod) if pod is not None else None
        with _errors_of_the_contract():
            pods = await self._pods.list_named(name)
        # A name is made of the uid: a Pod with another mark or none is a stranger's, elsewhere and in nobody's way.
        own = [one for one in map(_instance, pods) if names.instance_name(one.uid) == name]
        instances = sorted(own, key=lambda one: (one.created_at, one.provider_id))
        return instances[0] if instances else None

    async def get(self, provider_id: str) -> Instance:
        """Return the Pod.

        Raises:
            NotFoundError: It is gone.
            PermanentError: The id is malformed.
            AccessDeniedError: The API server refused our credentials.
            TransientError: The API server cannot be used now.
        """
        pod = await self._get(*identifiers.parse(provider_id))
        if pod is None:
            raise NotFoundError(f"Pod {provider_id} is gone")
        return _instance(pod)

    async def delete(self, provider_id: str, incarnation: str) -> None:
        """Delete the Pod; one that is being deleted already, and soon, is left to its node.

        Raises:
            PermanentError: The id is malformed.
            AccessDeniedError: The API server refused our credentials.
            TransientError: The API server cannot be used now.
        """
        namespace, name = identifiers.parse(provider_id)
        pod = await self._get(namespace, name)
        if pod is None or _is_soon_gone(pod) or incarnation not in ("", pod["metadata"]["uid"]):
            return
        with _errors_of_the_contract():
            await self._pods.delete(namespace, name, pod["metadata"]["uid"], pod_spec.GRACE_SECONDS)

    async def list_managed(self) -> list[Instance]:
        """Return every Pod with our managed mark in the configured namespace, else in all.

        Raises:
            AccessDeniedError: The API server refused our credentials.
            TransientError: The API server cannot be used now.
        """
        with _errors_of_the_contract():
            pods = await self._pods.list_managed()
        return [_instance(pod) for pod in pods]

    async def check(self) -> list[TargetHealth]:
        """Return one verdict: the API server answers and lets us do with Pods what the other methods do."""
        return [await check_api_server(self._server, self._settings.namespace)]

    async def write_marks(self, provider_id: str, incarnation: str, installation: str, spec_hash: str) -> None:
        """Write the marks as labels.

        Raises:
            NotFoundError: There is no such incarnation.
            PermanentError: The id is malformed.
            AccessDeniedError: The API server refused our credentials.
            TransientError: The API server cannot be used now.
        """
        wanted = {names.MARK_MANAGED: names.MARK_MANAGED_VALUE, names.MARK_INSTALLATION: installation}
        if spec_hash:
            wanted[names.MARK_SPEC_HASH] = spec_hash

        def missing(pod: Pod) -> Mapping[str, Any] | None:
            return {"labels": wanted} if wanted.items() - _labels(pod).items() else None

        namespace, name = identifiers.parse(provider_id)
        with _errors_of_the_contract():
            pod = await self._pods.change(namespace, name, incarnation, missing)
        if pod is None:
            raise NotFoundError(f"incarnation {incarnation} of {provider_id} is gone")

    async def remove_marks(self, provider_id: str, incarnation: str) -> None:
        """Take the marks off, and the reference to the Proxy, with which Kubernetes would collect the Pod.

        Raises:
            PermanentError: The id is malformed.
            AccessDeniedError: The API server refused our credentials.
            TransientError: The API server cannot be used now.
        """
        namespace, name = identifiers.parse(provider_id)
        with _errors_of_the_contract():
            await self._pods.change(namespace, name, incarnation, _without_marks)

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    async def _get(self, namespace: str, name: str) -> Pod | None:
        with _errors_of_the_contract():
            return await self._pods.get(namespace, name)

    async def _create(self, namespace: str, request: CreateRequest) -> Pod | None:
        """Create the Pod; None means that the name was taken in this moment."""
        with _errors_of_the_contract(creating=True):
            # An owner that this API server does not have would get the Pod collected at once.
            owned = namespace == request.namespace and await proxy_exists(
                self._server, request.namespace, request.proxy_name, request.uid
            )
            try:
                return await self._pods.create(namespace, pod_spec.build_pod(request, self._settings, owned=owned))
            except RefusedError as error:
                if error.code == CONFLICT and error.reason == "AlreadyExists":
                    return None
                raise

    async def _adopted(self, pod: Pod, request: CreateRequest) -> Instance:
        """Return the Pod that is there as an instance of ours, with our marks on it.

        Raises:
            NameTakenError: It is somebody else's.
            TransientError: It is going away.
        """
        _check_ours(pod, request)
        # Somebody may have taken off by hand what lists are made by.
        wanted = {names.MARK_MANAGED: names.MARK_MANAGED_VALUE, names.MARK_INSTALLATION: request.installation}
        if wanted.items() <= _labels(pod).items():
            return _instance(pod)

        def ours(current: Pod) -> Mapping[str, Any] | None:
            _check_ours(current, request)
            return {"labels": wanted}

        metadata = pod["metadata"]
        with _errors_of_the_contract():
            marked = await self._pods.change(metadata["namespace"], metadata["name"], metadata["uid"], ours)
        if marked is None:
            raise TransientError(f"Pod {request.name} went away while it was adopted; call again")
        return _instance(marked)


def create_provider(name: str, settings: KubernetesSettings) -> Provider:
    """Return the provider of a config entry; nothing is read or sent before the first call."""
    return KubernetesProvider(settings)


def _check_ours(pod: Pod, request: CreateRequest) -> None:
    labels, metadata = _labels(pod), pod["metadata"]
    where = f"Pod {metadata['namespace']}/{metadata['name']}"
    uid, installation = labels.get(names.MARK_UID, ""), labels.get(names.MARK_INSTALLATION, "")
    if uid != request.uid:
        raise NameTakenError(f"{where} belongs to uid {uid or 'nobody (no mark)'}; delete it by hand or let it be")
    if installation not in ("", request.installation):
        raise NameTakenError(f"{where} belongs to installation {installation}, not to {request.installation}")
    if is_going(pod):
        raise TransientError(f"{where}: an earlier instance of that name is still going away")


def _without_marks(pod: Pod) -> Mapping[str, Any] | None:
    marked = [mark for mark in _ALL_MARKS if mark in _labels(pod)]
    owners = pod["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if not _is_proxy(owner)]
    if not marked and others == owners:
        return None
    return {"labels": dict.fromkeys(marked), "ownerReferences": others}


def _is_proxy(owner: Mapping[str, Any]) -> bool:
    return owner.get("kind") == "Proxy" and str(owner.get("apiVersion")).startswith(f"{names.GROUP}/")


def _labels(pod: Pod) -> Mapping[str, str]:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return labels


def _is_soon_gone(pod: Pod) -> bool:
    """Whether the Pod is being deleted with no more grace than ours; somebody may have given it hours by hand."""
    return is_going(pod) and int(pod["metadata"].get("deletionGracePeriodSeconds") or 0) <= pod_spec.GRACE_SECONDS


def _instance(pod: Pod) -> Instance:
    with _errors_of_the_contract():
        return instance_from_pod(pod)


@contextlib.contextmanager
def _errors_of_the_contract(*, creating: bool = False) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        # What the library says of a failed connection is in the text; its causes may hold more than the text.
        raise provider_error(error, creating=creating) from None
