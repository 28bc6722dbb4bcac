"""The providers file: what it means, and the one line each mistake gets."""

import os
from pathlib import Path

import pytest

from model.errors import ConfigurationError
from providers.config import ProviderEntry, ProvidersFile, parse_providers
from providers.local.settings import LocalSettings, Software

LOCAL = "local: {addresses: [127.0.1.0/24], stateDir: /state}"


def parse(text: str, *, require_local_task_queue: bool = False) -> tuple[ProviderEntry, ...]:
    return parse_providers(text.encode(), "file.yaml", require_local_task_queue=require_local_task_queue)


def entry(extra: str = "", name: str = "box1", block: str = LOCAL) -> str:
    return f"providers: [{{name: {name}, type: local, {block}{', ' + extra if extra else ''}}}]"


def test_reads_a_complete_entry() -> None:
    (provider,) = parse(
        entry(
            "taskQueue: box-1, probeTaskQueue: box-1-probes, maxInstances: 7, maxConcurrentCreates: 2",
            block="local: {software: squid, addresses: [127.0.1.0/30, 10.0.0.9], stateDir: /state/}",
        )
    )
    assert (provider.name, provider.type) == ("box1", "local")
    assert (provider.task_queue, provider.probe_task_queue) == ("box-1", "box-1-probes")
    assert (provider.max_instances, provider.max_concurrent_creates) == (7, 2)
    settings = provider.settings
    assert isinstance(settings, LocalSettings)
    assert settings.software is Software.SQUID
    assert settings.state_dir == Path("/state")
    assert list(settings.addresses()) == ["10.0.0.9", "127.0.1.1", "127.0.1.2"]


def test_fills_in_the_defaults() -> None:
    (provider,) = parse(entry())
    assert (provider.task_queue, provider.probe_task_queue) == ("egress-provider", "egress-probes")
    assert (provider.max_instances, provider.max_concurrent_creates) == (None, None)
    assert isinstance(provider.settings, LocalSettings)
    assert provider.settings.software is Software.AUTO


@pytest.mark.parametrize("text", ["", "providers: []", "providers:", "{}"])
def test_a_file_without_providers_is_legal(text: str) -> None:
    assert parse(text) == ()


