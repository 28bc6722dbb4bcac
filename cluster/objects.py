"""Proxy objects as the API server has them, which may be older than the schema that guards new ones."""

import dataclasses
import functools
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from cluster.errors import UnreadableObjectError
from model.errors import cut
from model.proxy import Proxy, proxy_from_object


def read_proxy_object(body: Mapping[str, Any]) -> Proxy:
    """Read a Proxy, and make sure that every field has the type that the rest of the system counts on.

    Raises:
        UnreadableObjectError: It is no Proxy; the message names the object and the field.
    """
    try:
        proxy = proxy_from_object(body)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableObjectError(
            f"Proxy {_identity(body)}: {type(error).__name__}: {cut(str(error), 200)}"
        ) from error
    fault = _fault(proxy, Proxy)
    if fault:
        raise UnreadableObjectError(f"Proxy {_identity(body)}: {fault}")
    return proxy


def _identity(body: Any) -> str:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return "without metadata"
    return cut(f"{metadata.get('namespace')}/{metadata.get('name')} (uid {metadata.get('uid')})", 400)


def _fault(value: Any, hint: Any) -> str:
    """Return what in ``value`` has another type than ``hint`` says, with its place, or ""."""
    origin = get_origin(hint)
    if origin is UnionType:
        return "" if value is None and NoneType in get_args(hint) else _fault(value, get_args(hint)[0])
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return next(filter(None, (_in(name, _fault(getattr(value, name), of)) for name, of in _fields(hint))), "")
    if origin is tuple:
        return next(filter(None, (_fault(part, get_args(hint)[0]) for part in value)), "")
    if origin is Mapping:
        pairs = ((part, of) for pair in value.items() for part, of in zip(pair, get_args(hint), strict=True))
        return next(filter(None, (_fault(part, of) for part, of in pairs)), "")
    # A bool is an int to Python and no number to anybody else.
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return ""
    # The value itself may be somebody's secret in the wrong place.
    return f"{type(value).__name__} is no {hint.__name__}"


def _in(name: str, fault: str) -> str:
    return f"{name}: {fault}" if fault else ""


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(kind))
