"""What holds for the repository as a whole."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]
NOT_OF_THE_PRODUCT = {"tests", "bench", "egress_proxies_client"}
REGISTRY_HOST = re.compile(
    r"\b(?:pypi|pythonhosted|proxy\.golang|sum\.golang|npmjs|deb\.debian|maven|crates|docker|quay|ghcr)"
    r"\.(?:org|io|com)\b"
)
HOME_PATH = re.compile(r"(?<![\w.])/(?:root|home/[a-z]\w*|Users/\w+)/\S")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?: ; .+)? \\$")
MAKE_COMMAND = re.compile(r"\bmake ([a-z][a-z-]*)")
MARKDOWN_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def repository_files() -> list[Path]:
    """The files of the repository, those not added yet included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def texts() -> list[tuple[str, str]]:
    found = []
    for path in repository_files():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((str(path.relative_to(REPOSITORY)), data.decode()))
    return found


def pyproject() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def pinned() -> dict[str, str]:
    pins: dict[str, str] = {}
    for line in (REPOSITORY / "requirements.txt").read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            match = PIN.match(line)
            assert match, f"not a pinned requirement with a hash: {line}"
            pins[canonicalize_name(match["name"])] = match["version"]
    return pins


def markdown() -> list[Path]:
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


@pytest.mark.parametrize(
    ("what", "pattern"), [("the host of a package registry", REGISTRY_HOST), ("somebody's home folder", HOME_PATH)]
)
def test_no_file_names(what: str, pattern: re.Pattern[str]) -> None:
    found = [f"{name}: {match[0]}" for name, text in texts() for match in [pattern.search(text)] if match]

    assert not found, f"{what} is named in {found}"


def test_the_patterns_find_what_they_are_for() -> None:
    assert REGISTRY_HOST.search("https://" + "files." + "pythonhosted" + ".org/x")
    assert REGISTRY_HOST.search("https://" + "pypi" + ".org/simple")
    assert HOME_PATH.search("in " + "/home/" + "someone/x")
    assert not HOME_PATH.search("deploy/" + "root/x and https://example.com/home/someone/x")


def test_every_requirement_is_pinned_and_no_option_names_an_index() -> None:
    lines = (REPOSITORY / "requirements.txt").read_text().splitlines()

    assert len(pinned()) > 10
    assert not [line for line in lines if line.startswith("-")]


def test_the_pins_satisfy_the_project() -> None:
    project = pyproject()
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["project"]["dependencies"],
        *extras["dev"],
        *extras["test"],
        *project["build-system"]["requires"],
    ]
    pins = pinned()
    wrong = [
        str(requirement)
        for requirement in map(Requirement, wanted)
        if not requirement.specifier.contains(pins.get(canonicalize_name(requirement.name), "0"), prereleases=True)
    ]

    assert not wrong, f"`make requirements` is due: {wrong}"


def test_every_package_is_installed_and_has_its_layer() -> None:
    project = pyproject()
    packages = {path.parent.name for path in REPOSITORY.glob("*/__init__.py")} - NOT_OF_THE_PRODUCT
    installed = {name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    linter = project["tool"]["importlinter"]
    [layers] = [contract["layers"] for contract in linter["contracts"] if contract["type"] == "layers"]

    assert installed == packages
    assert set(layers) == packages
    assert set(linter["root_packages"]) == packages
    assert set(project["tool"]["mypy"]["packages"]) == packages | NOT_OF_THE_PRODUCT


def test_workflow_modules_load_no_provider_no_kubernetes_client_and_no_http_library() -> None:
    modules = ", ".join(f"workflows.{path.stem}" for path in sorted((REPOSITORY / "workflows").glob("[a-z]*.py")))
    unwanted = ["kubernetes", "aiohttp", "providers", "cluster", "probing", "leasing", "activities"]
    program = f"import sys, {modules}; print(*[name for name in {unwanted} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    run = REPOSITORY / ".ci" / "run"

    assert os.access(run, os.X_OK)
    assert "make test" in run.read_text()
    assert "make test" in (REPOSITORY / "README.md").read_text()


def test_every_make_command_in_the_documentation_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    code = [(path.name, re.findall(r"`[^`\n]+`|^```.*?^```", path.read_text(), re.M | re.S)) for path in markdown()]
    named = {(name, target) for name, spans in code for span in spans for target in MAKE_COMMAND.findall(span)}

    assert {target for _, target in named} >= {"demo", "dev", "test"}
    assert not [(name, target) for name, target in named if target not in targets]


def test_every_link_in_the_documentation_leads_somewhere() -> None:
    broken = [
        f"{path.name}: {link}"
        for path in markdown()
        for link in MARKDOWN_LINK.findall(path.read_text())
        if not (path.parent / link).exists()
    ]

    assert not broken
