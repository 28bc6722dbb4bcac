"""Leases in Redis behind the product's own HTTP handlers, every one synced to disk: what the broker is compared with.

``python -m bench.redis_broker PROXIES PORT REDIS_PORT``; the file has the proxies as ``encode_proxies`` writes them.
"""

import asyncio
import functools
import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from temporalio.client import Client

from bench.handlers import serve_until_terminated
from bench.load import HOST
from bench.local_commit import LocalBroker, local_client
from bench.redis_protocol import RedisConnection, Reply
from model.lease_answers import Answer, Granted, NoMatch, Word
from model.lease_operations import Acquire, Operation, ProxyView, Release

RULES = Path(__file__).with_name("redis_rules.lua").read_bytes()


class RedisBroker(LocalBroker):
    """Acquires without a selector, and releases: what the load asks."""

    def __init__(self, client: Client, redis: RedisConnection) -> None:
        super().__init__(client, self._apply)
        self._redis = redis
        self._script = hashlib.sha1(RULES).hexdigest().encode()  # Redis names scripts so
        self._views: dict[bytes, ProxyView] = {}

    async def fill(self, proxies: str) -> None:
        """Load the rules and tell the proxies."""
        await self._redis.ask(b"SCRIPT", b"LOAD", RULES)
        for proxy_id, row in json.loads(proxies):
            view = ProxyView(*row)
            await self._run("proxy", proxy_id, json.dumps(row), str(view.max_leases), str(view.latency_millis))

    def _apply(self, operation: Operation, answer: "asyncio.Future[Answer]") -> None:
        if isinstance(operation, Acquire):
            expires = _now_millis() + operation.ttl_millis
            kept = expires + operation.retain_millis
            reply = self._run("acquire", operation.lease_id, operation.target, str(expires), str(kept))
            granted = functools.partial(self._granted, expires=expires, ttl=operation.ttl_millis)
            reply.add_done_callback(lambda done: _pass_on(answer, done, granted))
        elif isinstance(operation, Release):
            reply = self._run("release", operation.lease_id)
            reply.add_done_callback(lambda done: _pass_on(answer, done, lambda _: Word.DONE))
        else:
            answer.set_exception(NotImplementedError(f"the rules in Redis have no {type(operation).__name__}"))

    def _granted(self, reply: Reply, expires: int, ttl: int) -> Answer:
        match reply:
            case [bytes() as proxy_id, bytes() as row, bytes() as active]:
                return Granted(proxy_id.decode(), self._view(row), int(active), expires, ttl)
            case [int() as considered]:
                return NoMatch(considered, considered, 0, 0)
        raise TypeError(f"the rules answered {reply!r}")

    def _view(self, row: bytes) -> ProxyView:
        view = self._views.get(row)
        if view is None:
            view = self._views[row] = ProxyView(*json.loads(row))
        return view

    def _run(self, operation: str, *words: str) -> "asyncio.Future[Reply]":
        given = (operation, str(_now_millis()), *words)
        return self._redis.ask(b"EVALSHA", self._script, b"0", *(word.encode() for word in given))


def _pass_on(answer: "asyncio.Future[Answer]", done: "asyncio.Future[Reply]", read: Callable[[Reply], Answer]) -> None:
    if answer.done():
        return
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(read(done.result()))


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


async def main(proxies: str, port: int, redis_port: int) -> None:
    """Serve until SIGTERM."""
    broker = RedisBroker(await local_client(), await RedisConnection.connect(HOST, redis_port))
    await broker.fill(proxies)
    await serve_until_terminated(broker, port)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text(), int(sys.argv[2]), int(sys.argv[3])))
