"""Provider ``kubernetes``: one Pod with squid per instance."""

from providers.kubernetes.provider import create_provider
from providers.kubernetes.settings import parse_settings

__all__ = ["create_provider", "parse_settings"]
