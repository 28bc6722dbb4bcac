"""What a provider's queue serves: find, create, wait for and remove instances."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.errors import provider_errors_as_failures
from activities.heartbeats import heartbeating
from activities.proxies import object_changed
from activities.tries import Tries
from cluster.proxies import ProxyStore
from cluster.secrets import CloudInitReader
from model import messages, names
from model.errors import NameTakenError, NotFoundError, PermanentError, clean_message
from model.instance import Instance, InstanceState
from model.proxy import Proxy
from model.spec_hash import is_comparable, spec_hash
from providers.contract import CreateRequest, Provider
from providers.registry import ProviderRegistry

_AWAIT_QUICKLY_SECONDS = 20.0
_AWAIT_PAUSE_SECONDS = 0.1
_AWAIT_LATER = timedelta(seconds=10)
_MESSAGE_LATER = timedelta(minutes=5)
_GONE_WAIT_SECONDS = 20.0


class InstanceActivities:
    """Activities over the providers that this worker serves."""

    def __init__(
        self, registry: ProviderRegistry, store: ProxyStore, cloud_init: CloudInitReader, installation: str
    ) -> None:
        self._registry = registry
        self._store = store
        self._cloud_init = cloud_init
        self._installation = installation

    @activity.defn
    async def look_for_instance(self, query: messages.InstanceQuery) -> messages.InstanceAnswer:
        """Return the instance of a Proxy: the one on record, else whatever an earlier attempt left under its name."""
        entry_hash = await self._entry_hash(query.provider)
        async with heartbeating(), provider_errors_as_failures(entry_hash):
            provider = await self._registry.get(query.provider)
            instance = await _find(provider, query.provider_id, query.uid)
            if instance is not None:
                self._check_ours(instance, query.uid)
                instance = await self._marked(provider, instance)
            return _answer(instance, entry_hash)

    @activity.defn
    async def create_instance(self, create: messages.CreateInstance) -> messages.InstanceAnswer:
        """Make the instance from the spec as it is now, or adopt what is there.

        The object is read here, not handed over: cloud-init must not enter a history, and the spec may have changed
        since the step was decided. The instance is marked with the hash of what it is really made from.

        Temporal retries it without end: while there is no turn (``maxConcurrentCreates``), it fails for some seconds
        instead of waiting in a slot of its queue. It counts its real tries itself and gives up after three.
        """
        entry_hash = await self._entry_hash(create.provider)
        tries = Tries()
        async with heartbeating(lambda: tries.details), provider_errors_as_failures(entry_hash, tries=tries):
            provider = await self._registry.get(create.provider)
            proxy = await self._current(create.reference)
            if proxy is None or proxy.deleting or proxy.spec.paused:
                why = "gone, recreated, paused or being deleted; nothing was created"
                raise object_changed(create.reference, why, tries.number)
            cloud_init = await self._cloud_init.read(proxy)
            instance = await provider.create(
                CreateRequest(
                    name=names.instance_name(proxy.uid),
                    uid=proxy.uid,
                    installation=self._installation,
                    namespace=proxy.namespace,
                    proxy_name=proxy.name,
                    placement=proxy.spec.placement,
                    cloud_init=cloud_init.text,
                    port=proxy.spec.port,
                    spec_hash=spec_hash(proxy.spec, cloud_init.text),
                )
            )
            instance = await self._marked(provider, instance, proxy.annotations.get(names.ANNOTATION_SPEC_HASH, ""))
            return _answer(instance, entry_hash)

    @activity.defn
    async def await_instance(self, query: messages.InstanceQuery) -> messages.InstanceAnswer:
        """Return once the instance runs, stopped or is gone; until then the activity is retried, without history.

        What the provider says about one that is long in coming is news too, the first time after 20 s, later every five
        minutes at most, so that a message that keeps changing fills no history.
        """
        entry_hash = await self._entry_hash(query.provider)
        seconds = _AWAIT_QUICKLY_SECONDS if activity.info().attempt == 1 else 0.0
        async with heartbeating(), provider_errors_as_failures(entry_hash, retry=False):
            provider = await self._registry.get(query.provider)
            answers: list[Instance | None] = []

            async def settled() -> bool:
                answers.append(await _get(provider, query.provider_id))
                return answers[-1] is None or answers[-1].state is not InstanceState.COMING

            is_settled = await _poll(settled, seconds)
            answer = _answer(answers[-1], entry_hash)
            detail = answer.instance.message if answer.instance is not None else ""
            if not is_settled and not _is_news(detail, query.known_message):
                raise _not_yet(f"{query.provider_id} is still coming. {detail}".rstrip())
            return answer

    @activity.defn
    async def remove_instance(self, remove: messages.RemoveInstance) -> bool:
        """Delete one incarnation and prove it gone; False when the object, read once more, no longer asks for it."""
        reference = remove.reference
        proxy = await self._current(reference)
        alive = proxy is not None and not proxy.deleting
        if alive is not remove.replacing or (proxy is not None and proxy.is_paused):
            return False
        async with heartbeating(), provider_errors_as_failures(await self._entry_hash(remove.provider)):
            provider = await self._registry.get(remove.provider)

            async def gone() -> bool:
                await provider.delete(remove.provider_id, remove.incarnation)
                try:
                    left = await _get(provider, remove.provider_id)
                except PermanentError:
                    # It can never be asked for, and its deletion was taken: that is all that can be known.
                    return True
                return left is None or (bool(remove.incarnation) and left.incarnation != remove.incarnation)

            if not await _poll(gone, _GONE_WAIT_SECONDS):
                raise _still_there(remove.provider_id)
        return True

    @activity.defn
    async def unmark_instance(self, unmark: messages.UnmarkInstance) -> bool:
        """Take our marks off an abandoned incarnation; False where that cannot be done or is not wanted any more.

        Without marks nothing lists, adopts or collects it again. One that is gone has none left.
        """
        reference = unmark.reference
        proxy = await self._current(reference)
        if proxy is not None and not (proxy.deleting and proxy.skips_cleanup):
            return False
        async with heartbeating(), provider_errors_as_failures(await self._entry_hash(unmark.provider)):
            provider = await self._registry.get(unmark.provider)
            editor = provider.mark_editor
            if editor is None:
                return False
            instance = await _find(provider, unmark.provider_id, reference.uid)
            if instance is None:
                return True
            if unmark.incarnation not in ("", instance.incarnation) or not self._is_ours(instance, reference.uid):
                return False
            await editor.remove_marks(instance.provider_id, instance.incarnation)
            return True

    async def _marked(self, provider: Provider, instance: Instance, recorded_hash: str = "") -> Instance:
        """Return the instance, ours by its uid, with our marks on it where the backend lets them be written.

        Args:
            provider: Where it is.
            instance: What was found or adopted.
            recorded_hash: What the object says it was made from; one without a version was written by the reference.
        """
        editor = provider.mark_editor
        if instance.installation or editor is None:
            return instance
        known_hash = instance.spec_hash or (recorded_hash if is_comparable(recorded_hash) else "")
        try:
            await editor.write_marks(instance.provider_id, instance.incarnation, self._installation, known_hash)
        except NotFoundError:
            # It went away meanwhile; whoever looks next is told so.
            return instance
        return dataclasses.replace(instance, installation=self._installation, spec_hash=known_hash)

    async def _current(self, reference: messages.ProxyReference) -> Proxy | None:
        """Return the object, if it is still the one that is meant."""
        proxy = await self._store.get(reference.namespace, reference.name)
        return proxy if proxy is not None and proxy.uid == reference.uid else None

    async def _entry_hash(self, provider: str) -> str:
        entry = await self._registry.entry(provider)
        return entry.entry_hash if entry is not None else ""

    def _check_ours(self, instance: Instance, uid: str) -> None:
        if self._is_ours(instance, uid):
            return
        raise NameTakenError(
            f"{instance.provider_id} carries the marks of uid {instance.uid or 'none'} "
            f"and installation {instance.installation or 'none'}; it is left alone"
        )

    def _is_ours(self, instance: Instance, uid: str) -> bool:
        return instance.uid == uid and instance.installation in ("", self._installation)


async def _find(provider: Provider, provider_id: str, uid: str) -> Instance | None:
    """Return the instance of that id, else the one under the uid's name."""
    instance = await _get(provider, provider_id) if provider_id else None
    return instance if instance is not None else await provider.find(names.instance_name(uid))


