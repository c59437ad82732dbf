"""A fitted recognizer on disk: one safetensors file with a JSON header. No code in it, ever.

Written to a temporary file beside the target and renamed, so that a file is complete or not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from piaa.errors import ArtifactError

FORMAT = "piaa-recognizer"
VERSION = 1


@dataclass(frozen=True)
class Artifact:
    """Tensors and facts of a saved recognizer."""

    tensors: Mapping[str, Tensor]
    header: Mapping[str, Any]


def save_artifact(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Write the file as a whole; if that fails, what was there before is untouched."""
    from safetensors.torch import save

    # Cloned: safetensors refuses tensors that share memory, and weights of branches may.
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in artifact.tensors.items()
    }
    header = {**artifact.header, "format": FORMAT, "version": VERSION, "sha256": _digest(tensors)}
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, allow_nan=False)
    # The digest of the header itself goes beside it: a changed threshold or name shows as well.
    metadata = {"piaa": text, "piaa_sha256": hashlib.sha256(text.encode()).hexdigest()}
    _write_whole(Path(path), save(tensors, metadata=metadata))


def _write_whole(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise ArtifactError(f"{target} cannot be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def load_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Read a saved recognizer; whatever is wrong with the file is an `ArtifactError`."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    try:
        with safe_open(source, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ArtifactError(f"There is no saved recognizer at {source}.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(
            f"{source} is no complete piaa model ({error}). It may be cut short or another kind of "
            "file; save it again with Recognizer.save."
        ) from error
    header = _header(source, metadata)
    if header.get("sha256") != _digest(tensors):
        raise ArtifactError(
            f"{source} was changed or damaged: its tensors do not match their hash."
        )
    return Artifact(tensors, header)


def _header(source: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    text = metadata.get("piaa")
    if text is None:
        raise ArtifactError(f"{source} is a safetensors file but no saved piaa recognizer.")
    if metadata.get("piaa_sha256") != hashlib.sha256(text.encode()).hexdigest():
        raise ArtifactError(f"{source} was changed or damaged: its header does not match its hash.")
    try:
        header = json.loads(text)
    except ValueError as error:
        raise ArtifactError(f"{source} has a header that is no JSON: {error}.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ArtifactError(f"{source} is no saved piaa recognizer.")
    if header.get("version") != VERSION:
        raise ArtifactError(
            f"{source} has format version {header.get('version')!r}; this piaa reads version {VERSION}. "
            "Update piaa, or save the model again with this one."
        )
    return header


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
