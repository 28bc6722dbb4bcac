"""The API's description as one HTML page that loads nothing: no script, no font, no picture."""

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from http import HTTPStatus

from api.docs_page_fields import field_table, json_block, reference_of, schema_of_body
from api.docs_page_style import STYLE
from api.openapi_schemas import Schema

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Allows the page its own style and nothing else."""

_BASE_URL = "$BASE_URL"
_METHODS = ("get", "post", "put", "patch", "delete")


def docs_page(document: Schema) -> str:
    """Return the page of an OpenAPI document.

    Args:
        document: As ``api.openapi.openapi_document`` makes it: references to ``components/schemas`` only.
    """
    title = escape(document["info"]["title"])
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
            _navigation(document),
            f'<main>\n<h1 id="top">{title}</h1>\n',
            prose(document["info"]["description"]),
            _start(document),
            *(_group(document, tag) for tag in document["tags"]),
            _schemas(document),
            _error_codes(document),
            "</main>\n</body>\n</html>\n",
        ]
    )


def prose(text: str) -> str:
    """Return paragraphs, with what stands in backticks as code."""
    paragraphs = (line.strip() for line in re.split(r"\n+", text))
    return "".join(f"<p>{inline(paragraph)}</p>\n" for paragraph in paragraphs if paragraph)


def inline(text: str) -> str:
    """Return one line of text as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _operations(document: Schema, tag: str = "") -> Iterator[tuple[str, str, Schema]]:
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods and (not tag or tag in methods[method]["tags"]):
                yield path, method, methods[method]


def _navigation(document: Schema) -> str:
    parts = ['<nav aria-label="Contents">\n<a href="#top">Start</a>\n']
    for tag in document["tags"]:
        parts.append(f"<p>{escape(tag['name'])}</p>\n<ul>\n")
        for _, method, operation in _operations(document, tag["name"]):
            link = f'<a href="#{operation["operationId"]}">{escape(operation["summary"])}</a>'
            parts.append(f'<li><span class="method {method}">{method}</span>{link}</li>\n')
        parts.append("</ul>\n")
    parts.append("<p>Reference</p>\n<ul>\n")
    parts.extend(f'<li><a href="#schema-{name}">{name}</a></li>\n' for name in document["components"]["schemas"])
    parts.append('<li><a href="#codes">Error codes</a></li>\n<li><a href="openapi.json">openapi.json</a></li>\n')
    return "".join([*parts, "</ul>\n</nav>\n"])


def _start(document: Schema) -> str:
    token = document["components"]["securitySchemes"]["bearer"]["description"]
    needed = "" if _needs_token(document, {}) else " This server asks for none."
    lines = ["export BASE_URL=http://127.0.0.1:8090", "export TOKEN=...   # where one is asked for"]
    return (
        '<h2 id="start">Before you start</h2>\n'
        + prose(f"The examples use two variables. {token}{needed}")
        + f"<pre><code>{escape(chr(10).join(lines))}</code></pre>\n"
    )


def _needs_token(document: Schema, operation: Schema) -> bool:
    schemes: list[Schema] = operation["security"] if "security" in operation else document["security"]
    return bool(schemes) and all(schemes)


def _group(document: Schema, tag: Schema) -> str:
    name = escape(tag["name"])
    operations = (_operation(document, *operation) for operation in _operations(document, tag["name"]))
    return f'<h2 id="group-{name}">{name}</h2>\n{prose(tag["description"])}' + "".join(operations)


def _operation(document: Schema, path: str, method: str, operation: Schema) -> str:
    access = "" if _needs_token(document, operation) else '<p class="soft">Needs no token.</p>\n'
    parts = [
        f'<section>\n<h3 id="{operation["operationId"]}"><span class="method {method}">{method}</span>',
        f"<code>{escape(path)}</code> {escape(operation['summary'])}</h3>\n",
        prose(operation["description"]),
        access,
        f"<pre><code>{escape(curl(document, path, method, operation))}</code></pre>\n",
        _parameters(operation),
    ]
    body = operation.get("requestBody")
    if body:
        parts.append("<h4>Body</h4>\n" + prose(body["description"]))
        parts.append(field_table(schema_of_body(document, body), inline))
    parts.append(_responses(operation))
    return "".join([*parts, "</section>\n"])