def _answer(instance: Instance | None, entry_hash: str) -> messages.InstanceAnswer:
    """Return what the provider knows, with its message as it may be shown."""
    if instance is not None:
        instance = dataclasses.replace(instance, message=clean_message(instance.message))
    return messages.InstanceAnswer(instance=instance, entry_hash=entry_hash)


def _is_news(message: str, known: str) -> bool:
    """Whether the running wait is old enough for another message to end it."""
    waited = datetime.now(UTC) - activity.info().scheduled_time
    return message != known and (not known or waited >= _MESSAGE_LATER)


async def _get(provider: Provider, provider_id: str) -> Instance | None:
    try:
        return await provider.get(provider_id)
    except NotFoundError:
        return None


async def _poll(done: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Ask at once, then with growing pauses for so many seconds; True as soon as it is so."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pause = _AWAIT_PAUSE_SECONDS
    while True:
        if await done():
            return True
        if loop.time() + pause > deadline:
            return False
        await asyncio.sleep(pause)
        pause = min(2.0, pause * 1.3)


def _not_yet(message: str) -> ApplicationError:
    return ApplicationError(
        message,
        type="StillComing",
        next_retry_delay=_AWAIT_LATER,
        category=ApplicationErrorCategory.BENIGN,
    )


def _still_there(provider_id: str) -> ApplicationError:
    return ApplicationError(
        f"{provider_id} is still being deleted",
        type="StillThere",
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )
