"""The lease table against a naive one that recomputes everything from lists."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from model import lease_snapshot
from model.lease_answers import Answer, Granted, NoMatch, Stale, Word
from model.lease_operations import Acquire, GiveBack, Gone, Operation, Primed, ProxyView, Release, Report, Transition
from model.leases import LeaseTable
from tests.model.lease_fixtures import START, view

PROXY_IDS = st.sampled_from(["ns/a", "ns/b", "ns/c"])
RESTS = st.sampled_from([5, 40, 100])
TARGETS = st.sampled_from(["", "one", "two"])
SELECTORS = st.sampled_from([{}, {"geo": "eu"}, {"geo": "us"}, {"geo": ""}])
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
    retained_until: int
    revoked: bool = False


@dataclass
class NaiveProxy:
    uid: str
    order: tuple[int, int]
    view: ProxyView


@dataclass
class NaiveTable:
    """The rules, written down with no index, no heap and no cache."""

    now: int = START
    proxies: dict[str, NaiveProxy] = field(default_factory=dict)
    leases: dict[str, NaiveLease] = field(default_factory=dict)
    cooldowns: dict[tuple[str, str], int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    gone: dict[str, tuple[int, int]] = field(default_factory=dict)

    def active(self, proxy_id: str) -> int:
        mine = [lease for lease in self.leases.values() if lease.proxy_id == proxy_id]
        return sum(lease.expires > self.now and not lease.revoked for lease in mine)

    def rests(self, proxy_id: str, target: str) -> bool:
        return any(self.cooldowns.get((proxy_id, one), 0) > self.now for one in {"", target})

    def apply(self, operation: Operation) -> Answer:
        match operation:
            case Acquire():
                return self.acquire(operation)
            case Release():
                if self.known(operation.lease_id):
                    self.end(operation.lease_id)
                return Word.DONE
            case GiveBack():
                self.end(operation.lease_id)
                return Word.DONE
            case Report():
                return self.report(operation)
            case Transition():
                return self.change(operation)
            case Gone():
                return self.remove(operation)
            case _:
                return Word.DONE

    def known(self, lease_id: str) -> NaiveLease | None:
        lease = self.leases.get(lease_id)
        return lease if lease is not None and lease.retained_until > self.now else None

    def end(self, lease_id: str) -> None:
        self.leases.pop(lease_id, None)
        self.ended.add(lease_id)

    def acquire(self, request: Acquire) -> Answer:
        lease = self.known(request.lease_id)
        if lease is not None:
            proxy = self.proxies.get(lease.proxy_id)
            if proxy is None or lease.revoked:
                return Word.LEASE_ENDED
            return Granted(lease.proxy_id, proxy.view, self.active(lease.proxy_id), lease.expires)
        if request.lease_id in self.ended:
            return Word.LEASE_ENDED
        counts = {"considered": 0, "unhealthy": 0, "cooling": 0, "full": 0}
        free: list[tuple[int, int, str]] = []
        for proxy_id, proxy in self.proxies.items():
            seen = proxy.view
            wanted = all(seen.attributes.get(key, "") == value for key, value in request.selector.items())
            if seen.phase == "Deleting" or not wanted:
                continue
            counts["considered"] += 1
            if not (seen.healthy and seen.leasable):
                counts["unhealthy"] += 1
            elif self.rests(proxy_id, request.target):
                counts["cooling"] += 1
            elif self.active(proxy_id) >= seen.max_leases:
                counts["full"] += 1
            else:
                free.append((self.active(proxy_id), seen.latency_millis, proxy_id))
        if not free:
            return NoMatch(counts["considered"], counts["full"], counts["cooling"], counts["unhealthy"])
        proxy_id = min(free)[2]
        expires = self.now + request.ttl_millis
        self.leases[request.lease_id] = NaiveLease(proxy_id, request.target, expires, expires + request.retain_millis)
        return Granted(proxy_id, self.proxies[proxy_id].view, self.active(proxy_id), expires)

    def report(self, report: Report) -> Answer:
        lease = self.known(report.lease_id)
        if lease is None:
            return Word.UNKNOWN_LEASE
        if report.result != "ok":
            key = (lease.proxy_id, report.target or lease.target)
            self.cooldowns[key] = max(self.cooldowns.get(key, 0), self.now + report.cooldown_millis)
        return Word.DONE

    def revoke(self, proxy_id: str) -> None:
        for lease in self.leases.values():
            if lease.proxy_id == proxy_id and lease.expires > self.now:
                lease.revoked = True

    def change(self, change: Transition) -> Answer:
        if self.gone.get(change.uid, change.order) > change.order:
            return Stale(self.gone[change.uid])
        proxy = self.proxies.get(change.proxy_id)
        if proxy is not None and proxy.order > change.order:
            return Stale(proxy.order)
        if proxy is not None and (proxy.uid, proxy.order) == (change.uid, change.order):
            return Word.DONE
        if proxy is not None and (proxy.uid, proxy.view.instance) != (change.uid, change.view.instance):
            self.revoke(change.proxy_id)
        self.gone.pop(change.uid, None)
        self.proxies[change.proxy_id] = NaiveProxy(change.uid, change.order, change.view)
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
        answer = self.table.apply(operation)
        assert answer == self.naive.apply(operation), operation
        self.last = operation, answer
        return answer

    def some_lease(self, place: int) -> str:
        return f"L{max(0, self.count - place)}"

    @rule(selector=SELECTORS, site=TARGETS, ttl=st.integers(1, 50))
    def acquire(self, selector: dict[str, str], site: str, ttl: int) -> None:
        self.count += 1
        self.both(Acquire(f"L{self.count}", selector, site, ttl, 40))

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

    @rule(place=st.integers(0, 4), result=st.sampled_from(["ok", "banned", "rate_limited"]), site=TARGETS, rest=RESTS)
    def report(self, place: int, result: str, site: str, rest: int) -> None:
        self.both(Report(self.some_lease(place), result, site, rest))

    @rule(proxy_id=PROXY_IDS, uid=st.sampled_from(["x", "x", "x", "y"]), seen=VIEWS, late=st.integers(0, 4))
    def change(self, proxy_id: str, uid: str, seen: ProxyView, late: int) -> None:
        self.counter += 1
        order = (START, self.counter - (3 if late == 4 else 0))
        self.both(Transition(proxy_id, f"{proxy_id}-{uid}", order, seen))

    @rule(proxy_id=PROXY_IDS, late=st.integers(0, 4))
    def remove(self, proxy_id: str, late: int) -> None:
        self.counter += 1
        self.both(Gone(proxy_id, f"{proxy_id}-x", (START, self.counter - (3 if late == 4 else 0))))

    @rule(millis=st.integers(0, 30))
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
        assert self.table.active_leases(self.naive.now) == sum(
            lease.expires > self.naive.now and not lease.revoked for lease in self.naive.leases.values()
        )

    @invariant()
    def no_lease_is_counted_twice(self) -> None:
        held = [lease_id for proxy in self.table.proxies.by_id.values() for lease_id in proxy.lease_ids]
        assert len(held) == len(set(held)) == len(self.table.running)


TestLeasesMachine = LeasesMachine.TestCase
TestLeasesMachine.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
