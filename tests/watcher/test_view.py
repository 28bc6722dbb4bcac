"""Which changes of the fleet call for a poke, and which do not."""

import threading
from typing import Any

import pytest

from model import names
from model.fingerprint import fingerprint
from model.messages import Poke
from model.proxy import CloudInit, ProxySpec, ProxyStatus
from tests.watcher.objects import KEY, proxy
from watcher.view import FleetView

SECRET = ("ns", "init")


def poke(fingerprint_: str, name: str = "one", uid: str = "uid-one") -> Poke:
    return Poke(namespace="ns", name=name, uid=uid, fingerprint=fingerprint_)


def test_a_new_proxy_is_poked_once() -> None:
    view = FleetView()
    assert view.see_proxy(proxy()) == [poke(fingerprint(proxy(), ""))]
    assert view.see_proxy(proxy()) == []
    assert view.keys == [KEY]


@pytest.mark.parametrize(
    "echo",
    [
        {"status": ProxyStatus(phase="Ready", ip="10.0.0.1"), "resource_version": "2"},
        {"annotations": {names.ANNOTATION_SPEC_HASH: "v1-a"}, "resource_version": "3"},
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}},
    ],
)
def test_echoes_of_our_own_writes_poke_nobody(echo: dict[str, Any]) -> None:
    view = FleetView()
    view.see_proxy(proxy())
    assert view.see_proxy(proxy(**echo)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 2},
        {"deleting": True},
        {"annotations": {names.ANNOTATION_RETRY: "1"}},
        {"annotations": {names.ANNOTATION_ROTATE: "1"}},
        {"annotations": {names.ANNOTATION_SKIP_CLEANUP: "true"}},
        {"finalizers": ()},
        {"uid": "uid-of-another"},
    ],
)
def test_what_calls_for_a_step_pokes_exactly_once_each_way(change: dict[str, Any]) -> None:
    view = FleetView()
    view.see_proxy(proxy())
    changed = proxy(**change)
    assert view.see_proxy(changed) == [poke(fingerprint(changed, ""), uid=changed.uid)]
    assert view.see_proxy(changed) == []
    assert len(view.see_proxy(proxy())) == 1


def test_a_deleted_proxy_is_poked_once_without_a_fingerprint() -> None:
    view = FleetView()
    view.see_proxy(proxy())
    assert view.lose_proxy(KEY) == [poke("")]
    assert view.lose_proxy(KEY) == []
    assert len(view.see_proxy(proxy())) == 1


def test_what_a_listing_did_not_show_is_gone() -> None:
    view = FleetView()
    for name in ("one", "two", "three"):
        view.see_proxy(proxy(name))
    assert view.keep_only({("ns", "two")}) == [poke(""), poke("", "three", "uid-three")]
    assert view.keep_only({("ns", "two")}) == []
    assert view.keys == [("ns", "two")]


class TestSecrets:
    def test_a_version_seen_before_its_proxy_is_in_the_first_poke(self) -> None:
        view = FleetView()
        assert view.see_secret(SECRET, "5") == []
        wants = proxy(secret="init")
        assert view.see_proxy(wants) == [poke(fingerprint(wants, "5"))]
        assert view.see_secret(SECRET, "5") == []

    def test_a_version_seen_after_its_proxy_pokes(self) -> None:
        view = FleetView()
        wants = proxy(secret="init")
        assert view.see_proxy(wants) == [poke(fingerprint(wants, ""))]
        for version in ("5", "6", ""):
            assert view.see_secret(SECRET, version) == [poke(fingerprint(wants, version))]
            assert view.see_secret(SECRET, version) == []

    def test_only_proxies_that_name_it_are_poked(self) -> None:
        view = FleetView()
        inline = ProxySpec(mode="Managed", provider="box", cloud_init=CloudInit(inline="init"))
        external = ProxySpec(mode="External", endpoint_host="h", cloud_init=CloudInit(secret_name="init"))
        for bystander in (
            proxy("other", secret="another"),
            proxy("none"),
            proxy("inline", spec=inline),
            proxy("external", spec=external),
            proxy("elsewhere", secret="init", namespace="ns2"),
        ):
            view.see_proxy(bystander)
        for name in ("a", "b"):
            view.see_proxy(proxy(name, secret="init"))
        assert [told.name for told in view.see_secret(SECRET, "5")] == ["a", "b"]

    def test_a_listing_without_it_means_that_it_is_gone(self) -> None:
        view = FleetView()
        view.see_secret(SECRET, "5")
        view.see_secret(("ns", "other"), "6")
        wants = proxy(secret="init")
        view.see_proxy(wants)
        assert view.keep_only_secrets({("ns", "other")}) == [poke(fingerprint(wants, ""))]
        assert view.keep_only_secrets(set()) == []


def test_what_is_on_one_side_only_is_poked_whatever_was_told() -> None:
    view = FleetView()
    for name in ("one", "two"):
        view.see_proxy(proxy(name))
    running = {("ns", "two"), ("ns", "zombie"), ("ns", "abandoned")}
    for _ in range(2):
        assert view.without_counterpart(running) == [
            Poke(namespace="ns", name="abandoned"),
            Poke(namespace="ns", name="zombie"),
            poke(fingerprint(proxy(), "")),
        ]
    assert view.without_counterpart({("ns", "one"), ("ns", "two")}) == []
    assert view.see_proxy(proxy()) == []


def test_phases_are_counted() -> None:
    view = FleetView()
    for number, phase in enumerate(["Ready", "Ready", "Failed", ""]):
        view.see_proxy(proxy(f"p{number}", status=ProxyStatus(phase=phase)))
    assert view.phases() == {"Ready": 2, "Failed": 1, "Pending": 1}
    view.lose_proxy(("ns", "p0"))
    assert view.phases()["Ready"] == 1


def test_phases_can_be_counted_from_another_thread_while_the_fleet_changes() -> None:
    view = FleetView()
    for number in range(2000):
        view.see_proxy(proxy(f"p{number}"))
    done = threading.Event()
    faults: list[BaseException] = []

    def scrape() -> None:
        try:
            while not done.is_set():
                view.phases()
        except RuntimeError as error:
            faults.append(error)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    for number in range(3000):
        view.see_proxy(proxy("extra"))
        view.lose_proxy(("ns", "extra"))
        if number % 100 == 0 and faults:
            break
    done.set()
    scraper.join()
    assert faults == []
