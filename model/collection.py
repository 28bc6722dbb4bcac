"""Which instances nobody owns: the rules of garbage collection, without any I/O.

Instances are listed **before** the Proxies: a Proxy exists before its instance is made, so an instance that was listed
and whose Proxy is missing in the later list has none. Everything else here guards against lists that lie.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from model.collection_messages import MOST_CANDIDATES, Findings, Orphan
from model.instance import Instance

CLOCK_MARGIN = timedelta(minutes=5)
"""By how much the clocks of a worker and of a backend may differ."""
_LONGEST_GAP = 2.5
"""In intervals, from one sweep to the next that may confirm its candidates."""


class Spared(StrEnum):
    """Why an instance is left alone."""

    FOREIGN = "foreign"
    """It carries the mark of another installation."""
    NO_UID = "no-uid"
    """It carries no uid, so nothing can be said of its owner."""
    NO_INCARNATION = "no-incarnation"
    """Nothing tells it from whatever takes its place, so that a delete could hit another."""
    LIVE = "live"
    """Its Proxy exists, one that is being deleted included."""
    UNMARKED = "unmarked"
    """It carries no installation mark."""
    YOUNG = "young"
    SEEN_ONCE = "seen-once"
    """It was not an orphan in the sweep before, or that was too long or too short a time ago."""
    OVER_THE_CAP = "over-the-cap"
    """The sweep deletes as many as it may without it."""


@dataclass(frozen=True, kw_only=True)
class LiveProxy:
    """What collection has to know of a Proxy that exists, be it that it is being deleted.

    Attributes:
        provider_id: Of the instance on record; "" while there is none.
        incarnation: Likewise.
    """

    namespace: str
    name: str
    provider: str
    provider_id: str = ""
    incarnation: str = ""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a sweep goes by.

    Attributes:
        installation: Ours.
        at: Time of the sweep.
        minimum_age: Younger instances are spared.
        collect_unmarked: Whether instances without an installation mark count as ours.
        previous_at: Time of the last complete sweep of this provider, or None.
        interval: Between sweeps.
    """

    installation: str
    at: datetime
    minimum_age: timedelta
    interval: timedelta
    collect_unmarked: bool = False
    previous_at: datetime | None = None

    @property
    def age_by_our_clock(self) -> timedelta:
        """The age from which an instance is surely older than the minimum by its backend's clock.

        The margin never exceeds the minimum itself: who asks for less than five minutes trusts the clocks.
        """
        return self.minimum_age + min(CLOCK_MARGIN, self.minimum_age)

    @property
    def previous_counts(self) -> bool:
        """Whether the sweep before is recent enough to confirm anything.

        A sweep that takes longer than an interval has the next one begin two intervals after it, and a little late. A
        time to come was told by a clock or a server that cannot be trusted.
        """
        if self.previous_at is None:
            return False
        return timedelta(0) <= self.at - self.previous_at <= _LONGEST_GAP * self.interval


def why_spared(
    instance: Instance,
    provider: str,
    live: Mapping[str, LiveProxy],
    present: Iterable[tuple[str, str]],
    rules: Rules,
) -> Spared | None:
    """Return why an instance is no orphan by what is seen now, or None when it is one.

    Args:
        instance: The instance.
        provider: Name of the provider that listed it.
        live: Every Proxy there is, by uid.
        present: Id and incarnation of what the provider has; of two instances of one Proxy the recorded one must be
            among them before the other can be an orphan.
        rules: Of the sweep; the sweep before plays no part here.
    """
    if instance.installation not in ("", rules.installation):
        return Spared.FOREIGN
    if not instance.uid:
        return Spared.NO_UID
    if not instance.incarnation:
        return Spared.NO_INCARNATION
    owner = live.get(instance.uid)
    if owner is not None and not _is_second(instance, provider, owner, present):
        return Spared.LIVE
    if not instance.installation and not rules.collect_unmarked:
        return Spared.UNMARKED
    if rules.at - instance.created_at < rules.age_by_our_clock:
        return Spared.YOUNG
    return None


def _is_second(instance: Instance, provider: str, owner: LiveProxy, present: Iterable[tuple[str, str]]) -> bool:
    """Whether a Proxy's recorded instance is there, and this is another one."""
    if owner.provider != provider or not owner.provider_id:
        # Two entries of the config may share a backend: what another entry's Proxy has is none of ours to judge.
        return False
    if is_recorded((instance.provider_id, instance.incarnation), owner):
        return False
    return any(is_recorded(there, owner) for there in present)


