"""The lease table against a naive one that recomputes everything from lists."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from model import lease_snapshot
from model.lease_answers import Answer, Granted, NoMatch, SessionUnavailable, Stale, Word
from model.lease_doubts import SUSPENSION_MILLIS
from model.lease_operations import (
    RESTING_RESULTS,
    RESULTS,
    Acquire,
    GiveBack,
    Gone,
    Look,
    Operation,
    Primed,
    Probe,
    Probes,
    ProxyView,
    Release,
    Renew,
    Report,
    Transition,
)
from model.lease_sessions import SESSION_MILLIS
from model.leases import LeaseTable
from tests.model.lease_fixtures import START, view

PROXY_IDS = st.sampled_from(["ns/a", "ns/b", "ns/c"])
RESTS = st.sampled_from([5, 40, 100])
TARGETS = st.sampled_from(["", "one", "two"])
SELECTORS = st.sampled_from([{}, {"geo": "eu"}, {"geo": "us"}, {"geo": ""}])
SESSIONS = st.sampled_from(["", "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"])
BODIES = st.sampled_from(["", "1111111111111111", "2222222222222222"])
VIEWS = st.builds(
    view,
    attributes=st.sampled_from([{}, {"geo": "eu"}, {"geo": "us"}]),
    phase=st.sampled_from(["Ready", "Ready", "Ready", "Unhealthy", "Deleting"]),
    healthy=st.sampled_from([True, True, False]),
    leasable=st.sampled_from([True, True, False]),
    latency_millis=st.integers(1, 3),
    max_leases=st.integers(0, 3),
    instance=st.sampled_from(["one", "one", "one", "two"]),
)


@dataclass
class NaiveLease:
    proxy_id: str
    target: str
    expires: int
    ttl: int
    retain: int
    body: str
    session: str
    revoked: bool = False
    released: bool = False
    ended_at: int = 0

    @property
    def over(self) -> bool:
        return self.revoked or self.released

    @property
    def end(self) -> int:
        return self.ended_at or self.expires


@dataclass
class NaiveProxy:
    uid: str
    order: tuple[int, int]
    view: ProxyView
    doubted: bool = False
    suspended_until: int = 0


@dataclass
class NaiveTable:
    """The rules, written down with no index, no heap and no cache."""

    now: int = START
    proxies: dict[str, NaiveProxy] = field(default_factory=dict)
    leases: dict[str, NaiveLease] = field(default_factory=dict)
    cooldowns: dict[tuple[str, str], int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    gone: dict[str, tuple[int, int]] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    session_leases: dict[str, list[NaiveLease]] = field(default_factory=dict)

    def running(self, lease: NaiveLease) -> bool:
        return lease.expires > self.now and not lease.over

    def active(self, proxy_id: str) -> int:
        return len(self.ends(proxy_id))

    def ends(self, proxy_id: str) -> list[int]:
        mine = [lease for lease in self.leases.values() if lease.proxy_id == proxy_id]
        return sorted(lease.expires for lease in mine if self.running(lease))

    def rests_until(self, proxy_id: str, target: str) -> int:
        ends = [self.cooldowns.get((proxy_id, one), 0) for one in ("", target)]
        return max(end if end > self.now else 0 for end in ends)

    def usable(self, proxy: NaiveProxy) -> bool:
        seen = proxy.view
        drains = seen.drain_ends_at > 0
        return (
            seen.healthy
            and seen.leasable
            and not drains
            and seen.phase != "Deleting"
            and proxy.suspended_until <= self.now
        )

    def session_proxy(self, session: str) -> str | None:
        """The proxy of a session that is still remembered."""
        ends = [self.now if self.running(lease) else lease.end for lease in self.session_leases.get(session, [])]
        return self.sessions[session] if ends and max(ends) + SESSION_MILLIS > self.now else None

    def apply(self, operation: Operation) -> Answer:
        match operation:
            case Acquire():
                return self.acquire(operation)
            case Renew():
                return self.renew(operation)
            case Look():
                lease = self.known(operation.lease_id)
                return self.granted(lease) if lease and self.running(lease) else Word.UNKNOWN_LEASE
            case Release():
                return self.release(operation.lease_id)
            case GiveBack():
                self.end(operation.lease_id)
                return Word.DONE
            case Report():
                return self.report(operation)
            case Transition():
                return self.change(operation)
            case Gone():
                return self.remove(operation)
            case Probes():
                return self.probed(operation.rows[0])
            case _:
                return Word.DONE

    def known(self, lease_id: str) -> NaiveLease | None:
        lease = self.leases.get(lease_id)
        return lease if lease is not None and lease.expires + lease.retain > self.now else None

    def granted(self, lease: NaiveLease) -> Granted:
        view = self.proxies[lease.proxy_id].view
        return Granted(lease.proxy_id, view, self.active(lease.proxy_id), lease.expires, lease.ttl)

    def stop(self, lease: NaiveLease) -> None:
        if self.running(lease):
            lease.ended_at = self.now

    def release(self, lease_id: str) -> Answer:
        lease = self.known(lease_id)
        if lease is not None and lease.body:
            self.stop(lease)
            lease.released = True
        elif lease is not None:
            self.end(lease_id)
        return Word.DONE

    def end(self, lease_id: str) -> None:
        lease = self.leases.pop(lease_id, None)
        if lease is not None:
            self.stop(lease)
            lease.released = True
        self.ended.add(lease_id)

    def acquire(self, request: Acquire) -> Answer:
        lease = self.known(request.lease_id)
        if lease is not None:
            if lease.body != request.body:
                return Word.KEY_REUSED
            if lease.proxy_id not in self.proxies or lease.over or (lease.body and not self.running(lease)):
                return Word.LEASE_ENDED
            return self.granted(lease)
        if request.lease_id in self.ended:
            return Word.LEASE_ENDED
        refusal, free = self.candidates(request)
        sticky = self.session_proxy(request.session) if request.session else None
        if sticky in free:
            proxy_id = sticky
        elif sticky is not None and request.strict:
            seen = sticky in self.considered(request)
            return SessionUnavailable(self.earliest(sticky, request.target) if seen else 0)
        elif free:
            proxy_id = min(free, key=lambda one: (self.active(one), self.proxies[one].view.latency_millis, one))
        else:
            return refusal
        expires = self.now + request.ttl_millis
        lease = NaiveLease(
            proxy_id,
            request.target,
            expires,
            request.ttl_millis,
            request.retain_millis,
            request.body,
            request.session,
        )
        self.leases[request.lease_id] = lease
        if request.session:
            if sticky is None:
                self.session_leases[request.session] = []
            self.sessions[request.session] = proxy_id
            self.session_leases[request.session].append(lease)
        return self.granted(lease)

    def considered(self, request: Acquire) -> list[str]:
        return [
            proxy_id
            for proxy_id, proxy in self.proxies.items()
            if proxy.view.phase != "Deleting"
            and all(proxy.view.attributes.get(key, "") == value for key, value in request.selector.items())
        ]

    def candidates(self, request: Acquire) -> tuple[NoMatch, list[str]]:
        counts = {"unhealthy": 0, "cooling": 0, "full": 0}
        free: list[str] = []
        earliest: list[int] = []
        considered = self.considered(request)
        for proxy_id in considered:
            proxy = self.proxies[proxy_id]
            if not self.usable(proxy):
                counts["unhealthy"] += 1
                continue
            earliest.append(self.earliest(proxy_id, request.target))
            if self.rests_until(proxy_id, request.target):
                counts["cooling"] += 1
            elif self.active(proxy_id) >= proxy.view.max_leases:
                counts["full"] += 1
            else:
                free.append(proxy_id)
        when = min((one for one in earliest if one), default=0)
        return NoMatch(len(considered), counts["full"], counts["cooling"], counts["unhealthy"], when), free

    def earliest(self, proxy_id: str, target: str) -> int:
        proxy = self.proxies[proxy_id]
        if not self.usable(proxy) or not proxy.view.max_leases:
            return 0
        ends = [0, *self.ends(proxy_id)]
        slot = ends[max(0, len(ends) - proxy.view.max_leases)]
        return max(slot, self.rests_until(proxy_id, target))

    def renew(self, request: Renew) -> Answer:
        lease = self.known(request.lease_id)
        if lease is None or lease.released:
            return Word.UNKNOWN_LEASE
        proxy = self.proxies.get(lease.proxy_id)
        if lease.revoked or proxy is None or proxy.view.phase == "Deleting":
            return Word.REVOKED
        if lease.expires <= self.now:
            return Word.LEASE_ENDED
        ends = self.now + request.ttl_millis
        if proxy.view.drain_ends_at:
            if proxy.view.drain_ends_at <= self.now:
                return Word.REVOKED
            ends = min(ends, max(lease.expires, proxy.view.drain_ends_at))
        lease.expires, lease.ttl = ends, ends - self.now
        return self.granted(lease)

    def report(self, report: Report) -> Answer:
        lease = self.known(report.lease_id)
        if lease is None or lease.released:
            return Word.UNKNOWN_LEASE
        if report.result in RESTING_RESULTS:
            key = (lease.proxy_id, report.target or lease.target)
            self.cooldowns[key] = max(self.cooldowns.get(key, 0), self.now + report.cooldown_millis)
        proxy = self.proxies.get(lease.proxy_id)
        if report.result == "transport_error" and self.running(lease) and proxy is not None and not proxy.doubted:
            proxy.doubted, proxy.suspended_until = True, self.now + SUSPENSION_MILLIS
        return Word.DONE

    def probed(self, row: Probe) -> Answer:
        proxy = self.proxies.get(row.proxy_id)
        if proxy is not None and proxy.uid == row.uid and proxy.doubted:
            proxy.doubted = row.hold_millis > 0
            proxy.suspended_until = self.now + row.hold_millis
        return Word.DONE

    def revoke(self, proxy_id: str) -> None:
        for lease in self.leases.values():
            if lease.proxy_id == proxy_id and self.running(lease):
                self.stop(lease)
                lease.revoked = True

    def change(self, change: Transition) -> Answer:
        if self.gone.get(change.uid, change.order) > change.order:
            return Stale(self.gone[change.uid])
        proxy = self.proxies.get(change.proxy_id)
        if proxy is not None and proxy.order > change.order:
            return Stale(proxy.order)
        if proxy is not None and (proxy.uid, proxy.order) == (change.uid, change.order):
            return Word.DONE
        doubted, suspended_until = False, 0
        if proxy is not None and (proxy.uid, proxy.view.instance) != (change.uid, change.view.instance):
            self.revoke(change.proxy_id)
        elif proxy is not None and not (change.view.healthy and not proxy.view.healthy):
            doubted, suspended_until = proxy.doubted, proxy.suspended_until
        self.gone.pop(change.uid, None)
        self.proxies[change.proxy_id] = NaiveProxy(change.uid, change.order, change.view, doubted, suspended_until)
        return Word.DONE

    def remove(self, message: Gone) -> Answer:
        proxy = self.proxies.get(message.proxy_id)
        if proxy is not None and proxy.uid == message.uid:
            if proxy.order > message.order:
                return Stale(proxy.order)
            self.revoke(message.proxy_id)
            del self.proxies[message.proxy_id]
        self.gone[message.uid] = max(message.order, self.gone.get(message.uid, message.order))
        return Word.DONE


class LeasesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = LeaseTable()
        self.naive = NaiveTable()
        self.count = 0
        self.counter = 0
        self.last: tuple[Operation, Answer] | None = None

    @initialize()
    def start(self) -> None:
        self.table.advance(START)
        self.table.apply(Primed())
        for proxy_id in ("ns/a", "ns/b"):
            self.counter += 1
            self.both(Transition(proxy_id, f"{proxy_id}-x", (START, self.counter), view(max_leases=2)))

    def both(self, operation: Operation) -> Answer:
        expected = self.naive.apply(operation)
        answer = self.table.apply(operation)
        if isinstance(answer, NoMatch) and isinstance(expected, NoMatch):
            # Within a batch the counts are exact; the time is so at the start of one.
            assert answer[:4] == expected[:4], operation
            self.table.advance(self.naive.now)
            answer = self.table.apply(operation)
        assert answer == expected, operation
        self.last = operation, answer
        return answer

    def some_lease(self, place: int) -> str:
        return f"L{max(0, self.count - place)}"

    @rule(selector=SELECTORS, site=TARGETS, ttl=st.integers(1, 50))
    def acquire(self, selector: dict[str, str], site: str, ttl: int) -> None:
        self.count += 1
        self.both(Acquire(f"L{self.count}", selector, site, ttl, 40))

    @rule(
        selector=SELECTORS,
        site=TARGETS,
        ttl=st.integers(1, 50),
        body=BODIES,
        session=SESSIONS,
        strict=st.booleans(),
        again=st.booleans(),
    )
    def acquire_specially(
        self, selector: dict[str, str], site: str, ttl: int, body: str, session: str, strict: bool, again: bool
    ) -> None:
        self.count += not again
        self.both(Acquire(f"L{self.count}", selector, site, ttl, 40, body, session, strict))

    @rule(place=st.integers(0, 6), ttl=st.integers(1, 50))
    def renew(self, place: int, ttl: int) -> None:
        self.both(Renew(self.some_lease(place), ttl))

    @rule(place=st.integers(0, 6))
    def look(self, place: int) -> None:
        self.both(Look(self.some_lease(place)))

    @rule(proxy_id=PROXY_IDS, uid=st.sampled_from(["x", "x", "x", "y"]), hold=st.sampled_from([0, 0, 20, 60_000]))
    def probe(self, proxy_id: str, uid: str, hold: int) -> None:
        self.both(Probes([Probe(proxy_id, f"{proxy_id}-{uid}", hold)]))

    @rule(place=st.integers(0, 4))
    def report_a_transport_error(self, place: int) -> None:
        self.both(Report(self.some_lease(place), "transport_error", "", 40))

    @rule(selector=SELECTORS, site=TARGETS, rest=RESTS)
    def lease_is_banned(self, selector: dict[str, str], site: str, rest: int) -> None:
        self.acquire(selector, site, 20)
        self.both(Report(f"L{self.count}", "banned", "", rest))
        self.acquire(selector, site, 20)

    @rule(place=st.integers(0, 4), site=TARGETS)
    def acquire_again(self, place: int, site: str) -> None:
        self.both(Acquire(self.some_lease(place), {}, site, 20, 40))

    @rule(place=st.integers(0, 4))
    def release(self, place: int) -> None:
        self.both(Release(self.some_lease(place)))

    @rule(ahead=st.integers(0, 3))
    def give_back(self, ahead: int) -> None:
        self.both(GiveBack(f"L{self.count + ahead}"))

    @rule(place=st.integers(0, 4), result=st.sampled_from(RESULTS), site=TARGETS, rest=RESTS)
    def report(self, place: int, result: str, site: str, rest: int) -> None:
        self.both(Report(self.some_lease(place), result, site, rest))

    @rule(proxy_id=PROXY_IDS, uid=st.sampled_from(["x", "x", "x", "y"]), seen=VIEWS, late=st.integers(0, 4))
    def change(self, proxy_id: str, uid: str, seen: ProxyView, late: int) -> None:
        self.counter += 1
        order = (START, self.counter - (3 if late == 4 else 0))
        self.both(Transition(proxy_id, f"{proxy_id}-{uid}", order, seen))

    @rule(proxy_id=PROXY_IDS, millis=st.integers(1, 60), leasable=st.booleans(), ttl=st.integers(1, 80))
    def drain(self, proxy_id: str, millis: int, leasable: bool, ttl: int) -> None:
        proxy = self.naive.proxies.get(proxy_id)
        if proxy is None:
            return
        self.counter += 1
        seen = proxy.view._replace(leasable=leasable, drain_ends_at=self.naive.now + millis)
        self.both(Transition(proxy_id, proxy.uid, (START, self.counter), seen))
        for place in range(4):
            self.both(Renew(self.some_lease(place), ttl))

    @rule(proxy_id=PROXY_IDS, late=st.integers(0, 4))
    def remove(self, proxy_id: str, late: int) -> None:
        self.counter += 1
        self.both(Gone(proxy_id, f"{proxy_id}-x", (START, self.counter - (3 if late == 4 else 0))))

    @rule(
        millis=st.one_of(st.integers(0, 30), st.sampled_from([SUSPENSION_MILLIS, SESSION_MILLIS - 30, SESSION_MILLIS]))
    )
    def pass_time(self, millis: int) -> None:
        self.last = None
        self.naive.now += millis
        self.table.advance(self.naive.now)

    @precondition(lambda self: self.last is not None and not isinstance(self.last[1], NoMatch))
    @rule()
    def repeat_the_last_operation(self) -> None:
        assert self.last is not None
        operation, answer = self.last
        assert self.table.apply(operation) == answer

    @rule()
    def continue_from_a_snapshot(self) -> None:
        snapshot = lease_snapshot.dump(self.table)
        restored = lease_snapshot.load(snapshot)
        assert lease_snapshot.dump(restored) == snapshot
        assert restored.budget.used == self.table.budget.used
        self.table = restored

    @invariant()
    def the_tables_agree(self) -> None:
        for proxy, active in self.table.views(self.naive.now):
            assert active == self.naive.active(proxy.id)
            assert self.table.active_on(proxy.id, self.naive.now) == active
        assert self.table.active_leases(self.naive.now) == sum(
            self.naive.running(lease) for lease in self.naive.leases.values()
        )

    @invariant()
    def sessions_and_doubts_agree(self) -> None:
        remembered = {name for name in self.naive.sessions if self.naive.session_proxy(name) is not None}
        assert len(self.table.sessions) == len(remembered)
        assert self.table.doubts.proxy_ids() == sorted(
            one for one, proxy in self.naive.proxies.items() if proxy.doubted
        )

    @invariant()
    def no_lease_is_counted_twice(self) -> None:
        held = [lease_id for proxy in self.table.proxies.by_id.values() for lease_id in proxy.lease_ids]
        assert len(held) == len(set(held)) == len(self.table.leases.running)


TestLeasesMachine = LeasesMachine.TestCase
TestLeasesMachine.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
