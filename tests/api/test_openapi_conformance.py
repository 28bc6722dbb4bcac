"""schemathesis asks the real API everything that the document promises, and things that it forbids."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import negative_data_rejection

from api.list_query import continue_token
from api.openapi import openapi_document
from api.openapi_operations import CONTINUE_FORMAT
from api.openapi_schemas import JSON_TYPE
from api.settings import ApiSettings
from model.lease_operations import RESULTS, SESSION_LIMIT, TEXT_LIMIT
from tests.api.fuzz_target import TOKEN, FuzzTarget, fuzz_target

SEED = int(os.environ.get("FUZZ_SEED", "20261201"))
EXAMPLES = 60


@pytest.fixture(scope="module")
def target(temporal_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzTarget]:
    with fuzz_target(temporal_address, tmp_path_factory.mktemp("conformance")) as target:
        yield target
        target.check_whole()
    print(f"FUZZ_SEED={SEED}: {_answered.total()} requests: {dict(sorted(_answered.items()))}")


schemathesis.openapi.format(CONTINUE_FORMAT, st.text(max_size=30).map(continue_token))

document = schemathesis.openapi.from_dict(
    openapi_document(ApiSettings(token=TOKEN.encode())),
    # The test sends the token itself.
    config=SchemathesisConfig.from_dict(
        {
            "generation": {"with-security-parameters": False},
            # One key with two bodies is no fault of either.
            "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "3xx", "404", "409", "422"]}},
        }
    ),
)


_answered: Counter[int] = Counter()


@document.hook
def after_call(_: object, case: schemathesis.Case[Any], response: schemathesis.Response) -> None:
    _answered[response.status_code] += 1


@document.hook
def filter_case(_: object, case: schemathesis.Case[Any]) -> bool:
    """Leave out what JSON Schema allows and its words forbid: it counts characters, and takes 1.0 for an integer."""
    body = case.body if isinstance(case.body, dict) else {}
    if (
        body.get("sessionMode") == ""
        or len(str(body.get("session", "")).encode("utf-8", "surrogatepass")) > SESSION_LIMIT
    ):
        return False
    texts = [*_texts(body.get("selector")), *_texts(body.get("target")), *_texts(dict(case.query or {}))]
    if any(len(text.encode("utf-8", "surrogatepass")) > TEXT_LIMIT for text in texts):
        return False
    return not any(isinstance(value, float) and value.is_integer() for value in body.values())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from (key, *_texts(inner))


@document.parametrize()
@seed(SEED)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_conforms(case: schemathesis.Case[Any], target: FuzzTarget) -> None:
    # In a URL every value is a text, so what breaks the schema of one may be a good text there.
    textual = any(name.startswith(("attr", "continue")) for name in case.query or {})
    case.call_and_validate(
        base_url=target.url,
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=10,
        excluded_checks=[negative_data_rejection] if textual else [],
    )


def test_the_links_of_a_lease_lead_through_its_life(target: FuzzTarget) -> None:
    def ask(operation_id: str, **parts: Any) -> schemathesis.Response:
        case = document.find_operation_by_id(operation_id).Case(**parts)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return case.call_and_validate(base_url=target.url, headers=headers, timeout=10)

    acquire = document.find_operation_by_id("acquireLease")
    links = acquire.definition.raw["responses"]["201"]["links"]
    assert {link["parameters"]["id"] for link in links.values()} == {"$response.body#/leaseID"}
    assert links.keys() == {"getLease", "renewLease", "reportLease", "releaseLease"}

    for result in RESULTS:
        wanted = {"selector": {"geo": "eu"}, "target": result, "session": result}
        lease = ask("acquireLease", body=wanted, media_type=JSON_TYPE)
        if "transport_error" in RESULTS[: RESULTS.index(result)]:
            assert lease.status_code == 409  # Until a probe has looked, and none does here.
            continue
        place = {"path_parameters": {"id": lease.json()["leaseID"]}}
        assert ask("getLease", **place).json() == lease.json()
        assert ask("renewLease", **place, body={"ttlSeconds": 60}, media_type=JSON_TYPE).json()["ttlSeconds"] == 60
        assert ask("reportLease", **place, body={"result": result}, media_type=JSON_TYPE).status_code == 204
        assert ask("releaseLease", **place).status_code == 204
        assert ask("getLease", **place).status_code == 404
        assert ask("renewLease", **place, body={}, media_type=JSON_TYPE).status_code == 404
