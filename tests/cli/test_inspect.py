"""What `piaa inspect` says of models and weights, against what is in them."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from cli_samples import Run
from safetensors.torch import load_file

from fake_encoder import CLASSES, ColorEncoder, pictures
from piaa import Recognizer
from piaa.encoders.tensor_files import file_sha256


class TestModel:
    def test_as_json(self, run: Run, saved_colors: Path) -> None:
        found = json.loads(run("inspect", saved_colors, "--json").stdout)
        recognizer = Recognizer.load(saved_colors, ColorEncoder())
        assert found["kind"] == "model"
        assert found["classes"] == {name: [name] for name in CLASSES}
        assert list(found["thresholds"].values()) == pytest.approx(
            recognizer.scorer.thresholds.tolist()
        )
        assert found["encoder"]["name"] == "colors"
        assert found["report"] == json.loads(json.dumps(recognizer.report.to_dict()))

    def test_as_text(self, run: Run, saved_colors: Path) -> None:
        out = run("inspect", saved_colors).stdout
        assert "learnt from 12 pictures" in out
        assert "colors, 16 numbers a vector" in out
        report = Recognizer.load(saved_colors, ColorEncoder()).report
        for row in report.classes:
            (line,) = [line for line in out.splitlines() if line.startswith(row.name)]
            assert f"{row.threshold:.2f}" in line.split()
            assert row.warning in " ".join(line.split())

    def test_one_that_is_not_fitted(self, run: Run, own_folder: Path) -> None:
        Recognizer(ColorEncoder(), ["red", "blue: azure"]).save("zero.piaa")
        out = run("inspect", "zero.piaa").stdout
        assert "zero-shot" in out
        assert "blue, azure" in out

    def test_other_names(self, run: Run, own_folder: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), ["red"], others=["white", "blue"])
        recognizer.save("some.piaa")
        Recognizer(ColorEncoder(), ["red"], others=None).save("none.piaa")
        assert "2, white, blue" in run("inspect", "some.piaa").stdout
        assert json.loads(run("inspect", "some.piaa", "--json").stdout)["others"] == [
            "white",
            "blue",
        ]
        assert "other names" in run("inspect", "none.piaa").stdout
        closed = Recognizer(ColorEncoder(), CLASSES)
        closed.fit(pictures(40))
        closed.save("closed.piaa")
        assert "left out" in run("inspect", "closed.piaa").stdout
        assert json.loads(run("inspect", "closed.piaa", "--json").stdout)["others"] == []

    def test_a_damaged_one(self, run: Run, own_folder: Path, saved_colors: Path) -> None:
        data = bytearray(saved_colors.read_bytes())
        data[-3] ^= 1
        Path("damaged.piaa").write_bytes(data)
        assert "changed or damaged" in run("inspect", "damaged.piaa", code=2).stderr
        Path("cut.piaa").write_bytes(data[:200])
        assert "no complete piaa model" in run("inspect", "cut.piaa", code=2).stderr
        assert "no saved recognizer" in run("inspect", "none.piaa", code=2).stderr


class TestWeights:
    def test_as_json(self, run: Run, tiny_clip: Path) -> None:
        found = json.loads(run("inspect", tiny_clip, "--json").stdout)
        tensors = load_file(tiny_clip)
        assert found["kind"] == "weights"
        assert found["container"] == "safetensors"
        assert found["tensors"] == len(tensors)
        assert found["numbers"] == sum(tensor.numel() for tensor in tensors.values())
        assert found["sha256"] == [file_sha256(tiny_clip)]
        model = found["model"]
        assert (model["patch"], model["grid"], model["embed_dim"]) == (32, [2, 2], 16)
        assert (model["activation"], model["layout"]) == ("quick_gelu", "openai")

    def test_as_text(self, run: Run, tiny_clip: Path) -> None:
        out = run("inspect", tiny_clip).stdout
        assert "64 x 64 px" in out
        assert "quick_gelu" in out
        assert file_sha256(tiny_clip) in out.replace("\n", "")

    def test_of_torch_save(self, run: Run, own_folder: Path, tiny_clip: Path) -> None:
        torch.save(load_file(tiny_clip), "clip.pt")
        found = json.loads(run("inspect", "clip.pt", "--json").stdout)
        assert found["container"] == "torch.save"
        assert found["model"]["embed_dim"] == 16

    def test_of_another_kind_of_model(self, run: Run, own_folder: Path) -> None:
        torch.save({"layer.weight": torch.ones(3, 4)}, "other.pt")
        out = run("inspect", "other.pt").stdout
        assert "none that --weights takes" in out
        assert "1 float32" in out

    @pytest.mark.parametrize("form", ["old", "zip"])
    def test_a_pickle_is_never_run(self, run: Run, own_folder: Path, form: str) -> None:
        if form == "old":
            Path("evil.pt").write_bytes(pickle.dumps(Trap()))
        else:
            torch.save({"weight": torch.ones(1), "trap": Trap()}, "evil.pt")
        assert "piaa never loads" in run("inspect", "evil.pt", code=2).stderr
        assert not Path("trapped").exists()

    def test_torchscript_is_not_opened(
        self, run: Run, own_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        torch.jit.script(torch.nn.Linear(2, 2)).save("script.pt")
        monkeypatch.setattr(torch.jit, "load", None)
        assert "carries code, and was not opened" in run("inspect", "script.pt").stdout

    def test_what_is_no_weights(self, run: Run, own_folder: Path) -> None:
        Path("notes.txt").write_text("hello")
        assert "no checkpoint" in run("inspect", "notes.txt", code=2).stderr
        Path("empty.pt").touch()
        assert "is empty" in run("inspect", "empty.pt", code=2).stderr
        assert "No weights at none" in run("inspect", "none", code=2).stderr

    def test_a_directory_with_its_config(self, run: Run, own_folder: Path, tiny_clip: Path) -> None:
        Path("clip").mkdir()
        shutil.copy(tiny_clip, "clip/open_clip_model.safetensors")
        Path("clip/open_clip_config.json").write_text('{"model_cfg": {}}')
        out = run("inspect", "clip").stdout
        assert "open_clip_config.json" in out


class Trap:
    """Leaves a file behind when it is unpickled as an ordinary pickle would be."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path("trapped").touch, ())
