"""What is in a report, against what the recognizer says."""

from __future__ import annotations

import base64
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from report_samples import HOSTILE_FILE, ROTATED, Made, data_of, small_report

from fake_encoder import CLASSES, ColorEncoder, squares
from piaa import Recognizer
from piaa.encoders.base import ImageFeatures
from piaa.errors import ImageError, InputError
from piaa.heatmaps import cell_boxes
from piaa.report import write_report
from piaa.report.entries import BankPatch
from piaa.report.page import CHUNK
from piaa.report.patches import choose


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small_report(tmp_path_factory)


def paths(made: Made) -> list[Path]:
    return [made.photos / name for name in made.index["names"]]


def stored_maps(folder: Path, photo: int) -> dict:
    return data_of(folder, f"maps-{photo // CHUNK}")["photos"][photo % CHUNK]


def levels_of(stored: dict, kinds: int) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(stored["levels"]), np.uint8).astype(np.float64)
    levels = flat.reshape(len(stored["classes"]), kinds, -1)
    return levels / 255 * np.array(stored["tops"])[:, None, None]


def features_of(made: Made, photo: int) -> ImageFeatures:
    return made.recognizer.encoder.encode_images([paths(made)[photo]])


def test_names_are_below_the_photographs_folder(made: Made) -> None:
    assert made.summary.n_photos == len(made.index["names"]) == 42
    assert {"000.png", "more/001.png", HOSTILE_FILE, ROTATED} <= set(made.index["names"])
    assert all(path.is_file() for path in paths(made))
    everything = "".join(p.read_text() for p in made.folder.rglob("*.js"))
    assert str(made.photos.parent) not in everything


def test_scores_and_tags_are_those_of_predict(made: Made) -> None:
    predictions = made.recognizer.predict(paths(made))
    stored = np.frombuffer(base64.b64decode(made.index["scores"]), "<u2") / made.index["levels"]
    expected = torch.stack([p.scores for p in predictions]).double().numpy()
    off = expected - stored.reshape(expected.shape)
    assert (off >= -1e-9).all()
    assert (off < 1.01 / 65535).all()
    names = [row["name"] for row in made.index["classes"]]
    assert [[names[k] for k in tags] for tags in made.index["tags"]] == [
        [name for name, _ in p.tags] for p in predictions
    ]


def test_maps_are_those_of_the_prediction(made: Made) -> None:
    kinds = made.index["kinds"]
    assert kinds == ["fused", "text", "learned"]
    for photo in (0, 13, 40):
        stored = stored_maps(made.folder, photo)
        values = levels_of(stored, len(kinds))
        prediction = made.recognizer.predict([paths(made)[photo]])[0]
        assert set(made.index["tags"][photo]) <= set(stored["classes"])
        for place, k in enumerate(stored["classes"]):
            for at, kind in enumerate(kinds):
                heat = prediction.heatmap(made.recognizer.classes.names[k], kind=kind)
                step = stored["tops"][place] / 255
                # Predictions keep their patches in half precision.
                assert np.abs(values[place, at] - heat.flatten().numpy()).max() < step / 2 + 2e-3
        placement = features_of(made, photo).placements[0]
        rows, columns = placement.original_size
        shares = np.array(placement.box) / [rows, columns, rows, columns]
        assert np.abs(np.array(stored["boxes"][0]) - shares).max() < 1e-5


def test_bank_cells_are_the_retained_ones(made: Made) -> None:
    total = 0
    for photo in range(len(paths(made))):
        bank = stored_maps(made.folder, photo)["bank"]
        features = features_of(made, photo)
        for k, name in enumerate(made.recognizer.classes.names):
            cells = made.recognizer.retained(features, name)[0].nonzero().flatten().tolist()
            assert bank.get(str(k), []) == cells
            total += len(cells)
    assert total == sum(row["found"] for row in made.index["classes"]) > 0


def test_crops_show_the_cells(made: Made) -> None:
    written = 0
    for k, row in enumerate(made.index["classes"]):
        for photo, cell in row["patches"]:
            features = features_of(made, photo)
            top, left, bottom, right = cell_boxes(features.grid, features.placements)[cell].tolist()
            box = (left, top, right, bottom)
            one = (1, 1)
            with Image.open(paths(made)[photo]) as picture:
                expected = np.asarray(picture.resize(one, Image.Resampling.BOX, box=box), int)
            with Image.open(made.folder / f"patches/{k:04d}-{photo:06d}-{cell:04d}.jpg") as crop:
                color = np.asarray(crop.resize(one, Image.Resampling.BOX), int)
            assert np.abs(color - expected).max() < 30  # JPEG blurs the edges of squares
            written += 1
    assert len(list((made.folder / "patches").iterdir())) == written > 20


