"""The document is complete and says what is true."""

import ast
import inspect
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from temporalio.client import Client

import api
from api import errors
from api.application import create_app
from api.openapi import openapi_document
from api.openapi_errors import CODES
from api.settings import ApiSettings
from leasing.client import BrokerClient
from tests.api.serving import serving
from tests.leasing.brokers import INSTALLATION

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
DOCUMENT = openapi_document(ApiSettings(token=b"t"))


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield path, method, operation


def content_of(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in [operation.get("requestBody", {}), *operation["responses"].values()]:
        yield from part.get("content", {}).values()


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "components": DOCUMENT["components"]}


async def test_every_route_is_described_and_nothing_else(temporal_client: Client) -> None:
    app = create_app(ApiSettings(), BrokerClient(temporal_client, INSTALLATION), CollectorRegistry())
    routes = {(route.resource.canonical, route.method.lower()) for route in app.router.routes() if route.resource}
    routes -= {(path, "head") for path, method in routes if method == "get"}
    assert routes == {(path, method) for path, method, _ in operations()}


def test_every_code_that_the_sources_raise_is_described() -> None:
    raised = set()
    for file in Path(inspect.getfile(api)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("ApiError") and len(node.args) > 1:
                raised |= {leaf.value for leaf in ast.walk(node.args[1]) if isinstance(leaf, ast.Constant)}
    promised = {code for _, _, operation in operations() for code in codes(operation)}
    assert "no_match" in raised
    assert raised - promised == {"not_found", "method_not_allowed"}
    assert promised <= CODES.keys()
    assert set(CODES) - promised == {"not_found", "method_not_allowed"}


def codes(operation: dict[str, Any]) -> Iterator[str]:
    for status, response in operation["responses"].items():
        for code in response.get("x-error-codes", {}):
            assert CODES[code].status == int(status)
            yield code


@pytest.mark.parametrize(
    "refusal",
    [
        web.HTTPNotFound(),
        web.HTTPMethodNotAllowed("PUT", ["GET"]),
        web.HTTPRequestEntityTooLarge(1, 2),
        web.HTTPExpectationFailed(),
    ],
)
def test_what_aiohttp_refuses_has_a_described_code(refusal: web.HTTPException) -> None:
    error = errors.from_http_exception(refusal)
    assert CODES[error.code].status == error.status == refusal.status


def test_every_example_fits_its_schema() -> None:
    seen = 0
    for path, method, operation in operations():
        for media in content_of(operation):
            examples = [example["value"] for example in media.get("examples", {}).values()]
            examples += [media["example"]] if "example" in media else []
            validator = jsonschema_rs.Draft202012Validator(resolved(media["schema"]), validate_formats=True)
            for example in examples:
                seen += 1
                assert validator.is_valid(example), (path, method, example)
        for parameter in operation.get("parameters", []):
            if "example" in parameter:
                assert jsonschema_rs.is_valid(parameter["schema"], parameter["example"]), parameter
    assert seen > 40


def test_every_schema_is_a_schema_with_words_and_is_used() -> None:
    text = repr(DOCUMENT)
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        assert f"'#/components/schemas/{name}'" in text
        assert schema["description"]
        for field in schema["properties"].values():
            assert field.get("description"), (name, field)


def test_what_is_unlike_an_answer_does_not_fit() -> None:
    lease = DOCUMENT["components"]["schemas"]["Lease"]
    validator = jsonschema_rs.Draft202012Validator(resolved(lease), validate_formats=True)
    assert validator.is_valid(lease["examples"][0])
    changes: list[dict[str, Any]] = [{"leaseID": "x"}, {"expiresAt": "2026-08-11T22:05:00+02:00"}, {"ttlSeconds": 0}]
    for change in [*changes, {"proxy": {}}]:
        assert not validator.is_valid({**lease["examples"][0], **change}), change


def test_limits_are_those_of_the_settings() -> None:
    schemas = openapi_document(ApiSettings(max_lease_ttl=timedelta(minutes=2)))["components"]["schemas"]
    ttl = schemas["LeaseRequest"]["properties"]["ttlSeconds"]
    assert (ttl["maximum"], ttl["default"]) == (120, 120)


def test_the_token_is_asked_for_where_there_is_one() -> None:
    assert DOCUMENT["security"] == [{"bearer": []}]
    assert {} in openapi_document(ApiSettings())["security"]
    open_paths = {path for path, _, operation in operations() if operation.get("security") == []}
    assert open_paths == {"/healthz", "/openapi.json", "/docs"}
    for path, _, operation in operations():
        assert (path in open_paths) != ("401" in operation["responses"])


async def test_the_document_is_served_without_a_token_and_has_no_secret(temporal_client: Client) -> None:
    async with serving(BrokerClient(temporal_client, INSTALLATION), token=b"planted-token") as api:
        answer = await api.ask("GET", "/openapi.json")
        page = await api.ask("GET", "/docs")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.json == DOCUMENT
    assert "planted" not in answer.text + page.text