def test_anchors_and_a_byte_order_mark_are_legal() -> None:
    text = """\ufeff
    providers:
      - {name: a, type: local, local: {addresses: &net [127.0.1.0/24], stateDir: /a}}
      - {name: b, type: local, local: {addresses: *net, stateDir: /b}}
    """
    assert [provider.name for provider in parse(text)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the document: must be a mapping, not a list"),
        ("provider: []", 'the document: unknown key "provider"; known: providers'),
        ("providers: {}", "providers: must be a list, not a mapping"),
        ("providers: x", "providers: must be a list, not a string"),
        ("providers: [x]", "providers[0]: must be a mapping, not a string"),
        ("providers: [{1: x}]", 'providers[0]: the key "1" must be a string, not an integer'),
        ("providers: [{type: local}]", "providers[0].name: required"),
        ("providers: [{name: '', type: local}]", "providers[0].name: must not be empty"),
        (entry(name="true"), "providers[0].name: must be a string, not a boolean"),
        (
            entry(name="Box_1"),
            "providers[0].name: must be a DNS label (a-z, 0-9 and -, at most 63 characters), not 'Box_1'",
        ),
        (
            entry(name="a" * 64),
            "providers[0].name: must be a DNS label (a-z, 0-9 and -, at most 63 characters), not '" + "a" * 64 + "'",
        ),
        ("providers: [{name: a}]", "providers[0].type: required"),
        (
            "providers: [{name: a, type: lokal}]",
            'providers[0].type: unknown provider type "lokal"; known: kubernetes, local',
        ),
        (
            "providers: [{name: a, type: gcp, gcp: {project: x}}]",
            "providers[0].type: this version has no provider of type gcp; it has: kubernetes, local",
        ),
        (
            "providers: [{name: a, type: local, gcp: {}}]",
            'providers[0]: unknown key "gcp"; known: local, maxConcurrentCreates, maxInstances, name, '
            "probeTaskQueue, taskQueue, type",
        ),
        ("providers: [{name: a, type: local, local: []}]", "providers[0].local: must be a mapping, not a list"),
        ("providers: [{name: a, type: local}]", "providers[0].local.stateDir: required"),
        (
            entry(block="local: {softwre: squid}"),
            'providers[0].local: unknown key "softwre"; known: addresses, software, stateDir',
        ),
        (
            entry(block="local: {software: nginx, addresses: [127.0.0.2], stateDir: /s}"),
            "providers[0].local.software: must be one of auto, squid, proxy.py, not 'nginx'",
        ),
        (entry(block="local: {stateDir: /s}"), "providers[0].local.addresses: required"),
        (
            entry(block="local: {addresses: [], stateDir: /s}"),
            "providers[0].local.addresses: must name at least one IPv4 address or network",
        ),
        (
            entry(block="local: {addresses: [127.0.1.1, 7], stateDir: /s}"),
            "providers[0].local.addresses[1]: must be a string, not an integer",
        ),
        (
            entry(block="local: {addresses: ['::1'], stateDir: /s}"),
            "providers[0].local.addresses[0]: must be an IPv4 address or network such as 127.0.1.0/24, not '::1': "
            "not an IPv4 address",
        ),
        (
            entry(block="local: {addresses: [127.0.1.7/24], stateDir: /s}"),
            "providers[0].local.addresses[0]: must be an IPv4 address or network such as 127.0.1.0/24, "
            "not '127.0.1.7/24': host bits are set",
        ),
        (
            entry(block="local: {addresses: [10.0.0.0/8], stateDir: /s}"),
            "providers[0].local.addresses[0]: 10.0.0.0/8 is too large; at most a /16",
        ),
        (
            entry(block="local: {addresses: [224.0.0.1], stateDir: /s}"),
            "providers[0].local.addresses[0]: 224.0.0.1/32 cannot be addresses of a machine",
        ),
        (
            entry(block="local: {addresses: [127.0.0.2], stateDir: state}"),
            "providers[0].local.stateDir: must be an absolute path, not 'state'",
        ),
        (entry("taskQueue: [x]"), "providers[0].taskQueue: must be a string, not a list"),
        (
            entry("taskQueue: ' x'"),
            "providers[0].taskQueue: must be at most 255 printable characters without space around them",
        ),
        (entry("maxInstances: 0"), "providers[0].maxInstances: must be at least 1, not 0"),
        (entry("maxInstances: '3'"), "providers[0].maxInstances: must be an integer, not a string"),
        (entry("maxInstances: true"), "providers[0].maxInstances: must be an integer, not a boolean"),
        (entry("maxConcurrentCreates: -1"), "providers[0].maxConcurrentCreates: must be at least 1, not -1"),
        (
            "providers: [{name: a, type: local, local: {addresses: [127.0.0.2], stateDir: /a}}, "
            "{name: a, type: local, local: {addresses: [127.0.0.3], stateDir: /b}}]",
            'providers[1].name: "a" is already the name of providers[0]',
        ),
        (
            "providers: [{name: a, type: local, local: {addresses: [127.0.0.2], stateDir: /a}}, "
            "{name: b, type: local, local: {addresses: [127.0.0.3], stateDir: /a/}}]",
            "providers[1].local: stateDir /a is already used by providers[0]",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    assert str(caught.value) == f"file.yaml: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"providers: [", "file.yaml:1:13: expected the node content, but found '<stream end>'"),
        (b"a: 1\na: 2\n", 'file.yaml:2:1: duplicate key "a"'),
        (b"providers:\n- {name: a, name: b}\n", 'file.yaml:2:13: duplicate key "name"'),
        (b"providers: []\n---\nproviders: []\n", "file.yaml:2:1: but found another document"),
        (b"providers: !!python/name:os.system\n", None),
        (b"providers: *x\n", "file.yaml:1:12: found undefined alias 'x'"),
        (b"[a]: 1\n", None),
        (b"\xff\xfea\x00", "file.yaml: not UTF-8 at byte 0"),
        (b"a: \x01", "file.yaml: special characters are not allowed at character 3"),
        (b"a: &a [*a]", "file.yaml: nested deeper than 50 levels"),
        (b"[" * 10_000, "file.yaml: nested too deeply"),
        (b"#" * (1024 * 1024 + 1), "file.yaml: larger than 1048576 bytes"),
        (
            b"a: &a [1,2,3,4,5,6,7,8,9]\n"
            + b"".join(b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)),
            "file.yaml: more than 100000 values, aliases counted where they are used",
        ),
        (b"when: 2026-99-99\n", None),
    ],
)
def test_yaml_that_cannot_be_read_is_one_line_with_its_place(data: bytes, message: str | None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_providers(data, "file.yaml", require_local_task_queue=False)
    text = str(caught.value)
    assert text.startswith("file.yaml")
    assert "\n" not in text
    if message is not None:
        assert text == message


def test_the_text_around_a_fault_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse("providers: [{name: a, password: S3cr3t-xyz, type: local]")
    assert "S3cr3t-xyz" not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        parse("providers: [{name: a, type: local, password: S3cr3t-xyz}]")
    assert "password" in str(caught.value)
    assert "S3cr3t-xyz" not in str(caught.value)


@pytest.mark.parametrize("queue", ["", "taskQueue: egress-provider"])
def test_outside_dev_a_local_provider_needs_a_queue_of_its_own(queue: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(entry(queue), require_local_task_queue=True)
    assert str(caught.value) == (
        "file.yaml: providers[0].taskQueue: a local provider needs a queue of its own, one per box"
    )
    assert len(parse(entry("taskQueue: box-1"), require_local_task_queue=True)) == 1


def test_the_hash_changes_with_the_meaning_of_an_entry_and_only_then() -> None:
    def hash_of(text: str) -> str:
        return parse(text)[0].entry_hash

    base = hash_of(entry())
    assert len(base) == 16
    assert (
        hash_of("providers:\n- local: {stateDir: /state/, addresses: [127.0.1.0/24]}\n  type: local\n  name: box1")
        == base
    )
    assert hash_of(entry("taskQueue: egress-provider")) == base
    assert hash_of(entry(block="local: {software: auto, addresses: [127.0.1.0/24], stateDir: /state}")) == base
    others = [
        hash_of(entry("maxInstances: 3")),
        hash_of(entry("taskQueue: other")),
        hash_of(entry(name="box2")),
        hash_of(entry(block="local: {software: squid, addresses: [127.0.1.0/24], stateDir: /state}")),
        hash_of(entry(block="local: {addresses: [127.0.2.0/24], stateDir: /state}")),
    ]
    assert len({base, *others}) == 6


def test_a_missing_file_stops_the_start_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    with pytest.raises(ConfigurationError) as caught:
        ProvidersFile(path)
    assert str(caught.value) == f"{path}: cannot read the providers file: No such file or directory"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(entry())
    file = ProvidersFile(path, require_local_task_queue=False)
    assert file.refresh() is False
    path.write_text(entry(name="box2"))
    assert file.refresh() is True
    assert [one.name for one in file.entries] == ["box2"]
    assert file.entry("box1") is None
    assert file.entry("box2") == file.entries[0]
    assert file.refresh() is False


def test_an_old_file_is_not_read_again_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(entry())
    os.utime(path, (1_000_000, 1_000_000))
    file = ProvidersFile(path, require_local_task_queue=False)
    reads: list[Path] = []
    original = Path.read_bytes

    def read_bytes(self: Path) -> bytes:
        reads.append(self)
        return original(self)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert file.refresh() is False
    assert reads == []
    os.utime(path, (1_000_001, 1_000_001))
    assert file.refresh() is False
    assert reads == [path]


def test_a_swapped_symbolic_link_is_noticed(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"data{number}"
        folder.mkdir()
        (folder / "providers.yaml").write_text(entry(name=f"box{number}"))
        os.utime(folder / "providers.yaml", (1_000_000, 1_000_000))
    link = tmp_path / "..data"
    link.symlink_to("data1")
    path = tmp_path / "providers.yaml"
    path.symlink_to("..data/providers.yaml")
    file = ProvidersFile(path, require_local_task_queue=False)
    (tmp_path / "..data_tmp").symlink_to("data2")
    (tmp_path / "..data_tmp").rename(link)
    assert file.refresh() is True
    assert file.entries[0].name == "box2"


@pytest.mark.parametrize("edit", ["providers: [{name: Box}]", "providers: [", None])
def test_a_bad_edit_keeps_the_last_good_entries_and_is_told(tmp_path: Path, edit: str | None) -> None:
    path = tmp_path / "providers.yaml"
    path.write_text(entry())
    file = ProvidersFile(path, require_local_task_queue=False)
    if edit is None:
        path.unlink()
    else:
        path.write_text(edit)
    assert file.refresh() is False
    assert [one.name for one in file.entries] == ["box1"]
    assert file.last_error.startswith(str(path))
    path.write_text(entry(name="box2"))
    assert file.refresh() is True
    assert file.last_error == ""
