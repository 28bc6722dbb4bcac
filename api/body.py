"""Reading request bodies that may be anything."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from api.errors import ApiError, invalid_body

READ_SECONDS = 10.0
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")


async def read_object(request: web.Request) -> dict[str, Any]:
    """Return the JSON object in the body, whatever content type it claims.

    Raises:
        ApiError: There is none; too large (413), too slow (408), another charset (415), otherwise 400.
    """
    if (request.charset or "utf-8").lower() not in _CHARSETS:
        message = "the charset of the body must be utf-8"
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    raw = await _read(request)
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise invalid_body("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise invalid_body(f"the body is not JSON: {error.msg} at position {error.pos}") from None
    except ValueError:
        # A number of more digits than Python converts, or a constant that JSON does not have.
        raise invalid_body("the body has a number that is out of range") from None
    except RecursionError:
        raise invalid_body("the body is nested too deeply") from None
    if not isinstance(body, dict):
        raise invalid_body("the body must be a JSON object")
    return body


async def _read(request: web.Request) -> bytes:
    try:
        if request.content.is_eof():
            # It came with the head, as nearly all do: nothing to wait for.
            return await request.read()
        async with asyncio.timeout(READ_SECONDS):
            return await request.read()
    except TimeoutError:
        raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "request_timeout", "the body did not arrive in time") from None
    except (HttpProcessingError, web.RequestPayloadError, ConnectionError):
        raise invalid_body("the body cannot be read as its headers announce it") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def text_field(body: dict[str, Any], name: str, limit: int) -> str:
    """Return an optional text; absent and null are "".

    Args:
        body: The request's object.
        name: The field.
        limit: Longest value in bytes of UTF-8.

    Raises:
        ApiError: 400 with the field's name.
    """
    value = body.get(name)
    return "" if value is None else check_text(value, name, limit)


def check_text(value: Any, name: str, limit: int) -> str:
    """Return ``value`` if it is text that can be written anywhere.

    Raises:
        ApiError: 400 with the name.
    """
    if not isinstance(value, str):
        raise invalid_body(f"{name} must be a string")
    if not is_writable(value):
        raise invalid_body(f"{name} is not valid Unicode")
    if len(value.encode()) > limit:
        raise invalid_body(f"{name} must be at most {limit} bytes")
    return value


def is_writable(text: str) -> bool:
    """Whether the text has a UTF-8 form: JSON and URLs can name surrogates that have none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def integer_field(body: dict[str, Any], name: str) -> int:
    """Return an optional integer; absent and null are 0.

    Raises:
        ApiError: 400 with the field's name.
    """
    value = body.get(name)
    if value is None:
        return 0
    if type(value) is not int:
        raise invalid_body(f"{name} must be an integer")
    return value
