"""Images for the development node, made on this machine without an image registry.

The base is a small Debian from the machine's own package sources; on it the Dockerfiles under ``deploy/images`` are
built. The archives are kept, named by a hash of what they were made from.
"""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.dev.binaries import cache_directory
from app.dev.binaries_build import Report, build, locked
from app.dev.commands import CommandFailedError, run
from model.errors import ConfigurationError

IMAGE_DIRECTORY = Path(__file__).resolve().parents[2] / "deploy" / "images"
SQUID_IMAGE = "localhost/egress-proxies/squid:dev"
PAUSE_IMAGE = "localhost/egress-proxies/pause:dev"
PACKAGES = ("mmdebstrap", "buildah")
"""Debian's packages that a build needs."""
_BASE_IMAGE = "localhost/egress-proxies/base:dev"
_BASE_DOCKERFILE = "FROM scratch\nADD base.tar /\n"
_LEFT_OUT = ("doc", "info", "locale", "man")
_BASE_OPTIONS = (
    *("--quiet", "--mode=root", "--variant=essential", "--include=apt"),
    # Nothing here has to outlive a crash of the machine, and waiting for the disk at each file takes long.
    "--dpkgopt=force-unsafe-io",
    # As in Debian's own slim images; dpkg keeps to it when more is installed on the base.
    *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _LEFT_OUT),
)
_APT = Path("/etc/apt")
_SOURCES = ("sources.list.d/debian.sources", "sources.list.d/ubuntu.sources", "sources.list")
_OS_RELEASE = Path("/etc/os-release")
_BUILD_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Images:
    """Archives in the format of ``docker save``.

    Attributes:
        squid: Of ``SQUID_IMAGE``, the project's forward proxy.
        pause: Of ``PAUSE_IMAGE``, which containerd runs in every Pod.
    """

    squid: Path
    pause: Path

    @property
    def archives(self) -> tuple[Path, Path]:
        """All of them, for ``app.dev.node.Node``."""
        return self.squid, self.pause


def find() -> Images | None:
    """Return the images made from the present files, or None."""
    directory = _directory()
    images = Images(squid=directory / "squid.tar", pause=directory / "pause.tar")
    return images if all(archive.is_file() for archive in images.archives) else None


async def find_or_build(environment: Mapping[str, str], report: Report) -> Images:
    """Return the images, built where they are missing; older ones are removed then.

    Args:
        environment: Variables for Go, which builds the program of the pause image.
        report: Gets a line for each step.

    Raises:
        ConfigurationError: A program is missing or failed.
    """
    directory = _directory()
    await asyncio.to_thread(directory.parent.mkdir, parents=True, exist_ok=True)
    async with locked(directory.parent / ".build.lock", "images: another process builds, waiting", report):
        images = await asyncio.to_thread(find)
        if images is None:
            with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".build-") as workspace:
                await _build(Path(workspace), directory, environment, report)
            images = await asyncio.to_thread(find)
            assert images is not None  # noqa: S101 - moved there whole
    return images


async def _build(workspace: Path, directory: Path, environment: Mapping[str, str], report: Report) -> None:
    finished = workspace / "finished"
    finished.mkdir()
    pause = workspace / "pause"
    await asyncio.to_thread(shutil.copytree, IMAGE_DIRECTORY / "pause", pause)
    await build("pause", pause, environment, report)
    try:
        report("images: making a base from Debian packages (mmdebstrap)")
        await asyncio.to_thread(_make_base, workspace)
        report("images: building deploy/images/squid on it (buildah)")
        await asyncio.to_thread(_build_images, workspace, finished)
    except CommandFailedError as error:
        raise ConfigurationError(f"the images for the node cannot be built: {error}") from error
    await asyncio.to_thread(_keep, finished, directory)


def _keep(finished: Path, directory: Path) -> None:
    """Put the images in their place, and remove those of other files and of builds that were killed."""
    for old in directory.parent.iterdir():
        if old.is_dir() and old != finished.parent:
            shutil.rmtree(old)
    finished.rename(directory)


def _make_base(workspace: Path) -> None:
    suite, sources = _debian()
    base = workspace / "base"
    base.mkdir()
    (base / "Dockerfile").write_text(_BASE_DOCKERFILE)
    run(["mmdebstrap", *_BASE_OPTIONS, suite, base / "base.tar", sources], _BUILD_SECONDS)


def _build_images(workspace: Path, finished: Path) -> None:
    buildah = ["buildah", f"--root={workspace / 'storage'}", f"--runroot={workspace / 'run'}"]
    # No container runtime takes part, whose limits and control groups a machine may withhold.
    options = ["build", "--isolation=chroot", "--pull-never"]
    # The machine's own sources and settings of apt, mirrors and proxies included; they do not get into the image.
    apt = [f"--volume={_APT}:{_APT}:ro", f"--build-arg=BASE={_BASE_IMAGE}"]
    run([*buildah, *options, f"--tag={_BASE_IMAGE}", workspace / "base"], _BUILD_SECONDS)
    run([*buildah, *options, *apt, f"--tag={SQUID_IMAGE}", IMAGE_DIRECTORY / "squid"], _BUILD_SECONDS)
    run([*buildah, *options, f"--tag={PAUSE_IMAGE}", workspace / "pause"], _BUILD_SECONDS)
    for image, name in ((SQUID_IMAGE, "squid"), (PAUSE_IMAGE, "pause")):
        run([*buildah, "push", "--quiet", image, f"docker-archive:{finished / name}.tar:{image}"], _BUILD_SECONDS)


def _debian() -> tuple[str, Path]:
    """Return the machine's release and the file with its package sources."""
    release = dict(line.split("=", 1) for line in _OS_RELEASE.read_text().splitlines() if "=" in line)
    suite = release.get("VERSION_CODENAME", "").strip('"')
    sources = [_APT / name for name in _SOURCES if (_APT / name).is_file() and (_APT / name).read_text().strip()]
    if not suite or not sources:
        raise ConfigurationError(
            f"the base image is made from the machine's own Debian or Ubuntu, and {_OS_RELEASE} names no "
            f"VERSION_CODENAME or {_APT} has none of {', '.join(_SOURCES)}"
        )
    return suite, sources[0]


def _directory() -> Path:
    """Return the folder for the images of the present Dockerfiles, recipe of the base, and release of the machine."""
    digest = hashlib.sha256(f"{_BASE_DOCKERFILE}{_BASE_OPTIONS}".encode())
    inputs = [path for path in sorted(IMAGE_DIRECTORY.rglob("*")) if path.is_file()]
    for path in (*inputs, *(path for path in (_OS_RELEASE,) if path.is_file())):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return cache_directory(kind="images") / digest.hexdigest()[:16]
