"""Files that are damaged, foreign or hostile: one clear error, and nothing is executed."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_samples import save_sharded, tiny_openai
from safetensors.torch import save_file

from piaa import load_encoder
from piaa.errors import CheckpointError, InputError, PiaaError, WeightsUnavailableError

pytestmark = [
    pytest.mark.filterwarnings("ignore::piaa.encoders.configs.ActivationWarning"),
    pytest.mark.filterwarnings("ignore:Detected pickle protocol"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]
STATE = tiny_openai()


def write_safetensors(path: Path) -> None:
    save_file(SMALL, path)


def write_zip(path: Path) -> None:
    torch.save(SMALL, path)


def write_legacy(path: Path) -> None:
    torch.save(SMALL, path, _use_new_zipfile_serialization=False)


def write_torchscript(path: Path) -> None:
    module = torch.nn.Module()
    module.visual = torch.nn.Linear(8, 8)
    torch.jit.save(torch.jit.script(module), path)


SMALL = {name: tensor.clone() for name, tensor in list(STATE.items())[:6]}
WRITERS = [write_safetensors, write_zip, write_legacy, write_torchscript]


@pytest.mark.parametrize("write", WRITERS)
def test_truncated_files(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "weights"
    write(path)
    whole = path.read_bytes()
    size = len(whole)
    for length in (1, 2, 7, 8, 9, 30, 64, 200, size // 3, size // 2, size - 40, size - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"cut|damaged|complete"):
            load_encoder(weights=path, trust_torchscript=True)


@pytest.mark.parametrize("write", WRITERS[:3])
def test_damaged_bytes_never_give_another_exception(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "weights"
    write(path)
    whole = path.read_bytes()
    chance = random.Random(0)
    for _ in range(150):
        damaged = bytearray(whole)
        region = chance.choice([64, 600, len(whole)])  # most formats are fragile at their start
        for _ in range(chance.choice([1, 3, 20])):
            damaged[chance.randrange(region)] = chance.randrange(256)
        path.write_bytes(damaged)
        with pytest.raises(PiaaError):  # six tensors make no model even when they are read
            load_encoder(weights=path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "begins with b'<!DOCTYPE html>"),
        (b"a few words", "no checkpoint"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"{}", "no weight_map"),
        (b'{"weight_map": {}}', "no weight_map"),
        (b'{"weight_map": []}', "no weight_map"),
        (b'{"weight_map": ', "JSON"),
        (b'{"a": ' + b"[" * 100_000, "JSON"),
        (b"PK\x03\x04 and no archive", "damaged or cut archive"),
        (b"\x80\x02 and no pickle", "cannot be read as plain tensors"),
        ((8).to_bytes(8, "little") + b"{ broken", "no complete safetensors"),
    ],
)
def test_files_that_are_no_checkpoints(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    for weights in (path, tmp_path):
        with pytest.raises(CheckpointError, match=message):
            load_encoder(weights=weights)


@pytest.mark.parametrize("zip_format", [True, False])
def test_objects_are_never_made(tmp_path: Path, zip_format: bool) -> None:
    trap = tmp_path / "trap"

    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(trap),)

    path = tmp_path / "weights.pt"
    torch.save({**SMALL, "x": Hostile()}, path, _use_new_zipfile_serialization=zip_format)
    torch.load(path, weights_only=False)
    assert trap.exists()  # the trap works
    trap.rmdir()
    for trust in (False, True):
        with pytest.raises(CheckpointError, match="never loads because that runs code"):
            load_encoder(weights=path, trust_torchscript=trust)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "holds list, not a state dict"),
        (torch.ones(3), "holds Tensor, not a state dict"),
        ({}, "holds dict, not a state dict"),
        ({"state_dict": {}}, "holds dict, not a state dict"),
        ({**SMALL, "epoch": 3}, "'epoch' is no tensor"),
        ({3: torch.ones(3)}, "none of these layouts"),
    ],
)
def test_torch_files_of_other_things(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "weights.pt")
    with pytest.raises(CheckpointError, match=message):
        load_encoder(weights=tmp_path / "weights.pt")


@pytest.mark.parametrize(
    ("weight_map", "error", "message"),
    [
        ({"a": "../model.safetensors"}, CheckpointError, "points outside of its folder"),
        ({"a": "/etc/passwd"}, CheckpointError, "points outside of its folder"),
        ({"a": ".."}, CheckpointError, "points outside of its folder"),
        ({"a": "."}, CheckpointError, "points outside of its folder"),
        ({"a": ""}, CheckpointError, "points outside of its folder"),
        ({"a": "absent.safetensors"}, WeightsUnavailableError, "absent.safetensors cannot be read"),
        ({"a": "\0"}, WeightsUnavailableError, "cannot be read"),
        ({"a": 3}, WeightsUnavailableError, "cannot be read"),
    ],
)
def test_bad_indexes(
    tmp_path: Path, weight_map: dict[str, object], error: type[PiaaError], message: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    save_file(STATE, tmp_path / "model.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    for weights in (index, folder):
        with pytest.raises(error, match=message):
            load_encoder(weights=weights)


def test_an_index_that_its_shards_do_not_keep(tmp_path: Path) -> None:
    index = save_sharded(STATE, tmp_path, shards=2)
    promises = json.loads(index.read_text())
    promises["weight_map"]["visual.more"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(promises))
    with pytest.raises(CheckpointError, match=r"promises 1 tensors its shards lack: visual\.more"):
        load_encoder(weights=index)
    save_sharded(STATE, tmp_path, shards=2)
    save_file(STATE, tmp_path / "model-00002-of-00002.safetensors")
    with pytest.raises(CheckpointError, match="is in two shards"):
        load_encoder(weights=index)


def test_directories_without_one_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "folder.bin").mkdir()
    with pytest.raises(WeightsUnavailableError, match="but holds none"):
        load_encoder(weights=tmp_path)
    for name in ("a.safetensors", "b.pt"):
        (tmp_path / name).touch()
    with pytest.raises(WeightsUnavailableError, match=r"several: a\.safetensors, b\.pt"):
        load_encoder(weights=tmp_path)


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        (3, InputError),
        (b"bytes", InputError),
        ("absent.safetensors", WeightsUnavailableError),
        ("a" * 5000, WeightsUnavailableError),
        ("nul\0", WeightsUnavailableError),
        ("~nobody-has-this-name/x", WeightsUnavailableError),
        ("/dev/null", WeightsUnavailableError),
    ],
)
def test_places_that_are_none(weights: str, error: type[PiaaError]) -> None:
    with pytest.raises(error):
        load_encoder(weights=weights)
