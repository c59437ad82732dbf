"""Predictions in units are those of `Recognizer.predict`, whatever happens on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from shaky_encoder import ShakyEncoder, save_pictures, shaky_recognizer
from test_fit_units import Interrupted

from piaa import Recognizer
from piaa.errors import InputError
from piaa.scale.fit import unfinished
from piaa.scale.job import DamagedUnitWarning
from piaa.scale.local import Engine
from piaa.scale.predict import Tagged, predict_units
from piaa.scale.sources import find_parts
from piaa.scale.units import cut
from piaa.scale.watching import Tally

N, BATCH = 14, 4


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict") / "photos"
    save_pictures(folder, N)
    (folder / "bad.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="module")
def model(photos: Path) -> Path:
    path = photos.parent / "model"
    recognizer = shaky_recognizer()
    recognizer.partial_fit(photos, on_error=lambda *_: None)
    recognizer.save(path)
    return path


def load(model: Path) -> Recognizer:
    return Recognizer.load(model, ShakyEncoder())


def predict(
    photos: Path,
    model: Path,
    folder: Path,
    *,
    engine: Engine | None = None,
    watch: Tally | None = None,
    **options: object,
) -> list[Tagged]:
    units = cut(find_parts([photos]), 8)
    with predict_units(
        load(model),
        units,
        unfinished(folder / "tags"),
        watch=watch or Tally(N, len(units)),
        engine=engine,
        batch_size=BATCH,
        **options,
    ) as predictions:
        found = list(predictions)
    assert list(folder.iterdir()) == []
    return found


def expected(photos: Path, model: Path, **options: object) -> list[Tagged]:
    predictions = load(model).predict(photos, batch_size=BATCH, on_error=lambda *_: None, **options)
    return [Tagged(p.source, p.size, p.tags) for p in predictions]


def test_as_at_once(photos: Path, model: Path, tmp_path: Path) -> None:
    watch = Tally(N + 1, 2)
    found = predict(photos, model, tmp_path, watch=watch)
    assert len(found) == N
    assert found == expected(photos, model)
    assert [Path(name).name for name, _ in watch.skipped] == ["bad.jpg"]
    assert list(watch.stages) == ["encode", "score", "save"]
    options = {"threshold": 0.2, "top_k": 1}
    assert predict(photos, model, tmp_path, **options) == expected(photos, model, **options)


def test_interrupted_and_damaged(photos: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        predict(photos, model, tmp_path, engine=Interrupted(1))
    watch = Tally(N + 1, 2)
    assert predict(photos, model, tmp_path, watch=watch) == expected(photos, model)
    assert watch.earlier == 8
    for damage in (b"", b"{}\n", b"[]", b"\xff"):
        with pytest.raises(KeyboardInterrupt):
            predict(photos, model, tmp_path, engine=Interrupted(1))
        (unit,) = unfinished(tmp_path / "tags").glob("unit-*")
        unit.write_bytes(damage)
        with pytest.warns(DamagedUnitWarning):
            assert predict(photos, model, tmp_path) == expected(photos, model)


def test_a_failure_of_the_caller_keeps_the_work(photos: Path, model: Path, tmp_path: Path) -> None:
    units = cut(find_parts([photos]), 8)
    folder = unfinished(tmp_path / "tags")
    with (
        pytest.raises(OSError, match="full"),
        predict_units(load(model), units, folder, watch=Tally(N, 2), batch_size=BATCH),
    ):
        raise OSError("disk full")
    watch = Tally(N, 2)
    predict(photos, model, tmp_path, watch=watch)
    assert watch.earlier == N


def test_another_model_or_option_is_refused(photos: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        predict(photos, model, tmp_path, engine=Interrupted(1))
    with pytest.raises(InputError, match=r"threshold was 0\.5 and is now 0\.7"):
        predict(photos, model, tmp_path, threshold=0.7)
    other = tmp_path.parent / f"{tmp_path.name}-other"
    recognizer = load(model)
    recognizer.calibrate([photos / "000.png"], [["red"]])
    recognizer.save(other)
    with pytest.raises(InputError, match="learned was"):
        predict(photos, other, tmp_path)


def test_wrong_arguments_begin_no_job(photos: Path, model: Path, tmp_path: Path) -> None:
    for wrong in ({"threshold": 2}, {"top_k": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            predict(photos, model, tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []
