"""The page for people: whole, well-formed, and loading nothing."""

import base64
import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import AsyncIterator
from html.parser import HTMLParser

import pytest
from temporalio.client import Client

from api.docs_page import curl, docs_page
from api.openapi import openapi_document
from api.settings import ApiSettings
from leasing.client import BrokerClient
from tests.api.serving import Answer, serving
from tests.leasing.brokers import INSTALLATION

DOCUMENT = openapi_document(ApiSettings(token=b"t"))
VOID = {"meta", "br", "link", "img", "hr"}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids[value or ""] += 1
            if name == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
async def answer(temporal_client: Client) -> AsyncIterator[Answer]:
    async with serving(BrokerClient(temporal_client, INSTALLATION), token=b"t") as api:
        yield await api.ask("GET", "/docs")


def test_it_is_well_formed_and_its_links_lead_somewhere() -> None:
    page = Page(docs_page(DOCUMENT))
    assert page.open == []
    assert set(page.ids.values()) == {1}
    assert "openapi.json" in page.links
    for link in page.links:
        assert link == "openapi.json" or (link.startswith("#") and link[1:] in page.ids), link


def test_it_loads_nothing() -> None:
    text = docs_page(DOCUMENT)
    page = Page(text)
    assert not page.tags.keys() & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not page.attributes & {"src", "srcset", "style", "action", "background"}
    assert not [name for name in page.attributes if name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"https?://[^\s<\"]+", text) == ["http://127.0.0.1:8090"]


def test_it_names_every_operation_field_and_code() -> None:
    page = Page(docs_page(DOCUMENT))
    for path, item in DOCUMENT["paths"].items():
        assert path in page.text
        for operation in item.values():
            assert operation["operationId"] in page.ids
            assert operation["summary"] in page.text
            for parameter in operation.get("parameters", []):
                assert parameter["name"] in page.text
            for response in operation["responses"].values():
                assert all(f"code-{code}" in page.ids for code in response.get("x-error-codes", {}))
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f"schema-{name}" in page.ids
        assert all(field in page.text for field in schema["properties"])


def test_text_of_the_document_is_escaped() -> None:
    document = openapi_document(ApiSettings())
    document["info"]["description"] = "<script>alert(1)</script> `a<b` & more"
    assert "<script" not in docs_page(document)
    assert "<code>a&lt;b</code> &amp; more" in docs_page(document)


def test_its_commands_are_what_a_shell_takes() -> None:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            words = shlex.split(curl(DOCUMENT, path, method, operation).replace("\\\n", " "))
            assert words[:2] == ["curl", "-sS"]
            assert "{" not in next(word for word in words if word.startswith("$BASE_URL"))
            if "requestBody" in operation:
                assert isinstance(json.loads(words[words.index("-d") + 1]), dict)
            assert ("Authorization: Bearer $TOKEN" in words) == (operation.get("security") != [])


async def test_the_policy_lets_it_load_only_its_own_style(answer: Answer) -> None:
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    styles = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert len(styles) == 1
    digest = base64.b64encode(hashlib.sha256(styles[0].encode()).digest()).decode()
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
