"""One `weights=`: a file, a directory or `hf:org/repo[@revision]` -> tensors, never code.

A path never touches the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from piaa.encoders.hub import (
    HubId,
    HubUnreachableError,
    cached,
    check_sha256,
    fetch,
    how_to_bring,
    known_absent,
    published_sha256,
)
from piaa.encoders.tensor_files import file_sha256, is_json, read_tensors
from piaa.errors import CheckpointError, InputError, WeightsUnavailableError

# Looked for in this order, in a directory and in a hub repository.
WEIGHT_FILES = (
    "open_clip_model.safetensors",
    "model.safetensors",
    "model.safetensors.index.json",
    "open_clip_pytorch_model.bin",
    "pytorch_model.bin",
)
CONFIG_FILES = ("config.json", "open_clip_config.json")

# TorchScript archives carry code. These are OpenAI's own, by the hashes in their download addresses.
OPENAI_ARCHIVES = {
    "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af": "ViT-B-32",
    "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f": "ViT-B-16",
    "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836": "ViT-L-14",
    "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02": "ViT-L-14-336",
}


@dataclass(frozen=True)
class WeightFiles:
    """Where a checkpoint lies: one file or the shards of an index, and configs beside them."""

    source: str
    files: tuple[Path, ...]
    index: Path | None = None
    configs: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """Tensors as stored, what their configs say, and their hash."""

    source: str
    tensors: Mapping[str, Tensor]
    configs: Mapping[str, Mapping[str, Any]]
    sha256: str


def locate(weights: str | os.PathLike[str], file: str | None = None) -> WeightFiles:
    """Find the files of `weights=`. `file` names the one wanted in a hub repository."""
    if isinstance(weights, str) and weights.startswith("hf:"):
        return _locate_on_hub(HubId.parse(weights), file)
    try:
        path = Path(weights).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except TypeError:
        raise InputError(
            f"weights= takes a path or 'hf:org/repo', not {type(weights).__name__}."
        ) from None
    except (OSError, RuntimeError) as error:
        raise WeightsUnavailableError(f"{weights!r} cannot be looked up: {error}.") from error
    if is_folder:
        return _locate_in_directory(path)
    if not is_file:
        raise WeightsUnavailableError(
            f"No weights at {path}. A hub repository is written 'hf:org/repo[@revision]'."
        )
    index = path if is_json(path) else None
    shards = _shards(path) if index else (path.name,)
    return WeightFiles(
        source=str(path),
        files=tuple(path.parent / name for name in shards),
        index=index,
        configs=_configs_in(path.parent),
    )


def read(
    weights: str | os.PathLike[str],
    *,
    file: str | None = None,
    sha256: str | None = None,
    trust_torchscript: bool = False,
) -> Checkpoint:
    """Read a checkpoint's tensors on the CPU, in the precision they are stored in."""
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", str(sha256)):
        raise InputError(f"sha256= takes 64 hexadecimal digits, not {sha256!r}.")
    found = locate(weights, file)
    digests = []
    tensors: dict[str, Tensor] = {}
    for path in found.files:
        digest = file_sha256(path)
        digests.append(digest)
        if published := published_sha256(path):
            check_sha256(path.resolve(), digest, published)
        if sha256 and len(found.files) == 1:
            check_sha256(path.resolve(), digest, sha256)
        trust = trust_torchscript or digest in OPENAI_ARCHIVES
        for name, tensor in read_tensors(path, trust_torchscript=trust).items():
            if name in tensors:
                raise CheckpointError(f"Tensor {name} is in two shards of {found.source}.")
            tensors[name] = tensor
    if found.index is not None:
        _check_index(found.index, frozenset(tensors))
    total = (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
    if sha256 and len(digests) > 1:
        check_sha256(found.source, total, sha256)
    configs = {name: _read_json(path) for name, path in found.configs.items()}
    return Checkpoint(found.source, tensors, configs, total)


def _locate_on_hub(hub_id: HubId, file: str | None) -> WeightFiles:
    # A file that is known to be absent is asked for last: without network the rest is found at once.
    wanted = (file,) if file else sorted(WEIGHT_FILES, key=lambda name: known_absent(hub_id, name))
    configs = () if file else CONFIG_FILES  # what a named file is, its registry entry says
    try:
        found = _gather(hub_id, wanted, configs, fetch)
    except HubUnreachableError as error:
        found = _gather(hub_id, wanted, configs, cached)
        if found is None:
            names = (file,) if file else WEIGHT_FILES
            raise WeightsUnavailableError(how_to_bring(hub_id, names, str(error))) from error
    if found is None:
        raise WeightsUnavailableError(
            f"{hub_id} holds none of {', '.join(wanted)}, with all its shards. Download the right "
            "file and pass its path as weights=."
        )
    return found


def _gather(
    hub_id: HubId,
    wanted: Sequence[str],
    configs: Sequence[str],
    get: Callable[[HubId, str], Path | None],
) -> WeightFiles | None:
    """The first of the wanted files that `get` brings, whole, and the configs that it brings."""
    for name in wanted:
        path = get(hub_id, name)
        if path is None:
            continue
        index = path if is_json(path) else None
        files = [get(hub_id, shard) for shard in _shards(path)] if index else [path]
        present = tuple(shard for shard in files if shard is not None)
        if len(present) == len(files):
            asked = [config for config in configs if not known_absent(hub_id, config)]
            beside = {config: get(hub_id, config) for config in asked}
            return WeightFiles(
                str(hub_id), present, index, {name: path for name, path in beside.items() if path}
            )
    return None


def _locate_in_directory(folder: Path) -> WeightFiles:
    for name in WEIGHT_FILES:
        if (folder / name).is_file():
            found = locate(folder / name)
            return WeightFiles(str(folder), found.files, found.index, found.configs)
    suffixes = (".safetensors", ".pt", ".bin")
    others = sorted(p for p in folder.iterdir() if p.suffix in suffixes and p.is_file())
    if len(others) == 1:
        return WeightFiles(str(folder), (others[0],), None, _configs_in(folder))
    what = "several: " + ", ".join(p.name for p in others) if others else "none"
    raise WeightsUnavailableError(
        f"{folder} should hold one checkpoint ({', '.join(WEIGHT_FILES)}, or a single .safetensors, "
        f".pt or .bin file) but holds {what}. Pass the path of the file itself as weights=."
    )


def _configs_in(folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in CONFIG_FILES if (folder / name).is_file()}


def _shards(index: Path) -> tuple[str, ...]:
    """File names in a safetensors index; none of them may lead out of its folder."""
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index} is no index of shards: it has no weight_map.")
    names = sorted({str(name) for name in weight_map.values()})
    for name in names:
        if Path(name).name != name or name in ("", ".."):
            raise CheckpointError(f"{index} points outside of its folder: {name!r}. Not read.")
    return tuple(names)


def _check_index(index: Path, present: frozenset[str]) -> None:
    lost = [name for name in _read_json(index)["weight_map"] if name not in present]
    if lost:
        raise CheckpointError(
            f"{index} promises {len(lost)} tensors its shards lack: {lost[0]} ..."
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} should hold a JSON object, not {type(content).__name__}.")
    return content