def is_recorded(instance: tuple[str, str], owner: LiveProxy) -> bool:
    """Whether an instance, as id and incarnation, is the one on a Proxy's record; a record may lack the incarnation."""
    provider_id, incarnation = instance
    return provider_id == owner.provider_id and owner.incarnation in ("", incarnation)


def find_orphans(
    provider: str,
    instances: Sequence[Instance],
    live: Mapping[str, LiveProxy],
    rules: Rules,
    seen_before: Mapping[str, int],
    most_doomed: int,
    most_candidates: int,
) -> Findings:
    """Judge a provider's instances.

    An instance is deleted when it was an orphan in the sweep before as well and for at least half an interval, so that
    two sweeps started by hand one after the other confirm nothing.

    Args:
        provider: Name of the provider.
        instances: All it has.
        live: Every Proxy there is, by uid; read after the instances.
        rules: Of the sweep.
        seen_before: The candidates of the sweep before: key, and when it was first seen as an orphan (Unix seconds).
        most_doomed: At most so many are named for deletion.
        most_candidates: At most so many are remembered for the next sweep, the oldest first.
    """
    at = int(rules.at.timestamp())
    known = seen_before if rules.previous_counts else {}
    by_uid: dict[str, list[tuple[str, str]]] = {}
    for instance in instances:
        by_uid.setdefault(instance.uid, []).append((instance.provider_id, instance.incarnation))
    spared: Counter[str] = Counter()
    orphans = []
    for instance in instances:
        reason = why_spared(instance, provider, live, by_uid[instance.uid], rules)
        if reason is None:
            orphans.append((candidate_key(provider, instance), instance))
        else:
            spared[reason] += 1
    # Those seen before come first: else a flood of new ones would push them out of memory for ever.
    orphans.sort(key=lambda found: (known.get(found[0], at), found[1].created_at, found[0]))
    confirmed = [
        instance for key, instance in orphans if key in known and at - known[key] >= rules.interval.total_seconds() / 2
    ]
    doomed = confirmed[:most_doomed]
    spared[Spared.SEEN_ONCE] += len(orphans) - len(confirmed)
    spared[Spared.OVER_THE_CAP] += len(confirmed) - len(doomed)
    return Findings(
        instances=len(instances),
        spared={str(reason): spared[reason] for reason in Spared if spared[reason]},
        candidates={key: known.get(key, at) for key, _ in orphans[:most_candidates]},
        doomed=[
            Orphan(
                provider_id=instance.provider_id,
                incarnation=instance.incarnation,
                uid=instance.uid,
                is_second=instance.uid in live,
            )
            for instance in doomed
        ],
    )


def candidate_key(provider: str, instance: Instance | Orphan) -> str:
    """Return a short name of exactly this incarnation, so that hundreds of them fit into a sweep's result."""
    text = "\0".join((provider, instance.provider_id, instance.incarnation, instance.uid))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def candidates_each(providers: int) -> int:
    """Return how many candidates of each provider a sweep remembers: without any, nothing is ever confirmed."""
    return max(1, MOST_CANDIDATES // max(1, providers))


def queued_anew(candidates: Mapping[str, int], provider: str, kept: Collection[Orphan], at: float) -> dict[str, int]:
    """Return the candidates with those that are still there after all behind every other one.

    Else orphans that can never be deleted, being the oldest, would use up the cap of every sweep.

    Args:
        candidates: Of the provider: key, and when first seen as an orphan.
        provider: Its name.
        kept: Orphans that the sweep tried to delete and did not.
        at: Time of the sweep, Unix seconds.
    """
    again = {candidate_key(provider, orphan) for orphan in kept}
    return {key: int(at) if key in again else first_seen for key, first_seen in candidates.items()}


def within_cap(doomed: Mapping[str, Sequence[Orphan]], most: int, turn: int) -> list[tuple[str, Orphan]]:
    """Return at most ``most`` of all providers' orphans, one of each in turns, so that none waits behind another.

    Args:
        doomed: Orphans by provider.
        most: How many may be deleted.
        turn: Number of the sweep: each begins with another provider.
    """
    providers = list(doomed)
    first = turn % max(1, len(providers))
    longest = max((len(orphans) for orphans in doomed.values()), default=0)
    in_turns = [
        (provider, doomed[provider][position])
        for position in range(longest)
        for provider in (*providers[first:], *providers[:first])
        if position < len(doomed[provider])
    ]
    return in_turns[:most]
