"""Bytes that no client would send: no 5xx, no traceback, no end of the process."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from api.openapi_errors import CODES
from tests.api import fuzz_requests
from tests.api.fuzz_target import TOKEN, FuzzTarget, fuzz_target
from tests.api.raw_http import RawAnswer, exchange

SEED = int(os.environ.get("FUZZ_SEED", "20261201"))
BATCHES = 50
PATIENCE = 5.0
SHORT_PATIENCE = 0.5

BEARER = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"


@pytest.fixture(scope="module")
def target(temporal_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzTarget]:
    with fuzz_target(temporal_address, tmp_path_factory.mktemp("raw")) as target:
        yield target
        target.check_whole()


def check(answer: RawAnswer, sent: bytes) -> None:
    shown = (sent[:300], answer)
    assert answer.status < 500, shown
    if answer.status >= 400 and not sent.startswith(b"HEAD "):
        assert answer.code in CODES, shown
        assert CODES[answer.code].status == answer.status, shown


@pytest.mark.parametrize("name", fuzz_requests.BY_HAND)
async def test_what_was_thought_of(target: FuzzTarget, name: str) -> None:
    case = fuzz_requests.BY_HAND[name]
    answer = await exchange(target.port, case.sent(BEARER), PATIENCE if case.statuses else SHORT_PATIENCE)
    assert answer.status in (case.statuses or {0}), answer
    check(answer, case.sent(BEARER))
    assert (await exchange(target.port, b"GET /healthz HTTP/1.1\r\nHost: api\r\n\r\n", PATIENCE)).status == 200


@pytest.mark.timeout(300)
def test_what_was_not_thought_of(target: FuzzTarget) -> None:
    """Batches of requests, made by hypothesis, each request on a connection of its own."""
    print(f"FUZZ_SEED={SEED}")
    sent = 0
    statuses: dict[int, int] = {}

    async def ask(batch: list[bytes]) -> list[RawAnswer]:
        return await asyncio.gather(*(exchange(target.port, request, SHORT_PATIENCE) for request in batch))

    @seed(SEED)
    @settings(
        max_examples=BATCHES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(fuzz_requests.batches(BEARER))
    def fuzz(batch: list[bytes]) -> None:
        nonlocal sent
        for request, answer in zip(batch, runner.run(ask(batch)), strict=True):
            sent += 1
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            check(answer, request)

    with asyncio.Runner() as runner:
        fuzz()
    print(f"{sent} requests: {dict(sorted(statuses.items()))}")
    assert sent == BATCHES * fuzz_requests.BATCH
    assert {201, 400, 401, 404, 405} <= statuses.keys()
