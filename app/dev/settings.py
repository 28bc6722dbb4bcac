"""What the embedded stack is told at start."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from api.settings import ApiSettings
from app.settings import CollectionSettings, ProviderCheckSettings


@dataclass(frozen=True, kw_only=True)
class DevSettings:
    """Settings of ``dev``.

    Attributes:
        state_directory: Where all state is kept between runs.
        kubeconfig: A cluster to use instead of the embedded one.
        providers_config: A providers file to use instead of the generated one.
        controller_manager: Whether the controller manager is built where it is missing.
    """

    state_directory: Path
    kubeconfig: Path | None = None
    providers_config: Path | None = None
    controller_manager: bool = True
    drift_check_interval: timedelta = timedelta(minutes=2)
    collection: CollectionSettings = field(default_factory=CollectionSettings)
    provider_check: ProviderCheckSettings = field(default_factory=ProviderCheckSettings)
    relist_interval: timedelta = timedelta(minutes=10)
    api: ApiSettings = field(default_factory=lambda: ApiSettings(discovery_addr="127.0.0.1:8090"))
