"""Names that backends and Temporal must accept, and that no two proxies may share."""

import re
import string

from hypothesis import given
from hypothesis import strategies as st

from model import names

LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
KUBERNETES_NAMES = st.text(alphabet=string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=253)


@given(st.text(max_size=300))
def test_an_instance_name_is_a_label_that_every_backend_takes(uid: str) -> None:
    name = names.instance_name(uid)
    assert re.fullmatch(r"proxy-[a-z2-7]{16}", name)
    assert LABEL.fullmatch(name)
    assert name == names.instance_name(uid)


def test_an_instance_name_is_the_one_of_the_reference() -> None:
    # From `openssl dgst -sha256 -binary | base32`: instances made before are found under it.
    assert names.instance_name("0b1c2d3e-0000-4000-8000-000000000000") == "proxy-gmuplzuywfdb7ibs"


def test_instance_names_of_many_uids_differ() -> None:
    assert len({names.instance_name(f"uid-{number}") for number in range(20_000)}) == 20_000


@given(KUBERNETES_NAMES, KUBERNETES_NAMES)
def test_a_workflow_id_fits_temporal_and_is_readable(namespace: str, name: str) -> None:
    workflow_id = names.proxy_workflow_id(namespace, name)
    assert len(workflow_id) <= 255
    assert workflow_id.startswith(f"proxy/{namespace}"[:200])
    if len(namespace) + len(name) <= 248:
        assert workflow_id == f"proxy/{namespace}/{name}"


def test_the_longest_id_that_fits_is_not_shortened() -> None:
    name = "n" * (255 - len("proxy/ns/"))
    assert names.proxy_workflow_id("ns", name) == f"proxy/ns/{name}"
    assert names.proxy_workflow_id("ns", name + "n") != f"proxy/ns/{name}n"


def test_long_names_that_differ_only_at_their_end_have_different_ids() -> None:
    common = "n" * 252
    ids = {names.proxy_workflow_id("namespace", common + last) for last in string.ascii_lowercase}
    assert len(ids) == 26
    assert {len(workflow_id) for workflow_id in ids} == {255}


def test_a_long_name_does_not_take_the_id_of_another_proxy() -> None:
    shortened = names.proxy_workflow_id("ns", "n" * 253)
    namesake = shortened.removeprefix("proxy/ns/")
    assert len(namesake) <= 253
    # The one collision that can be made on purpose needs the first proxy's hash in the second one's name.
    assert names.proxy_workflow_id("ns", namesake[:-1] + "x") != shortened
