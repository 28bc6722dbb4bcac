"""Asking the target directly before a proxy is blamed, once for all who want to know."""

import asyncio
import ssl
from dataclasses import dataclass

from model.errors import clean_message
from probing.exchange import Exchange
from probing.faults import ProbeFaultError
from probing.resolver import Resolver
from probing.response import status_text
from probing.target import ProbeTarget

UP_LIFETIME_SECONDS = 1.0
"""How long a good answer counts; short, because on it a proxy is blamed."""
DOWN_LIFETIME_SECONDS = 5.0
"""How long a missing answer or an error counts; longer: on it nobody is blamed, and a target in trouble is spared."""


@dataclass(frozen=True, kw_only=True)
class TargetAnswer:
    """What the target said when asked directly.

    Attributes:
        status: The HTTP status, or None when there was no answer.
        text: For a message.
    """

    status: int | None
    text: str

    @property
    def looks_up(self) -> bool:
        """Whether it is an answer that probes are likely to expect."""
        return self.status is not None and self.status < 400


@dataclass
class _Question:
    """One question under way and how many wait for its answer."""

    task: asyncio.Task[TargetAnswer]
    waiting: int = 0


_Key = tuple[ProbeTarget, float]


class TargetCheck:
    """Asks targets directly.

    Questions with the same target and timeout share one answer while it is awaited and for a short time after, so that
    a thousand proxies failing at once ask once.
    """

    def __init__(self, *, resolver: Resolver, ssl_context: ssl.SSLContext) -> None:
        self._resolver = resolver
        self._ssl_context = ssl_context
        self._asking: dict[_Key, _Question] = {}
        self._answers: dict[_Key, tuple[float, TargetAnswer]] = {}

    async def ask(self, target: ProbeTarget, timeout_seconds: float) -> TargetAnswer:
        """Return the target's answer, at most ``timeout_seconds`` from now."""
        key = (target, timeout_seconds)
        known = self._known(key)
        if known is not None:
            return known
        question = self._asking.get(key)
        if question is None:
            question = self._start(key)
        question.waiting += 1
        try:
            return await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if not question.waiting and not question.task.done():
                question.task.cancel()
                self._forget(key, question)

    def _start(self, key: _Key) -> _Question:
        question = self._asking[key] = _Question(asyncio.create_task(self._ask(key)))
        question.task.add_done_callback(lambda _: self._forget(key, question))
        return question

    def _forget(self, key: _Key, question: _Question) -> None:
        if self._asking.get(key) is question:
            del self._asking[key]

    def _known(self, key: _Key) -> TargetAnswer | None:
        now = asyncio.get_running_loop().time()
        for old in [old for old, (until, _) in self._answers.items() if until <= now]:
            del self._answers[old]
        return self._answers[key][1] if key in self._answers else None

    async def _ask(self, key: _Key) -> TargetAnswer:
        answer = await self._get(*key)
        lifetime = UP_LIFETIME_SECONDS if answer.looks_up else DOWN_LIFETIME_SECONDS
        self._answers[key] = (asyncio.get_running_loop().time() + lifetime, answer)
        return answer

    async def _get(self, target: ProbeTarget, timeout_seconds: float) -> TargetAnswer:
        exchange = Exchange(
            host=target.host,
            port=target.port,
            target=target,
            through_proxy=False,
            resolver=self._resolver,
            ssl_context=self._ssl_context,
            timeout_seconds=timeout_seconds,
        )
        try:
            answer = await exchange.run(())
        except ProbeFaultError as fault:
            return TargetAnswer(status=None, text=clean_message(str(fault)))
        return TargetAnswer(status=answer.status, text=f"target {target.authority}: {status_text(answer.status)}")