def curl(document: Schema, path: str, method: str, operation: Schema) -> str:
    """Return a command that calls the operation with its examples."""
    query: list[str] = []
    headers = ['-H "Authorization: Bearer $TOKEN"'] if _needs_token(document, operation) else []
    for parameter in operation.get("parameters", []):
        example = parameter.get("example")
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", str(example))
        elif example is not None and parameter["in"] == "header":
            headers.append(f"-H '{parameter['name']}: {example}'")
        elif example is not None:
            pairs = example if isinstance(example, dict) else {parameter["name"]: example}
            query += [f"{key}={str(value).lower() if value is True else value}" for key, value in pairs.items()]
    target = f'"{_BASE_URL}{path}{"?" + "&".join(query) if query else ""}"'
    verb = [] if method == "get" else [f"-X {method.upper()}"]
    lines = [" ".join(["curl -sS", *verb, target]), *headers]
    if "requestBody" in operation:
        lines.append(f"-d '{json_block(next(iter(operation['requestBody']['content'].values()))['example'], None)}'")
    return " \\\n  ".join(lines)


def _parameters(operation: Schema) -> str:
    parameters = operation.get("parameters", [])
    if not parameters:
        return ""
    rows = []
    for parameter in parameters:
        required = ' <span class="needed">required</span>' if parameter.get("required") else ""
        name = f"<code>{escape(parameter['name'])}</code>{required}"
        rows.append(f"<tr><td>{name}</td><td>{parameter['in']}</td><td>{inline(parameter['description'])}</td></tr>\n")
    head = "<tr><th>Name</th><th>In</th><th>Meaning</th></tr>\n"
    return f"<h4>Parameters</h4>\n<table>\n{head}{''.join(rows)}</table>\n"


def _responses(operation: Schema) -> str:
    rows = []
    examples = []
    for status, response in operation["responses"].items():
        phrase = f"<code>{status}</code> {HTTPStatus(int(status)).phrase}"
        rows.append(f"<tr><td>{phrase}</td><td>{_response_text(response)}</td></tr>\n")
        examples += [f"<p>{phrase}</p>\n{block}" for block in _example_blocks(response)]
    table = f"<h4>Answers</h4>\n<table>\n<tr><th>Status</th><th>Meaning</th></tr>\n{''.join(rows)}</table>\n"
    if not examples:
        return table
    return f"{table}<details><summary>Examples of answers</summary>\n{''.join(examples)}</details>\n"


def _response_text(response: Schema) -> str:
    codes = response.get("x-error-codes")
    lines = [
        f'<a href="#code-{code}"><code>{code}</code></a> {inline(meaning)}' for code, meaning in (codes or {}).items()
    ] or [inline(response["description"])]
    for media in response.get("content", {}).values():
        name = reference_of(media["schema"])
        if name and not codes:
            lines.append(f'Body: <a href="#schema-{name}">{name}</a>')
    for name, header in response.get("headers", {}).items():
        lines.append(f'<span class="soft">Header <code>{name}</code>: {inline(header["description"])}</span>')
    return "<br>\n".join(lines)


def _example_blocks(response: Schema) -> Iterator[str]:
    for media in response.get("content", {}).values():
        values = [example["value"] for example in media.get("examples", {}).values()]
        if "example" in media:
            values.append(media["example"])
        for value in values:
            shown = value if isinstance(value, str) else json_block(value, 2)
            yield f"<pre><code>{escape(shown, quote=False)}</code></pre>\n"


def _schemas(document: Schema) -> str:
    parts = ['<h2 id="schemas">Objects</h2>\n']
    for name, schema in document["components"]["schemas"].items():
        parts.append(f'<h3 id="schema-{name}">{name}</h3>\n{prose(schema["description"])}')
        parts.append(field_table(schema, inline))
    return "".join(parts)


def _error_codes(document: Schema) -> str:
    meanings: dict[str, tuple[str, str]] = {}
    for _, _, operation in _operations(document):
        for status, response in operation["responses"].items():
            for code, meaning in response.get("x-error-codes", {}).items():
                meanings[code] = (status, meaning)
    rows = (
        f'<tr id="code-{code}"><td><code>{code}</code></td><td>{status}</td><td>{inline(meaning)}</td></tr>\n'
        for code, (status, meaning) in sorted(meanings.items())
    )
    head = "<tr><th>Code</th><th>Status</th><th>Meaning</th></tr>\n"
    return f'<h2 id="codes">Error codes</h2>\n<table>\n{head}{"".join(rows)}</table>\n'
