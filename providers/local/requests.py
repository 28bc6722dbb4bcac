"""Refuses what a box can never do, before anything is touched."""

from model.errors import PermanentError
from providers.contract import CreateRequest
from providers.fields import DNS_LABEL


def check_request(request: CreateRequest) -> None:
    """Check a create.

    Raises:
        PermanentError: Names the field and its value, never the cloud-init.
    """
    check_name(request.name)
    placement = request.placement
    given = {
        "spec.placement.region": placement.region,
        "spec.placement.zone": placement.zone,
        "spec.placement.machineType": placement.machine_type,
        "spec.placement.image": placement.image,
    }
    for field, value in given.items():
        if value:
            raise PermanentError(f"{field}: a local provider has no placement, remove {value[:80]!r}")
    if request.cloud_init is not None:
        raise PermanentError("spec.cloudInit: a local provider has no machine to give it to, remove it")
    if not 1 <= request.port <= 65535:
        raise PermanentError(f"spec.port: must be 1 to 65535, not {request.port}")


def check_name(name: str) -> None:
    """Check that an instance name is a DNS label, and with it harmless as the name of a folder.

    Raises:
        PermanentError: It is not.
    """
    if not DNS_LABEL.fullmatch(name):
        raise PermanentError(f"instance name: must be a DNS label, not {name[:80]!r}")
