"""Provider ``local``: one forward-proxy process per instance on this machine, each on an address of its own."""

from providers.local.provider import create_provider
from providers.local.settings import parse_settings

__all__ = ["create_provider", "parse_settings"]
