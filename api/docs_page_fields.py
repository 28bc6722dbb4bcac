"""Tables of an object's fields, for the page at ``/docs``."""

import json
from collections.abc import Callable
from html import escape
from typing import Any

from api.openapi_schemas import Schema

_REFERENCE = "#/components/schemas/"


def json_block(value: Any, indent: int | None) -> str:
    """Return a value as JSON for people."""
    return json.dumps(value, indent=indent, ensure_ascii=False)


def schema_of_body(document: Schema, body: Schema) -> Schema:
    """Return the schema of a request body, with its reference followed."""
    schema: Schema = next(iter(body["content"].values()))["schema"]
    name = reference_of(schema)
    return document["components"]["schemas"][name] if name else schema


def reference_of(schema: Schema) -> str:
    """Return the name that a schema refers to, itself or as the only one of ``allOf``; "" if it does not."""
    parts = schema.get("allOf", [schema])
    return str(parts[0].get("$ref", "")).removeprefix(_REFERENCE)


def field_table(schema: Schema, inline: Callable[[str], str]) -> str:
    """Return the table of an object's properties.

    Args:
        schema: The object's schema.
        inline: Writes a description as HTML.
    """
    needed = schema.get("required", [])
    rows = []
    for name, field in schema.get("properties", {}).items():
        mark = ' <span class="needed">required</span>' if name in needed else ""
        cells = [f"<code>{escape(name)}</code>{mark}", _type(field), inline(field.get("description", ""))]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n")
    if not rows:
        return ""
    return f"<table>\n<tr><th>Field</th><th>Type</th><th>Meaning</th></tr>\n{''.join(rows)}</table>\n"


def _type(field: Schema) -> str:
    name = reference_of(field)
    if name:
        return f'<a href="#schema-{name}">{name}</a>'
    kinds = field.get("type", "")
    kind = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if kind == "array":
        return f"array of {_type(field['items'])}"
    return "<br>\n".join([kind, *(f'<span class="soft">{limit}</span>' for limit in _limits(field))])


def _limits(field: Schema) -> list[str]:
    limits = []
    if "enum" in field:
        limits.append(" · ".join(f"<code>{escape(str(word))}</code>" for word in field["enum"] if word is not None))
    if "const" in field:
        limits.append(f"<code>{escape(str(field['const']))}</code>")
    if "minimum" in field and "maximum" in field:
        limits.append(f"{field['minimum']:,} to {field['maximum']:,}")
    elif "minimum" in field:
        limits.append(f"at least {field['minimum']:,}")
    if "x-maxBytes" in field:
        limits.append(f"at most {field['x-maxBytes']} bytes")
    if "maxProperties" in field:
        limits.append(f"at most {field['maxProperties']} pairs")
    if "default" in field:
        limits.append(f"default {escape(str(field['default']))}")
    return limits
