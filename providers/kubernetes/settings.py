"""The ``kubernetes`` block of the providers file."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from model.errors import ConfigurationError
from providers import fields

DEFAULT_IMAGE = "ubuntu/squid:6.6-24.04_edge"
"""The reference operator's default. Any image with a shell and squid on its PATH will do."""
DEFAULT_RESOURCES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
)
"""squid without a cache takes about 30 MiB and 10 KiB for each tunnel. No limit of CPU: throttling shows as latency."""

_KEYS = (
    "context",
    "image",
    "imagePullSecrets",
    "kubeconfig",
    "namespace",
    "nodeSelector",
    "resources",
    "tolerations",
)
_TOLERATION_STRINGS = ("effect", "key", "operator", "value")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([eE][0-9]+|[munkMGTPE]|[KMGTPE]i)?")


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """Where Pods are made, and what they are made of.

    Attributes:
        kubeconfig: Absolute path of the credentials; None means those of the worker's own Pod, else ``KUBECONFIG``.
        context: Context of the kubeconfig, "" for its current one.
        namespace: Where all Pods are made; "" means each in the namespace of its Proxy.
        image: Image of the Pods.
        resources: ``requests`` and ``limits`` of the container, as in a Pod.
        node_selector: Labels of the nodes that Pods may run on.
        tolerations: As in a Pod.
        image_pull_secrets: Names of Secrets in the Pods' namespace.
    """

    kubeconfig: Path | None
    context: str
    namespace: str
    image: str
    resources: Mapping[str, Mapping[str, str]]
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, str | int], ...]
    image_pull_secrets: tuple[str, ...]

    def normalised(self) -> Mapping[str, Any]:
        """Return the settings as plain JSON values."""
        return {
            "kubeconfig": str(self.kubeconfig or ""),
            "context": self.context,
            "namespace": self.namespace,
            "image": self.image,
            "resources": {kind: dict(amounts) for kind, amounts in self.resources.items() if amounts},
            "nodeSelector": dict(self.node_selector),
            "tolerations": sorted(
                (dict(one) for one in self.tolerations), key=lambda one: sorted(map(str, one.items()))
            ),
            "imagePullSecrets": sorted(self.image_pull_secrets),
        }

    def exclusive_resource(self) -> str:
        """Return "": entries may share a namespace, for a Pod's name and marks say which Proxy it belongs to."""
        return ""


def parse_settings(block: Mapping[str, Any], place: str) -> KubernetesSettings:
    """Check the block.

    Raises:
        ConfigurationError: Starts with the place of the fault.
    """
    fields.check_keys(block, _KEYS, place)
    kubeconfig = fields.optional_string(block, "kubeconfig", place)
    if kubeconfig and (not os.path.isabs(kubeconfig) or "\0" in kubeconfig):
        raise ConfigurationError(f"{place}.kubeconfig: must be an absolute path, not {kubeconfig[:200]!r}")
    context = fields.optional_string(block, "context", place)
    if context and not kubeconfig:
        raise ConfigurationError(f"{place}.context: names a context of kubeconfig, which is not set")
    namespace = fields.optional_string(block, "namespace", place)
    image = fields.optional_string(block, "image", place) or DEFAULT_IMAGE
    if image.strip() != image or not image.isprintable():
        raise ConfigurationError(f"{place}.image: must be the name of an image, not {image[:200]!r}")
    return KubernetesSettings(
        kubeconfig=Path(os.path.normpath(kubeconfig)) if kubeconfig else None,
        context=context,
        namespace=fields.dns_label(block, "namespace", place) if namespace else "",
        image=image,
        resources=_resources(block, f"{place}.resources"),
        node_selector=_strings(block.get("nodeSelector"), f"{place}.nodeSelector"),
        tolerations=_tolerations(block.get("tolerations"), f"{place}.tolerations"),
        image_pull_secrets=_names(block.get("imagePullSecrets"), f"{place}.imagePullSecrets"),
    )


def _resources(block: Mapping[str, Any], place: str) -> Mapping[str, Mapping[str, str]]:
    """Return the given amounts in the place of all defaults, so that a request cannot meet a default limit below it."""
    value = block.get("resources")
    if value is None:
        return DEFAULT_RESOURCES
    given = fields.mapping(value, place)
    fields.check_keys(given, ("requests", "limits"), place)
    return {kind: _quantities(amounts, f"{place}.{kind}") for kind, amounts in given.items()}


def _quantities(value: Any, place: str) -> Mapping[str, str]:
    amounts = fields.mapping({} if value is None else value, place)
    for name, amount in amounts.items():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not (is_number or isinstance(amount, str)) or not _QUANTITY.fullmatch(str(amount)):
            raise ConfigurationError(
                f"{place}.{name}: must be a quantity such as 100m or 64Mi, not {str(amount)[:80]!r}"
            )
    return {name: str(amount) for name, amount in amounts.items()}


def _strings(value: Any, place: str) -> Mapping[str, str]:
    given = fields.mapping({} if value is None else value, place)
    return {key: fields.optional_string(given, key, place) for key in given}


def _tolerations(value: Any, place: str) -> tuple[Mapping[str, str | int], ...]:
    items = fields.sequence([] if value is None else value, place)
    return tuple(_toleration(item, f"{place}[{index}]") for index, item in enumerate(items))


def _toleration(item: Any, place: str) -> Mapping[str, str | int]:
    given = fields.mapping(item, place)
    fields.check_keys(given, (*_TOLERATION_STRINGS, "tolerationSeconds"), place)
    seconds = given.get("tolerationSeconds")
    if seconds is not None and (not isinstance(seconds, int) or isinstance(seconds, bool)):
        raise ConfigurationError(f"{place}.tolerationSeconds: must be an integer, not {fields.kind(seconds)}")
    strings = {key: fields.optional_string(given, key, place) for key in _TOLERATION_STRINGS if key in given}
    return strings if seconds is None else {**strings, "tolerationSeconds": seconds}


def _names(value: Any, place: str) -> tuple[str, ...]:
    items = fields.sequence([] if value is None else value, place)
    for index, item in enumerate(items):
        if not isinstance(item, str) or not item:
            raise ConfigurationError(f"{place}[{index}]: must be the name of a Secret, not {fields.kind(item)}")
    return tuple(items)
