"""Fuzz targets: checkpoints, their shards and configs, and the encoders made of them."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from random import Random

import torch
from mutations import mutate
from target import Target, tree_or_bytes

from piaa.encoders import checkpoints
from piaa.encoders.loading import load_encoder
from piaa.encoders.synthetic import synthetic_checkpoint
from piaa.errors import CheckpointError


def _small_state() -> dict[str, torch.Tensor]:
    state = synthetic_checkpoint(
        width=64, depth=1, patch=8, grid=2, embed_dim=8, text_width=64, text_depth=1
    )
    state["token_embedding.weight"] = state["token_embedding.weight"][:16].clone()
    state["vocab_size"] = torch.tensor(16)
    return state


def _formats(state: dict[str, torch.Tensor], folder: Path) -> list[bytes]:
    """Safetensors, and torch.save's two formats."""
    from safetensors.torch import save

    seeds = [save(state, {"format": "pt"})]
    for zipped in (True, False):
        file = io.BytesIO()
        torch.save(state, file, _use_new_zipfile_serialization=zipped)
        seeds.append(file.getvalue())
    return seeds


def checkpoint_files(folder: Path) -> Target:
    rng = torch.Generator().manual_seed(0)
    state = {f"layer.{i}.weight": torch.randn(5, 4 + i, generator=rng) for i in range(4)}
    state |= {"half": torch.ones(3).half(), "steps": torch.tensor(7), "flags": torch.tensor([True])}
    seeds = _formats(state, folder)
    script = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), script)
    published = {hashlib.sha256(seed).hexdigest() for seed in seeds}

    def accepts(data: bytes, place: Path) -> bool:
        path = place / "weights"
        path.write_bytes(data)
        found = checkpoints.read(path)
        digest = hashlib.sha256(data).hexdigest()
        assert found.sha256 == digest, "the model would be known by another file's hash"
        assert found.tensors, "an empty checkpoint was accepted"
        for expected in sorted(published - {digest})[:1]:
            try:
                checkpoints.read(path, sha256=expected)
            except CheckpointError:
                continue
            raise AssertionError("a file was taken for another one")
        return True

    def change(data: bytes, rng: Random) -> bytes:
        return mutate(data, rng, [*seeds, script.getvalue()])

    return Target(seeds, accepts, change)


def encoders(folder: Path) -> Target:
    seeds = _formats(_small_state(), folder)

    def accepts(data: bytes, place: Path) -> bool:
        (place / "weights").write_bytes(data)
        encoder = load_encoder(weights=place / "weights", frontend="clip")
        assert encoder.spec.weights_sha256 == hashlib.sha256(data).hexdigest()
        return True

    return Target(seeds, accepts)


def weight_indexes(_: Path) -> Target:
    from safetensors.torch import save

    shard = save({"a": torch.ones(2), "b": torch.zeros(3)})
    index = {
        "metadata": {"total_size": 20},
        "weight_map": {"a": "s.safetensors", "b": "s.safetensors"},
    }
    config = {
        "vision_config": {"hidden_act": "gelu", "layers": [1, 2]},
        "model_cfg": {"embed_dim": 8},
    }
    seeds = [json.dumps([index, config]).encode()]

    def accepts(data: bytes, place: Path) -> bool:
        # Two files of a folder as one JSON list; damage that is no list goes into the index.
        try:
            files = [json.dumps(part).encode() for part in json.loads(data)][:2]
        except (ValueError, TypeError, RecursionError):
            files = [data]
        for name, content in zip(
            ("model.safetensors.index.json", "config.json"), files, strict=False
        ):
            (place / name).write_bytes(content)
        (place / "s.safetensors").write_bytes(shard)
        checkpoints.read(place)
        return True

    return Target(seeds, accepts, tree_or_bytes(seeds))
