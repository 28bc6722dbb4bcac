"""The block of the providers file."""

from pathlib import Path
from typing import Any

import pytest

from model.errors import ConfigurationError
from providers.config import parse_providers
from providers.kubernetes.settings import DEFAULT_IMAGE, DEFAULT_RESOURCES, parse_settings

SAMPLES = Path(__file__).parents[3] / "deploy" / "samples"


def test_the_references_entry_without_a_block_is_taken() -> None:
    (entry,) = parse_providers(
        b"providers: [{name: kubernetes, type: kubernetes}]", "providers.yaml", require_local_task_queue=True
    )
    settings = parse_settings({}, "kubernetes")
    assert entry.settings == settings
    assert (settings.image, settings.namespace, settings.kubeconfig) == (DEFAULT_IMAGE, "", None)
    assert settings.resources == DEFAULT_RESOURCES


def test_two_entries_may_share_a_namespace() -> None:
    text = b"providers: [{name: a, type: kubernetes}, {name: b, type: kubernetes, kubernetes: {image: x}}]"
    assert len(parse_providers(text, "providers.yaml", require_local_task_queue=True)) == 2


def test_the_sample_is_taken() -> None:
    path = SAMPLES / "providers_kubernetes.yaml"
    (entry,) = parse_providers(path.read_bytes(), str(path), require_local_task_queue=True)
    assert entry.type == "kubernetes"


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"imgae": "x"}, 'p: unknown key "imgae"'),
        ({"image": 3}, "p.image: must be a string, not an integer"),
        ({"image": "a b\n"}, "p.image: must be the name of an image"),
        ({"namespace": "Team_A"}, "p.namespace: must be a DNS label"),
        ({"kubeconfig": "relative"}, "p.kubeconfig: must be an absolute path, not 'relative'"),
        ({"context": "c"}, "p.context: names a context of kubeconfig"),
        ({"resources": {"claims": []}}, 'p.resources: unknown key "claims"'),
        ({"resources": {"limits": {"memory": "much"}}}, "p.resources.limits.memory: must be a quantity"),
        ({"resources": {"limits": {"memory": True}}}, "p.resources.limits.memory: must be a quantity"),
        ({"resources": {"limits": {"memory": -1}}}, "p.resources.limits.memory: must be a quantity"),
        ({"resources": []}, "p.resources: must be a mapping, not a list"),
        ({"nodeSelector": {"a": 1}}, "p.nodeSelector.a: must be a string, not an integer"),
        ({"tolerations": [{"kee": "a"}]}, 'p.tolerations[0]: unknown key "kee"'),
        ({"tolerations": [{"tolerationSeconds": "1"}]}, "p.tolerations[0].tolerationSeconds: must be an integer"),
        ({"imagePullSecrets": [{"name": "a"}]}, "p.imagePullSecrets[0]: must be the name of a Secret, not a mapping"),
    ],
)
def test_a_wrong_block_names_the_place(block: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_settings(block, "p")
    assert str(refused.value).startswith(text)


def test_given_resources_replace_every_default() -> None:
    settings = parse_settings({"resources": {"requests": {"memory": "512Mi", "cpu": 1}}}, "p")
    assert settings.resources == {"requests": {"memory": "512Mi", "cpu": "1"}}


def test_what_is_equal_is_normalised_alike() -> None:
    spelled_out = parse_settings(
        {"image": DEFAULT_IMAGE, "resources": {k: dict(v) for k, v in DEFAULT_RESOURCES.items()}, "tolerations": []},
        "p",
    )
    assert spelled_out.normalised() == parse_settings({}, "p").normalised()
    one, other = {"key": "a"}, {"operator": "Exists"}
    assert (
        parse_settings({"tolerations": [one, other]}, "p").normalised()
        == parse_settings({"tolerations": [other, one]}, "p").normalised()
    )
    assert parse_settings({"image": "x"}, "p").normalised() != parse_settings({"image": "y"}, "p").normalised()
