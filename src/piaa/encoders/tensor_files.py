"""One file of tensors: safetensors, torch.save's two formats or TorchScript.

What a file is follows from its first bytes, not from its name.
"""

from __future__ import annotations

import hashlib
import pickletools
import zipfile
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import torch
from torch import Tensor

from piaa.errors import CheckpointError, WeightsUnavailableError

MOST_NAME_LENGTH: Final = 1000
# What torch.save wrote before its zip format, one after the other: a mark, a version, the machine, the
# object and the keys of its storages; the numbers follow.
_LEGACY_STREAMS: Final = 5


def file_sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise WeightsUnavailableError(f"{path} cannot be read: {error}.") from error


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError as error:
        raise WeightsUnavailableError(f"{path} cannot be read: {error}.") from error


def _is_safetensors(head: bytes) -> bool:
    """A little-endian 64-bit length of a JSON header, far below 4 GiB, and that header.

    To be asked first: the length's low bytes can look like the start of any other format.
    """
    return head[4:9] == b"\0\0\0\0{"


def is_json(path: Path) -> bool:
    head = _head(path)
    return head.lstrip().startswith(b"{") and not _is_safetensors(head)


def read_tensors(path: Path, *, trust_torchscript: bool) -> dict[str, Tensor]:
    """All tensors of a file, on the CPU and in the precision they are stored in."""
    head = _head(path)
    if _is_safetensors(head):
        return _read_safetensors(path)
    if not head:
        raise CheckpointError(f"{path} is empty. Fetch it again.")
    if head.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{path} is a Git LFS pointer, not the weights. Run 'git lfs pull'.")
    if head.startswith(b"PK"):
        if _is_torchscript(path):
            return _read_torchscript(path, trust_torchscript)
        _refuse_unpacking(path)
        return _read_torch(path)
    if head.startswith(b"\x80"):  # torch.save before its zip format
        return _read_torch(path)
    raise CheckpointError(
        f"{path} is no checkpoint: it begins with {head[:16]!r}. Files of safetensors and of torch.save "
        "are read. It may be cut short, or an error page saved under its name: fetch it again."
    )


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{path} is no complete safetensors file ({error}). It may be cut short: fetch it again."
        ) from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    try:
        _refuse_long_names(path)
        with path.open("rb") as file:  # of a path, torch would also judge by its name
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make the unpickler stumble in every way there is
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{path} cannot be read as plain tensors ({first}). It is damaged, or it holds objects, "
            "which piaa never loads because that runs code: save its state dict as safetensors."
        ) from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]  # a training checkpoint of open_clip
    if not isinstance(content, dict) or not content:
        raise CheckpointError(
            f"{path} holds {type(content).__name__}, not a state dict of tensors."
        )
    bad = [name for name, value in content.items() if not isinstance(value, Tensor)]
    if bad:
        raise CheckpointError(f"{path} holds more than tensors: {bad[0]!r} is no tensor.")
    if all(str(name).startswith("module.") for name in content):  # saved under DataParallel
        content = {name.removeprefix("module."): value for name, value in content.items()}
    return {str(name): value for name, value in content.items()}


def _refuse_long_names(path: Path) -> None:
    """torch searches the names that it refuses in time quadratic in their length: one of 1 MB takes hours."""
    with path.open("rb") as file:
        streams: list[BinaryIO] = [file] * _LEGACY_STREAMS
        if _head(path).startswith(b"PK"):
            with zipfile.ZipFile(file) as archive:
                (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
                streams = [BytesIO(archive.read(name))]
        for stream in streams:
            for _, argument, _ in pickletools.genops(stream):  # reads instructions, runs none
                if isinstance(argument, str | bytes) and len(argument) > MOST_NAME_LENGTH:
                    raise ValueError(f"a name of {len(argument):,} characters")


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except Exception as error:  # as above: BadZipFile is not all that a damaged directory gives
        raise CheckpointError(
            f"{path} is a damaged or cut archive ({error}). Fetch it again."
        ) from error


def _refuse_unpacking(path: Path) -> None:
    """torch.save stores members as they are; a small file that unpacks to a huge one is none of its."""
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > path.stat().st_size:
        raise CheckpointError(
            f"{path} holds {unpacked:,} bytes in {path.stat().st_size:,}: it is compressed, which torch.save "
            "never does. Save its tensors again, best as safetensors."
        )


def _read_torchscript(path: Path, trust: bool) -> dict[str, Tensor]:
    if not trust:
        raise CheckpointError(
            f"{path} is a TorchScript archive, which carries code, and its sha256 {file_sha256(path)} "
            "is none that OpenAI published. If you trust where it came from, pass "
            "trust_torchscript=True."
        )
    try:
        module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # as above
        raise CheckpointError(f"{path} is a damaged TorchScript archive: {error}") from error
    return dict(module.state_dict())
