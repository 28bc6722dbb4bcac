"""The query of ``GET /v1/proxies``: filter and page."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from api.body import is_writable
from api.errors import ApiError
from model.lease_index import matches
from model.lease_list import ListedProxy
from model.lease_operations import SELECTOR_PAIRS_LIMIT, TEXT_LIMIT

PAGE_LIMIT = 2000
"""Most proxies in one answer."""
CONTINUE_LIMIT = 1024
"""Longest value of ``continue``; an id of two names has 507 bytes at most."""

_ATTRIBUTE_PREFIX = "attr."
_HEALTHY = {"true": True, "false": False}


@dataclass(frozen=True)
class ListQuery:
    """Which proxies to list.

    Attributes:
        selector: Attributes they must have, as sorted pairs.
        healthy: None lists both.
        limit: How many at most.
        after: The id that the page before ended with, or "".
    """

    selector: tuple[tuple[str, str], ...] = ()
    healthy: bool | None = None
    limit: int = PAGE_LIMIT
    after: str = ""

    def accepts(self, proxy: ListedProxy) -> bool:
        """Whether the proxy is wanted, on whatever page."""
        if self.healthy is not None and proxy.view.healthy is not self.healthy:
            return False
        return not self.selector or matches(dict(self.selector), proxy.view.attributes)


def parse_query(query: Mapping[str, str]) -> ListQuery:
    """Read a query; of a repeated key the first value counts, other keys are ignored.

    Raises:
        ApiError: 400 ``invalid_query`` with the parameter's name.
    """
    return ListQuery(
        selector=_selector(query), healthy=_healthy(query), limit=_limit(query), after=_after(query.get("continue", ""))
    )


def continue_token(proxy_id: str) -> str:
    """Return the value of ``continue`` for what comes after this proxy."""
    return base64.urlsafe_b64encode(proxy_id.encode()).decode().rstrip("=")


def _healthy(query: Mapping[str, str]) -> bool | None:
    healthy = query.get("healthy")
    if healthy is None:
        return None
    if healthy not in _HEALTHY:
        raise _invalid(f"healthy must be true or false, got {healthy[:32]!r}")
    return _HEALTHY[healthy]


def _selector(query: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    selector: dict[str, str] = {}
    for name, value in query.items():
        if name.startswith(_ATTRIBUTE_PREFIX):
            selector.setdefault(name.removeprefix(_ATTRIBUTE_PREFIX), value)
    if len(selector) > SELECTOR_PAIRS_LIMIT:
        raise _invalid(f"at most {SELECTOR_PAIRS_LIMIT} attributes (attr.<key>) can be asked for")
    for text in (*selector, *selector.values()):
        if not is_writable(text) or len(text.encode()) > TEXT_LIMIT:
            raise _invalid(f"attr.<key> and its value must be Unicode of at most {TEXT_LIMIT} bytes")
    return tuple(sorted(selector.items()))


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit")
    if text is None:
        return PAGE_LIMIT
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(PAGE_LIMIT))
    if not is_number or not 1 <= int(text) <= PAGE_LIMIT:
        raise _invalid(f"limit must be between 1 and {PAGE_LIMIT}, got {text[:32]!r}")
    return int(text)


def _after(token: str) -> str:
    try:
        if len(token) > CONTINUE_LIMIT:
            raise ValueError("too long")
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise _invalid("continue must be what an earlier answer had in that field") from None


def _invalid(message: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "invalid_query", message)
