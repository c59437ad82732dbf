"""A fitted recognizer on disk: one safetensors file with a JSON header. No code in it, ever.

A file is complete or not there. What a fit has gathered so far is kept the same way, as another format.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from piaa.claims import claimed
from piaa.errors import ArtifactError
from piaa.shipped import list_models, model_path
from piaa.tensor_writing import tensor_bytes, write_tensors

FORMAT = "piaa-recognizer"
VERSION = 1


@dataclass(frozen=True)
class Artifact:
    """Tensors and facts of a saved recognizer."""

    tensors: Mapping[str, Tensor]
    header: Mapping[str, Any]

    def digest(self) -> str:
        """Equal for equal recognizers, and for no others."""
        header = json.dumps(self.header, sort_keys=True, allow_nan=False)
        return hashlib.sha256(f"{header}{_digest(self.tensors)}".encode()).hexdigest()


def save_artifact(
    path: str | os.PathLike[str], artifact: Artifact, *, format: str = FORMAT
) -> None:
    """Write the file as a whole; if that fails, what was there before is untouched.

    An `InputError` if another process is writing it.
    """
    header = {
        **artifact.header,
        "format": format,
        "version": VERSION,
        "sha256": _digest(artifact.tensors),
    }
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, allow_nan=False)
    # The digest of the header itself goes beside it: a changed threshold or name shows as well.
    metadata = {"piaa": text, "piaa_sha256": hashlib.sha256(text.encode()).hexdigest()}
    try:
        with claimed(Path(path)):
            write_tensors(Path(path), artifact.tensors, metadata)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error


def load_artifact(path: str | os.PathLike[str], *, format: str = FORMAT) -> Artifact:
    """Read a saved recognizer, by its path or by the name of one in the package.

    Whatever is wrong with the file is an `ArtifactError`.
    """
    from safetensors import SafetensorError, safe_open

    with model_path(path) as source:
        try:
            with safe_open(source, framework="pt", device="cpu") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except FileNotFoundError:
            raise ArtifactError(
                f"There is no saved recognizer at {source}. Give the path of one, or the name of one "
                f"that ships with piaa: {', '.join(list_models())}."
            ) from None
        except (SafetensorError, OSError, ValueError) as error:
            raise ArtifactError(
                f"{source} is no complete piaa model ({error}). It may be cut short or another kind of "
                "file; save it again with Recognizer.save."
            ) from error
    header = _header(source, metadata, format)
    if header.get("sha256") != _digest(tensors):
        raise ArtifactError(
            f"{source} was changed or damaged: its tensors do not match their hash."
        )
    return Artifact(tensors, header)


def _header(source: Path, metadata: Mapping[str, str], format: str) -> dict[str, Any]:
    text = metadata.get("piaa")
    if text is None:
        raise ArtifactError(f"{source} is a safetensors file but no saved piaa recognizer.")
    if metadata.get("piaa_sha256") != hashlib.sha256(text.encode()).hexdigest():
        raise ArtifactError(f"{source} was changed or damaged: its header does not match its hash.")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{source} has a header that is no JSON: {error}.") from error
    if not isinstance(header, dict) or header.get("format") != format:
        kind = "saved piaa recognizer" if format == FORMAT else f"{format} file"
        raise ArtifactError(f"{source} is no {kind}.")
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
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()
