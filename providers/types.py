"""The provider types the config may name, and the package each one lives in.

A backend's package is imported only when the config has an entry of its type, so that a worker needs no SDK it does
not use.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from model.errors import ConfigurationError
from providers.contract import Provider

PROVIDER_PACKAGES = {"kubernetes": "providers.kubernetes", "local": "providers.local"}
"""Type in the config to package; the package offers what ``Backend`` states."""

TYPES_WITHOUT_PACKAGE = ("gcp", "kvm")
"""Legal types of the file format that this version has no provider for."""


class Settings(Protocol):
    """The typed form of a provider's own block: a frozen dataclass."""

    def normalised(self) -> Mapping[str, Any]:
        """Return plain JSON values in which equal settings are equal, however they were written."""

    def exclusive_resource(self) -> str:
        """Return what no other entry of the file may use as well, or "" when nothing is."""


class Backend(Protocol):
    """What the package of a provider type offers."""

    parse_settings: Callable[[Mapping[str, Any], str], Settings]
    """Checks the block found at a place of the file; raises ``ConfigurationError`` that starts with the place."""
    create_provider: Callable[[str, Any], Provider]
    """Makes the provider from its configured name and settings without talking to the backend."""


def load_backend(type_name: str, place: str) -> Backend:
    """Return the backend of a type.

    Raises:
        ConfigurationError: There is no such type, or this version has no provider for it; starts with ``place``.
    """
    package = PROVIDER_PACKAGES.get(type_name)
    if package is not None:
        return cast("Backend", importlib.import_module(package))
    known = ", ".join(sorted(PROVIDER_PACKAGES))
    if type_name in TYPES_WITHOUT_PACKAGE:
        raise ConfigurationError(f"{place}: this version has no provider of type {type_name}; it has: {known}")
    raise ConfigurationError(f'{place}: unknown provider type "{type_name}"; known: {known}')
