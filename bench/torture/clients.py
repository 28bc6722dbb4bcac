"""The clients, in a process of their own: ``python -m bench.torture.clients SETTINGS``, SETTINGS as JSON.

Each takes a lease, holds it, now and then reports on it or forgets it, and gives it back. What is held is counted from
their side alone. Commands come on standard input, one JSON object a line, each answered with one line: ``gap`` (the
longest time without a grant since a moment), ``audit`` (whether the API knows every lease that is held), ``stop``.
"""

import asyncio
import json
import random
import sys
import time
from datetime import datetime
from typing import Any

import aiohttp

from bench.torture.api_calls import REQUEST_SECONDS, Answer, LeaseCalls
from bench.torture.fleet import PART, STEADY
from bench.torture.ledger import HeldLease, Ledger, longest_gap
from bench.torture.totals import CrowdSettings

_REPORT_SHARE = 0.2
_FORGET_SHARE = 0.005
"""Leases that are never given back, as by a crawler that died: they end by their TTL."""
_REFUSED_PAUSE = 0.15
_AUDIT_SPARE = 5.0
_AUDIT_SECONDS = 20.0
_AUDIT_AT_ONCE = 30


class Crowd:
    """All clients and what they hold."""

    def __init__(self, settings: CrowdSettings, calls: LeaseCalls) -> None:
        self.ledger = Ledger()
        self.grants: list[float] = []
        self._settings = settings
        self._calls = calls
        self._answers = calls.answers
        self._stopping = False
        self._may_release = asyncio.Event()
        self._may_release.set()
        self._asking: set[asyncio.Task[None]] = set()
        self._clients = [
            asyncio.create_task(self._client(part)) for part, count in settings.clients.items() for _ in range(count)
        ]

    async def stop(self) -> None:
        """Let every client give its lease back."""
        self._stopping = True
        await asyncio.gather(*self._clients, *self._asking)

    async def audit(self) -> dict[str, int]:
        """Ask for every lease that is held; nobody gives one back meanwhile.

        Returns:
            How many were asked for, were known, and could not be asked for because no replica answered.
        """
        self._may_release.clear()
        try:
            leases = self.ledger.held(time.time(), _AUDIT_SPARE)
            places = asyncio.Semaphore(_AUDIT_AT_ONCE)

            async def known(lease: HeldLease) -> bool | None:
                async with places:
                    return await self._is_known(lease, _AUDIT_SECONDS)

            results = await asyncio.gather(*map(known, leases))
        finally:
            self._may_release.set()
        return {"asked": len(leases), "known": results.count(True), "unanswered": results.count(None)}

    async def _client(self, part: str) -> None:
        await asyncio.sleep(random.random())
        while not self._stopping:
            lease = await self._acquire(part)
            if lease is None:
                await asyncio.sleep(random.uniform(0.3, 1.0) * _REFUSED_PAUSE)
                continue
            await asyncio.sleep(random.random() * self._settings.hold_seconds)
            if random.random() < _REPORT_SHARE:
                await self._is_known(lease, 2.0)
            if random.random() >= _FORGET_SHARE:
                await self._release(lease)
            else:
                self._answers["forgotten"] += 1

    async def _acquire(self, part: str) -> HeldLease | None:
        wish = {"selector": {PART: part}, "target": "shop.example.com", "ttlSeconds": self._settings.ttl_seconds}
        answer = await self._calls.once("POST", "/v1/leases", wish)
        if answer is None:
            return None
        status, body = answer
        if status == 409:
            self._answers["refused"] += 1
            return None
        if status != 201:
            self._calls.unexpected("an acquire", answer)
            return None
        self.grants.append(time.monotonic())
        self._answers["granted"] += 1
        lease = _held(body, part)
        crowded = self.ledger.acknowledge(lease, time.time())
        if crowded and lease.steady:
            self._overcommitted(crowded)
        elif crowded:
            self._begin_asking(crowded)
        return lease

    def _overcommitted(self, leases: list[HeldLease]) -> None:
        self._answers["overcommits"] += 1
        self._calls.note(f"{leases[0].proxy_id} has {len(leases)} leases, its limit is {leases[0].limit}")

    def _begin_asking(self, leases: list[HeldLease]) -> None:
        task = asyncio.create_task(self._ask_which_are_revoked(leases))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask_which_are_revoked(self, leases: list[HeldLease]) -> None:
        """Settle whether a proxy that may have been replaced has too many leases: a revoked one holds no slot."""
        alive = await asyncio.gather(*map(self._is_alive, leases))
        if alive.count(True) > max(lease.limit for lease in leases):
            self._overcommitted([lease for lease, is_alive in zip(leases, alive, strict=True) if is_alive])

    async def _is_alive(self, lease: HeldLease) -> bool:
        deadline = asyncio.get_running_loop().time() + 2.0
        path = f"/v1/leases/{lease.lease_id}/renew"
        answer = await self._calls.until_answered("POST", path, deadline, {"ttlSeconds": self._settings.ttl_seconds})
        if answer is None:
            return False
        status, body = answer
        if status == 200:
            return self.ledger.holds(lease, time.time())
        if status == 409 and body.get("error") == "lease_revoked":
            self._answers["revoked"] += 1
        elif not self._ended_meanwhile(lease, answer):
            self._calls.unexpected("a renewal", answer)
        self.ledger.let_go(lease.lease_id)
        return False

    def _ended_meanwhile(self, lease: HeldLease, answer: Answer) -> bool:
        """Whether the lease may be unknown or over because its own client let it go in the meantime."""
        status, body = answer
        over = (status, body.get("error")) in ((404, "unknown_lease"), (409, "lease_expired"))
        return over and not self.ledger.holds(lease, time.time())

    async def _is_known(self, lease: HeldLease, seconds: float) -> bool | None:
        """Report ``ok``, which changes nothing; None where nobody could be asked."""
        deadline = asyncio.get_running_loop().time() + seconds
        answer = await self._calls.until_answered(
            "POST", f"/v1/leases/{lease.lease_id}/report", deadline, {"result": "ok"}
        )
        if answer is None:
            return None
        if answer[0] == 204:
            self._answers["reported"] += 1
            return True
        if answer[0] != 404:
            self._calls.unexpected("a report", answer)
        elif self.ledger.holds(lease, time.time()):
            self._answers["lost"] += 1
            self._calls.note(
                f"a lease on {lease.proxy_id} is unknown {lease.expires - time.time():.1f} s before its end"
            )
            self.ledger.let_go(lease.lease_id)
        return False

    async def _release(self, lease: HeldLease) -> None:
        await self._may_release.wait()
        # Before it is sent: from then on the slot may be somebody else's.
        self.ledger.let_go(lease.lease_id)
        deadline = asyncio.get_running_loop().time() + max(0.0, lease.expires - time.time())
        answer = await self._calls.until_answered("DELETE", f"/v1/leases/{lease.lease_id}", deadline)
        if answer is None:
            self._answers["expired"] += 1
        elif answer[0] == 204:
            self._answers["released"] += 1
        else:
            self._calls.unexpected("a release", answer)


def _held(body: dict[str, Any], part: str) -> HeldLease:
    proxy = body["proxy"]
    return HeldLease(body["leaseID"], proxy["id"], _unix(body["expiresAt"]), proxy["maxLeases"], part == STEADY)


def _unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


async def main(settings: CrowdSettings) -> None:
    """Run the clients until they are told to stop."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        calls = LeaseCalls(session, settings.ports)
        crowd = Crowd(settings, calls)
        commands = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        async for line in commands:
            command = json.loads(line)
            answer: dict[str, Any] = {}
            if command["ask"] == "gap":
                answer = {"seconds": longest_gap(crowd.grants, command["since"], time.monotonic())}
            elif command["ask"] == "audit":
                answer = await crowd.audit()
            elif command["ask"] == "stop":
                await crowd.stop()
                calls.answers["doubled"] = len(crowd.ledger.doubled)
                answer = {"answers": dict(calls.answers), "details": calls.details}
            print(json.dumps(answer), flush=True)
            if command["ask"] == "stop":
                return


if __name__ == "__main__":
    asyncio.run(main(CrowdSettings(**json.loads(sys.argv[1]))))
