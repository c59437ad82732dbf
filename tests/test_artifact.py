from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from fake_encoder import ColorEncoder, recognizer_of, squares
from piaa import Config, Recognizer
from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import ArtifactError, InputError, PiaaError
from piaa.images import Tiles
from worlds import patch_world

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")

CLASSES = ["red: scarlet, crimson", "green", "blue"]


def pictures(count: int = 24) -> list[Image.Image]:
    kinds = (["red"], ["green"], ["blue"], ["red", "blue"])
    return [squares(i, kinds[i % len(kinds)]) for i in range(count)]


def scores(recognizer: Recognizer, count: int = 24) -> torch.Tensor:
    return torch.stack([p.scores for p in recognizer.predict(pictures(count))])


@pytest.fixture(scope="module")
def fitted() -> Recognizer:
    recognizer = Recognizer(ColorEncoder(), CLASSES, template="my {}", config=Config(bank_size=64))
    recognizer.fit(pictures())
    return recognizer


@pytest.fixture
def path(fitted: Recognizer, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "model.piaa")
    return tmp_path / "model.piaa"


class TestRoundTrip:
    def test_everything_comes_back(self, fitted: Recognizer, path: Path) -> None:
        loaded = Recognizer.load(path, ColorEncoder())
        assert torch.equal(scores(loaded), scores(fitted))
        assert loaded.report == fitted.report
        assert loaded.classes == fitted.classes
        assert loaded.config == fitted.config
        assert loaded.template == "my {}"
        assert loaded.is_fitted
        assert repr(loaded) == repr(fitted)
        one, other = (r.predict(pictures(1))[0] for r in (loaded, fitted))
        assert one.tags == other.tags
        for kind in ("fused", "text", "learned", "difference"):
            assert torch.equal(one.heatmap("red", kind=kind), other.heatmap("red", kind=kind))
        features = fitted.encoder.encode_images(pictures(6))
        assert fitted.retained(features, "red").any()
        assert torch.equal(loaded.retained(features, "red"), fitted.retained(features, "red"))

    @pytest.mark.parametrize("config", [Config.paper(), Config.reference("nus")])
    def test_published_forms(self, config: Config, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES, config=config)
        recognizer.fit(pictures())
        recognizer.save(tmp_path / "model")
        loaded = Recognizer.load(tmp_path / "model", ColorEncoder())
        assert torch.equal(scores(loaded), scores(recognizer))

    def test_no_text_is_encoded(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A text encoder may be slow to load, or not there at all."""
        monkeypatch.delattr(ColorEncoder, "encode_text")
        assert len(scores(Recognizer.load(path, ColorEncoder()))) == 24

    def test_before_fit(self, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES)
        recognizer.save(tmp_path / "model")
        loaded = Recognizer.load(tmp_path / "model", ColorEncoder())
        assert not loaded.is_fitted
        assert torch.equal(scores(loaded), scores(recognizer))
        assert loaded.partial_fit(pictures()).is_fitted

    def test_calibrated_thresholds_are_saved(self, path: Path) -> None:
        recognizer = Recognizer.load(path, ColorEncoder())
        labels = [[["red"], ["green"], ["blue"], ["red", "blue"]][i % 4] for i in range(24)]
        thresholds = recognizer.calibrate(pictures(), labels)
        recognizer.save(path)
        loaded = Recognizer.load(path, ColorEncoder())
        assert torch.equal(loaded.scorer.thresholds, thresholds)
        assert [[n for n, _ in p.tags] for p in loaded.predict(pictures(3))] == labels[:3]

    def test_a_loaded_one_does_not_learn_on(self, path: Path, fitted: Recognizer) -> None:
        loaded = Recognizer.load(path, ColorEncoder())
        with pytest.raises(InputError, match="Fit a new Recognizer on all images"):
            loaded.partial_fit(pictures())
        with pytest.raises(InputError, match=r"fitted .not loaded. to be merged"):
            loaded.merge(fitted)
        with pytest.raises(InputError, match="features were not kept"):
            loaded.with_classes(["red", "green"])
        loaded.fit(pictures(6))
        assert loaded.report.n_images == 6

    def test_any_names_and_one_class(self, tmp_path: Path) -> None:
        names = {'Müllwagen: "gelb"\\': ["犬, 猫"], "a\u2028b": [], "🙂": ["x"]}
        recognizer = Recognizer(ColorEncoder(), names)
        recognizer.save(tmp_path / "model")
        loaded = Recognizer.load(tmp_path / "model", ColorEncoder())
        assert loaded.classes == recognizer.classes
        single = recognizer_of(patch_world(0, 3, 2, 8, 1, most_labels=1))
        single.save(tmp_path / "single")
        assert len(Recognizer.load(tmp_path / "single", single.encoder).classes) == 1


class TestFile:
    def test_plain_safetensors_that_tells_all(self, path: Path, fitted: Recognizer) -> None:
        with safe_open(path, framework="np") as file:
            header = json.loads(file.metadata()["piaa"])
            names = set(file.keys())
        assert {"text", "thresholds", "classifier.weight", "classifier.bias"} < names
        assert (header["format"], header["version"]) == ("piaa-recognizer", 1)
        assert header["classes"]["names"] == ["red", "green", "blue"]
        assert header["prompts"][0] == ["my red", "my scarlet", "my crimson"]
        assert header["encoder"]["weights_sha256"] == "0" * 64
        assert header["encoder"]["preprocessing"]["fit"] == "crop"
        assert header["config"]["bank_size"] == 64
        assert header["report"] == json.loads(json.dumps(fitted.report.to_dict()))
        # Eight bytes of length, JSON, numbers: nothing that could be code.
        data = path.read_bytes()
        json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])

    def test_as_readable_as_any_file(self, path: Path) -> None:
        plain = path.with_name("plain")
        plain.touch()
        assert path.stat().st_mode == plain.stat().st_mode

    @pytest.mark.parametrize("failing", ["fsync", "replace"])
    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
    def test_whole_or_not_at_all(
        self,
        path: Path,
        fitted: Recognizer,
        monkeypatch: pytest.MonkeyPatch,
        failing: str,
        error: BaseException,
    ) -> None:
        before = path.read_bytes()

        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(*((os, "fsync") if failing == "fsync" else (Path, "replace")), fail)
        expected = ArtifactError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected, match="No space left" if expected is ArtifactError else None):
            fitted.save(path)
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_places_that_cannot_be_written(self, fitted: Recognizer, tmp_path: Path) -> None:
        for target in (tmp_path / "gone" / "model", tmp_path):
            with pytest.raises(ArtifactError, match="cannot be written"):
                fitted.save(target)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ArtifactError, match=r"no saved recognizer at .*nowhere"):
            Recognizer.load(tmp_path / "nowhere", ColorEncoder())
        with pytest.raises(ArtifactError):
            Recognizer.load(tmp_path, ColorEncoder())


def same(one: Artifact, other: Artifact) -> bool:
    return one.header == other.header and all(
        torch.equal(one.tensors[name], tensor) for name, tensor in other.tensors.items()
    )


class TestDamage:
    def test_cut_short(self, path: Path) -> None:
        data = path.read_bytes()
        lengths = {*range(40), *range(0, len(data), 97), *range(len(data) - 40, len(data))}
        for length in lengths:
            path.write_bytes(data[:length])
            with pytest.raises(ArtifactError, match=r"model\.piaa"):
                Recognizer.load(path, ColorEncoder())
        path.write_bytes(data + b"\0")
        with pytest.raises(ArtifactError):
            Recognizer.load(path, ColorEncoder())

    def test_every_byte_counts(self, fitted: Recognizer, tmp_path: Path) -> None:
        """A changed bit is an error, or (white space in JSON) changes nothing at all."""
        path = tmp_path / "model"
        small = Recognizer(
            ColorEncoder(), ["red", "green"], config=Config(bank_size=2, bank_floor=1)
        )
        small.fit(pictures(8))
        small.save(path)
        whole, data = load_artifact(path), bytearray(path.read_bytes())
        unchanged = 0
        for place in (*range(32), *range(32, len(data), 5)):
            flipped = 1 << place % 8
            data[place] ^= flipped
            path.write_bytes(data)
            try:
                found = load_artifact(path)
            except ArtifactError:
                pass
            else:
                assert same(found, whole), place
                unchanged += 1
            data[place] ^= flipped
        assert unchanged < 10

    def test_files_of_others(self, path: Path) -> None:
        save_file({"text": torch.zeros(3)}, path)
        with pytest.raises(ArtifactError, match="no saved piaa recognizer"):
            Recognizer.load(path, ColorEncoder())
        for metadata in ({"piaa": "{}"}, {"piaa": "{}", "piaa_sha256": "0"}):
            save_file({"text": torch.zeros(3)}, path, metadata=metadata)
            with pytest.raises(ArtifactError, match="header does not match its hash"):
                Recognizer.load(path, ColorEncoder())
        for text, message in (("[]", "no saved piaa"), ("{", "no JSON"), ("{}", "no saved piaa")):
            digest = hashlib.sha256(text.encode()).hexdigest()
            save_file({"t": torch.zeros(3)}, path, metadata={"piaa": text, "piaa_sha256": digest})
            with pytest.raises(ArtifactError, match=message):
                Recognizer.load(path, ColorEncoder())
        path.write_text("a text")
        with pytest.raises(ArtifactError, match="no complete piaa model"):
            Recognizer.load(path, ColorEncoder())

    def test_a_newer_version(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = load_artifact(path)
        monkeypatch.setattr("piaa.artifact.VERSION", 2)
        save_artifact(path, whole)
        monkeypatch.undo()
        with pytest.raises(ArtifactError, match="format version 2; this piaa reads version 1"):
            Recognizer.load(path, ColorEncoder())

    def check_forged(self, path: Path, tensors: Any, header: Any, message: str) -> None:
        """Written with right hashes, so that only what it says is wrong."""
        save_artifact(path, Artifact(tensors, header))
        with pytest.raises(ArtifactError, match=message) as caught:
            Recognizer.load(path, ColorEncoder())
        assert isinstance(caught.value, PiaaError)
        assert "model.piaa" in str(caught.value)

    def test_tensors_that_do_not_fit(self, path: Path) -> None:
        whole = load_artifact(path)
        for name, tensor in whole.tensors.items():
            without = {key: value for key, value in whole.tensors.items() if key != name}
            self.check_forged(path, without, whole.header, name)
            longer = torch.cat([torch.atleast_1d(tensor), torch.atleast_1d(tensor)[:1]])
            wrong = "rows for 3 classes" if name == "text" else "in place of"
            self.check_forged(path, {**without, name: longer}, whole.header, wrong)
            self.check_forged(path, {**without, name: tensor[None]}, whole.header, wrong)
            self.check_forged(path, {**without, name: tensor.half()}, whole.header, "in place of")
            if tensor.is_floating_point():
                nan = torch.full_like(tensor, torch.nan)
                self.check_forged(
                    path, {**without, name: nan}, whole.header, f"{name} .*not finite"
                )
        more = {**whole.tensors, "more": torch.zeros(1)}
        self.check_forged(path, more, whole.header, "more")
        flat = {**whole.tensors, "beyond.width": torch.zeros_like(whole.tensors["beyond.width"])}
        self.check_forged(path, flat, whole.header, "beyond.width .*not positive")

    def test_a_single_class_has_no_company_and_no_end(self, path: Path) -> None:
        Recognizer(ColorEncoder(), ["red"], others=None).save(path)
        zero = load_artifact(path)
        recognizer = Recognizer(ColorEncoder(), ["red"], others=None)
        recognizer.fit(pictures())
        recognizer.save(path)
        whole = load_artifact(path)
        names = (*zero.tensors, *whole.tensors)
        assert not any(name.startswith(("company.", "beyond.")) for name in names)
        forged = {"company.level": torch.zeros(1), "company.cost": torch.zeros(1)}
        forged["company.steepness"] = torch.tensor(1.0)
        self.check_forged(path, {**whole.tensors, **forged}, whole.header, "too many: company")
        forged = {f"beyond.{name}": torch.ones(1) for name in ("level", "width", "floor")}
        self.check_forged(path, {**whole.tensors, **forged}, whole.header, "too many: beyond")

    def test_headers_that_do_not_fit(self, path: Path) -> None:
        whole = load_artifact(path)
        # Older files have no other names, and this fit has left its own out.
        needed = set(whole.header) - {"format", "version", "sha256", "prompts", "others"}
        for key in needed:
            without = {k: v for k, v in whole.header.items() if k != key}
            self.check_forged(path, whole.tensors, without, key)
            for wrong in (7, "x", [], {"x": 1}):
                if key != "source" and (key, wrong) != ("slope", 7):  # there all are allowed
                    self.check_forged(
                        path, whole.tensors, {**whole.header, key: wrong}, "another|whole"
                    )
        report = whole.header["report"]
        for wrong in (
            {"classes": {"names": ["a", "b"], "phrases": [["a"], ["b"]]}},
            {"classes": {"names": ["a", "b", "a"], "phrases": [["a"], ["b"], ["c"]]}},
            {"report": None},
            {"report": {**report, "classes": report["classes"][:2]}},
            {"report": {**report, "classes": report["classes"][::-1]}},
            {"report": {**report, "classes": [{"name": "red"}] * 3}},
            {"report": {**report, "unnamed": 7}},
            {"report": {**report, "unnamed": "x"}},
            {"others": 7},
            {"others": [7]},
            {"scales": {**whole.header["scales"], "text": -1}},
            {"scales": {**whole.header["scales"], "more": 1}},
            {"scales": {"text": 1.0}},
            {"slope": 0},
            {"slope": "1"},
            {"template": "no place"},
            {"config": {**whole.header["config"], "alpha": 7}},
            {"config": {**whole.header["config"], "more": 7}},
        ):
            self.check_forged(path, whole.tensors, {**whole.header, **wrong}, "not a whole saved")


class TestEncoders:
    @pytest.mark.parametrize(
        ("encoder", "message"),
        [
            (
                ColorEncoder(sha256="9" * 64),
                f"weights_sha256: '{'0' * 64}' there, '{'9' * 64}' here",
            ),
            (ColorEncoder(fit="pad"), "preprocessing: .*'crop'.* there, .*'pad'.* here"),
            (ColorEncoder(canvas=(64, 96)), r"\[64, 64\].* there, .*\[64, 96\].* here"),
            (TiledEncoder(ColorEncoder()), "tiles: None there, .*'rows': 2.* here"),
        ],
    )
    def test_another_one_is_named(self, path: Path, encoder: Any, message: str) -> None:
        with pytest.raises(ArtifactError, match=message):
            Recognizer.load(path, encoder)

    def test_another_front_end(self, path: Path) -> None:
        encoder = ColorEncoder()
        encoder.spec = replace(encoder.spec, frontend="sharp", frontend_options={"beta": 2})
        message = (
            "frontend: 'none' there, 'sharp' here; frontend_options: {} there, {'beta': 2} here"
        )
        with pytest.raises(ArtifactError, match=message):
            Recognizer.load(path, encoder)

    def test_a_renamed_one_is_the_same(self, path: Path, fitted: Recognizer) -> None:
        encoder = ColorEncoder()
        encoder.spec = replace(encoder.spec, name="hues")
        assert torch.equal(scores(Recognizer.load(path, encoder)), scores(fitted))

    def test_tiles_have_to_be_the_same(self, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES, tiles=2)
        recognizer.fit(pictures(8))
        recognizer.save(tmp_path / "model")
        loaded = Recognizer.load(tmp_path / "model", TiledEncoder(ColorEncoder(), Tiles(2, 2)))
        assert torch.equal(scores(loaded, 4), scores(recognizer, 4))
        for other, seen in (
            (ColorEncoder(), "None"),
            (TiledEncoder(ColorEncoder(), Tiles(3, 3)), "3"),
        ):
            with pytest.raises(ArtifactError, match=f"tiles: .*'rows': 2.* there, .*{seen}.* here"):
                Recognizer.load(tmp_path / "model", other)
