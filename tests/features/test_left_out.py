"""Pictures that cannot be read are left out, and the others keep their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from comparing import assert_same
from fake_encoder import CLASSES, ColorEncoder, pictures
from piaa import Recognizer
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import ImageError, InputError
from piaa.features.batches import sourced_batches
from piaa.images import ImageSource

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """10 pictures."""
    folder = tmp_path_factory.mktemp("photos")
    for i, picture in enumerate(pictures(10)):
        picture.save(folder / f"{i:02d}.png")
    return sorted(folder.iterdir())


def with_bad(files: list[Path], bad: set[int], folder: Path) -> list[Path]:
    """Each of `bad` comes before the picture of that number; several may follow each other."""
    mixed = []
    for number, file in enumerate([*files, None]):
        for copy in range(2 if number in bad else 0):
            mixed.append(folder / f"bad-{number}-{copy}.png")
            mixed[-1].write_bytes(b"no picture")
        mixed += [file] if file is not None else []
    return mixed


def encoders() -> list[Encoder]:
    return [ColorEncoder(), TiledEncoder(ColorEncoder())]


@pytest.mark.parametrize("encoder", encoders(), ids=["whole", "tiled"])
@pytest.mark.parametrize("batch_size", [1, 3, 20])
@pytest.mark.parametrize("bad", [{0, 10}, {3, 4, 5}, {0, 3, 4, 9, 10}, set(range(11))])
def test_predictions_stay_with_their_pictures(
    encoder: Encoder, batch_size: int, bad: set[int], files: list[Path], tmp_path: Path
) -> None:
    recognizer = Recognizer(encoder, CLASSES)
    wanted = recognizer.predict(files)
    mixed = with_bad(files, bad, tmp_path)
    lost: list[tuple[int, ImageSource]] = []
    found = recognizer.predict(
        mixed,
        batch_size=batch_size,
        on_error=lambda index, source, error: lost.append((index, source)),
    )
    assert [p.source for p in found] == [str(file) for file in files]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.scores, other.scores)
        assert one.size == other.size == (64, 64)
    assert lost == [(i, file) for i, file in enumerate(mixed) if file not in files]


@pytest.mark.parametrize("encoder", encoders(), ids=["whole", "tiled"])
def test_without_on_error_the_first_one_raises(
    encoder: Encoder, files: list[Path], tmp_path: Path
) -> None:
    stream = Recognizer(encoder, CLASSES).stream(with_bad(files, {4}, tmp_path), batch_size=2)
    assert [next(stream).source for _ in range(4)] == [str(file) for file in files[:4]]
    with pytest.raises(ImageError, match="bad-4-0"):
        next(stream)


def test_an_error_says_why_in_a_few_words(files: list[Path], tmp_path: Path) -> None:
    reasons = []
    Recognizer(ColorEncoder(), CLASSES).predict(
        with_bad(files, {0}, tmp_path),
        on_error=lambda index, source, error: reasons.append(error.reason),
    )
    assert "not a picture" in reasons[0]
    assert "bad-0" not in reasons[0]


def test_fit_leaves_them_out_too(files: list[Path], tmp_path: Path) -> None:
    mixed, lost = with_bad(files, {2, 7}, tmp_path), []
    recognizers = [Recognizer(ColorEncoder(), CLASSES) for _ in range(3)]
    recognizers[0].fit(files)
    recognizers[1].fit(mixed, on_error=lambda index, *_: lost.append(index))
    recognizers[2].partial_fit(mixed, on_error=lambda index, *_: lost.append(index))
    assert len(lost) == 8
    assert_same(recognizers[0], recognizers[1])
    assert_same(recognizers[0], recognizers[2])
    with pytest.raises(InputError, match="no images"):
        recognizers[1].fit([mixed[2]], on_error=lambda *_: None)


def test_a_clip_leaves_them_out(files: list[Path], tmp_path: Path, load: object) -> None:
    encoder: ClipEncoder = load("clip", frontend="clip")  # type: ignore[operator]
    lost: list[int] = []
    mixed = with_bad(files[:3], {1}, tmp_path)
    parts = list(encoder.stream_images(mixed, batch_size=2, on_error=lambda i, *_: lost.append(i)))
    assert [len(part) for part in parts] == [2, 1]
    assert lost == [1, 2]
    whole = encoder.encode_images(files[:3])
    torch.testing.assert_close(torch.cat([part.cls for part in parts]), whole.cls)


def test_what_is_no_file_has_no_source() -> None:
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    (of_picture,) = recognizer.predict(pictures(1))
    assert (of_picture.source, of_picture.size) == (None, (64, 64))
    features = recognizer.encoder.encode_pixels(torch.rand(1, 3, 64, 64))
    (of_features,) = recognizer.predict(features)
    assert (of_features.source, of_features.size) == (None, None)


def test_an_encoder_that_cannot_leave_out_still_works(files: list[Path]) -> None:
    class Plain(ColorEncoder):
        def stream_images(  # type: ignore[override]
            self, images: Iterator[ImageSource], *, batch_size: int | None = None
        ) -> Iterator[ImageFeatures]:
            return super().stream_images(images, batch_size=batch_size)

    found = [paths for _, paths in sourced_batches(Plain(), files, batch_size=4)]
    assert [path for paths in found for path in paths] == [str(file) for file in files]
