"""Typed reading of the mappings in the providers file; every error starts with the place of the fault."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from model.errors import ConfigurationError

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
MAX_QUEUE_LENGTH = 255


def mapping(value: Any, place: str) -> Mapping[str, Any]:
    """Return ``value`` as a mapping with string keys."""
    if not isinstance(value, dict):
        raise ConfigurationError(f"{place}: must be a mapping, not {kind(value)}")
    for key in value:
        if not isinstance(key, str):
            raise ConfigurationError(f'{place}: the key "{key}" must be a string, not {kind(key)}')
    return value


def sequence(value: Any, place: str) -> list[Any]:
    """Return ``value`` as a list."""
    if not isinstance(value, list):
        raise ConfigurationError(f"{place}: must be a list, not {kind(value)}")
    return value


def check_keys(block: Mapping[str, Any], known: Collection[str], place: str) -> None:
    """Refuse keys that nothing reads."""
    for key in block:
        if key not in known:
            raise ConfigurationError(f'{place}: unknown key "{key}"; known: {", ".join(sorted(known))}')


def required_string(block: Mapping[str, Any], key: str, place: str) -> str:
    """Return a string that must be there and not be empty."""
    if block.get(key) is None:
        raise ConfigurationError(f"{place}.{key}: required")
    value = optional_string(block, key, place)
    if not value:
        raise ConfigurationError(f"{place}.{key}: must not be empty")
    return value


def optional_string(block: Mapping[str, Any], key: str, place: str) -> str:
    """Return a string, or "" when it is absent."""
    value = block.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigurationError(f"{place}.{key}: must be a string, not {kind(value)}")
    return value


def optional_positive_integer(block: Mapping[str, Any], key: str, place: str) -> int | None:
    """Return an integer of at least 1, or None when it is absent."""
    value = block.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigurationError(f"{place}.{key}: must be an integer, not {kind(value)}")
    if value < 1:
        raise ConfigurationError(f"{place}.{key}: must be at least 1, not {value}")
    return value


def dns_label(block: Mapping[str, Any], key: str, place: str) -> str:
    """Return a required string that is a DNS label (RFC 1123) in lower case."""
    value = required_string(block, key, place)
    if not DNS_LABEL.fullmatch(value):
        raise ConfigurationError(
            f"{place}.{key}: must be a DNS label (a-z, 0-9 and -, at most 63 characters), not {value[:80]!r}"
        )
    return value


def queue_name(block: Mapping[str, Any], key: str, place: str) -> str:
    """Return the name of a Temporal task queue, or "" when it is absent."""
    value = optional_string(block, key, place)
    if len(value) > MAX_QUEUE_LENGTH or not value.isprintable() or value != value.strip():
        raise ConfigurationError(
            f"{place}.{key}: must be at most {MAX_QUEUE_LENGTH} printable characters without space around them"
        )
    return value


def kind(value: Any) -> str:
    """Return what YAML calls the type of ``value``."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "a boolean"
    names = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "a mapping"}
    return names.get(type(value), f"a {type(value).__name__}")