def test_patches_of_different_photographs_come_first() -> None:
    def patch(cell: int, likelihood: float) -> BankPatch:
        return BankPatch(0, cell, (0, 0, 1, 1), likelihood)

    found = [(0, patch(cell, 0.9 - cell / 100)) for cell in range(30)] + [(1, patch(0, 0.1))]
    chosen = choose(found)
    assert [(entry, p.cell) for entry, p in chosen[:4]] == [(0, 0), (0, 1), (1, 0), (0, 2)]
    assert len(chosen) == 24


def test_copies_are_upright_small_and_bare(made: Made, tmp_path: Path) -> None:
    photo = made.index["names"].index(ROTATED)
    assert made.index["sizes"][photo] == [120, 50]
    number = made.index["numbers"][photo]
    for kind in ("photos", "thumbs"):
        with Image.open(made.folder / kind / f"{number:06d}.jpg") as copy:
            assert copy.size == (50, 120)
            assert not copy.getexif()
        assert b"private remark" not in (made.folder / kind / f"{number:06d}.jpg").read_bytes()
    large = tmp_path / "large.png"
    Image.effect_noise((2000, 1000), 50).save(large)
    summary = write_report(made.recognizer, [large], tmp_path / "out", photo_size=500)
    sizes = {
        kind: Image.open(summary.page.parent / kind / "000000.jpg").size
        for kind in ("photos", "thumbs")
    }
    assert sizes == {"photos": (500, 250), "thumbs": (384, 192)}


def test_unreadable_photographs_are_left_out_and_listed(made: Made, tmp_path: Path) -> None:
    assert [(path.name, reason) for path, reason in made.errors] == [
        (path.name, error.reason) for path, error in made.summary.skipped
    ]
    assert made.index["skipped"] == [["broken.jpg", made.errors[0][1]]]
    with pytest.raises(ImageError, match=r"broken\.jpg"):
        write_report(made.recognizer, made.photos, tmp_path / "strict")
    broken = [made.photos / "broken.jpg"]
    with pytest.raises(InputError, match="None of the 1 photographs could be read"):
        write_report(made.recognizer, broken, tmp_path / "none", on_error=lambda *_: None)
    assert list(tmp_path.iterdir()) == []


def test_zero_shot_has_text_maps_and_no_banks(made: Made, tmp_path: Path) -> None:
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    write_report(recognizer, made.photos / "000.png", tmp_path / "out", threshold=0.2)
    index = data_of(tmp_path / "out", "index")
    assert (index["kinds"], index["fitted"], index["threshold"]) == (["text"], 0, 0.2)
    assert [(row["fit"], row["patches"]) for row in index["classes"]] == [(None, [])] * 3
    assert index["title"] == "photos"
    assert stored_maps(tmp_path / "out", 0)["bank"] == {}


def test_padded_and_tiled_pictures(tmp_path: Path) -> None:
    photos = [squares(i, ["red", "blue"][i % 2 : i % 2 + 1], size=(40, 90)) for i in range(12)]
    for i, photo in enumerate(photos):
        photo.save(tmp_path / f"{i}.png")
    recognizer = Recognizer(ColorEncoder(fit="pad"), CLASSES, tiles=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # green is in none of them
        recognizer.fit(photos)
    write_report(recognizer, tmp_path, tmp_path / "out")
    index = data_of(tmp_path / "out", "index")
    stored = stored_maps(tmp_path / "out", 3)
    assert (index["windows"], len(stored["boxes"])) == (5, 5)
    assert stored["boxes"][0][0] < 0  # the whole picture, padded above
    assert levels_of(stored, 3).shape[2] == 5 * 64
    for row in index["classes"]:
        assert row["patches"] == [] or all(cell < 5 * 64 for _, cell in row["patches"])


def test_a_report_may_lie_among_the_photographs(tmp_path: Path) -> None:
    squares(1, ["red"]).save(tmp_path / "a.png")
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    for _ in range(2):
        assert write_report(recognizer, tmp_path, tmp_path / "out", force=True).n_photos == 1


def test_wrong_arguments_are_named(made: Made, tmp_path: Path) -> None:
    for size in (0, 63, 9000, True, 100.0):
        with pytest.raises(InputError, match="photo_size must be"):
            write_report(made.recognizer, made.photos, tmp_path / "x", photo_size=size)
    with pytest.raises(InputError, match="the list is empty"):
        write_report(made.recognizer, [], tmp_path / "x")
    with pytest.raises(InputError, match="threshold must be"):
        write_report(made.recognizer, made.photos / "000.png", tmp_path / "x", threshold=2)
    assert list(tmp_path.iterdir()) == []
