"""`piaa weights`: what is fetched, checked and converted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cli_samples import Run
from safetensors.torch import load_file, save_file

import piaa
from fake_encoder import pictures
from piaa.encoders import registry
from piaa.encoders.lite import sources
from piaa.encoders.package_index import content_sha256
from piaa.encoders.tensor_files import file_sha256


class TestVerify:
    def test_nothing_here(self, run: Run) -> None:
        found = json.loads(run("weights", "verify", "--json").stdout)
        assert {item["state"] for item in found} == {"absent"}
        assert len(found) == len(piaa.list_encoders())
        run("weights", "verify", "lite", code=1)

    def test_a_file_of_ones_own(self, run: Run, own_folder: Path, tiny_clip: Path) -> None:
        digest = file_sha256(tiny_clip)
        (item,) = json.loads(run("weights", "verify", tiny_clip, "--json").stdout)
        assert item["state"] == "good"
        assert digest in item["detail"]
        run("weights", "verify", tiny_clip, "--sha256", digest)
        wrong = run("weights", "verify", tiny_clip, "--sha256", "0" * 64, code=1).stdout
        assert "bad" in wrong
        tensors = load_file(tiny_clip)
        del tensors["visual.proj"]
        save_file(tensors, "lacking.safetensors")
        out = run("weights", "verify", "lacking.safetensors", tiny_clip, code=1).stdout
        assert "bad" in out
        assert "good" in out

    def test_a_named_encoder_must_be_what_was_published(
        self, run: Run, tiny_clip: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        entry = replace(registry.ENCODERS["ViT-B-16"], sha256=file_sha256(tiny_clip))
        monkeypatch.setitem(registry.ENCODERS, "ViT-B-16", entry)
        put_in_hub_cache(entry, tiny_clip, monkeypatch)
        (item,) = json.loads(run("weights", "verify", "ViT-B-16", "--json").stdout)
        assert item["state"] == "good"
        assert run("weights", "fetch", "ViT-B-16").stdout.strip() == item["detail"]
        listed = json.loads(run("encoders", "--json").stdout)["encoders"]
        assert [e["name"] for e in listed if e["cached"]] == ["ViT-B-16"]
        monkeypatch.setitem(registry.ENCODERS, "ViT-B-16", replace(entry, sha256="1" * 64))
        (item,) = json.loads(run("weights", "verify", "ViT-B-16", "--json", code=1).stdout)
        assert item["state"] == "bad"
        assert "1111" in run("weights", "fetch", "ViT-B-16", code=2).stderr

    def test_an_embedded_encoder(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weights = {"a": torch.arange(3.0)}
        known = content_sha256(weights, {})
        for name in ("lite", "minilm"):
            source = sources.LITE_ENCODERS["lite"].source if name == "lite" else sources.MINILM
            made = replace(source, content_sha256=known, texts={})
            if name == "lite":
                entry = replace(sources.LITE_ENCODERS["lite"], source=made)
                monkeypatch.setitem(sources.LITE_ENCODERS, "lite", entry)
            else:
                monkeypatch.setattr("piaa.cli.weight_files.MINILM", made)
            path = tmp_path / "cache" / made.cached_name
            path.parent.mkdir(exist_ok=True)
            save_file(weights, path)
        run("weights", "verify", "lite")
        assert len(run("weights", "fetch", "lite").stdout.splitlines()) == 2
        save_file({"a": torch.arange(4.0)}, path)
        out = run("weights", "verify", "lite", code=1).stdout
        assert "bad" in out

    def test_usage(self, run: Run, tiny_clip: Path) -> None:
        assert "--sha256" in run("weights", "verify", "--sha256", "0" * 64, code=2).stderr
        assert "Unknown encoder" in run("weights", "fetch", "ViT-X", code=2).stderr
        offline = run("weights", "fetch", "ViT-B-16", code=2).stderr
        assert "HF_HUB_OFFLINE" in offline


class TestConvert:
    def test_gives_the_same_encoder(self, run: Run, own_folder: Path, tiny_clip: Path) -> None:
        torch.save(load_file(tiny_clip), "clip.pt")
        out = run("weights", "convert", "clip.pt", "--out", "made").stdout.strip()
        assert out == "made/open_clip_model.safetensors"
        before = load_file(tiny_clip)
        after = load_file(out)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)
        images = pictures(2)
        features = [
            piaa.load_encoder(weights=where, frontend="clip").encode_images(images).patches
            for where in (tiny_clip, Path("made"))
        ]
        assert torch.equal(*features)

    def test_configs_come_along(self, run: Run, own_folder: Path, tiny_clip: Path) -> None:
        """Without its config, a checkpoint of GELU would be taken for one of QuickGELU."""
        tensors = load_file(tiny_clip)
        for mark in ("input_resolution", "context_length", "vocab_size"):
            del tensors[mark]
        Path("theirs").mkdir()
        torch.save(tensors, "theirs/open_clip_pytorch_model.bin")
        config = {"model_cfg": {"quick_gelu": False, "vision_cfg": {}, "text_cfg": {}}}
        Path("theirs/open_clip_config.json").write_text(json.dumps(config))
        run("weights", "convert", "theirs", "--out", "ours")
        shutil.rmtree("theirs")
        encoder = piaa.load_encoder(weights="ours", frontend="clip")
        assert encoder.spec.model["activation"] == "gelu"

    def test_refusals(self, run: Run, own_folder: Path, tiny_clip: Path) -> None:
        Path("taken").mkdir()
        Path("taken/x").touch()
        assert "not empty" in run("weights", "convert", tiny_clip, "-o", "taken", code=2).stderr
        run("weights", "convert", tiny_clip, "-o", "taken", "--force")
        torch.save({"layer.weight": torch.ones(3, 4)}, "other.pt")
        run("weights", "convert", "other.pt", "-o", "new", code=2)
        assert not Path("new").exists()
        torch.jit.script(torch.nn.Linear(2, 2)).save("script.pt")
        error = run("weights", "convert", "script.pt", "-o", "new", code=2).stderr
        assert "carries code" in error


def put_in_hub_cache(
    entry: registry.EncoderEntry, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lay a file where the hub's library would have put it."""
    from huggingface_hub import constants

    cache = Path("hub").absolute()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.file_download.HF_HUB_CACHE", str(cache), raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    folder = cache / f"models--{entry.repo.replace('/', '--')}" / "snapshots" / entry.revision
    folder.mkdir(parents=True)
    shutil.copy(file, folder / entry.file)
