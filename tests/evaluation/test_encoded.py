from __future__ import annotations

from pathlib import Path

import pytest
import torch
from colored import CountingEncoder

from piaa.datasets import Dataset
from piaa.encoders.base import ImageFeatures
from piaa.errors import ImageError, InputError
from piaa.evaluation.encoded import FeatureSets


def test_images_are_encoded_once_however_often_they_are_read(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    counted: list[int] = []
    first = sets.get(encoder, dataset.test.paths, advance=counted.append)
    assert (first.fresh, encoder.n_encoded, sum(counted), len(first)) == (12, 12, 12, 12)
    for _ in range(3):
        assert sum(len(part) for part in first) == 12
    assert sets.get(encoder, dataset.test.paths).fresh == 0
    assert sets.get(encoder, dataset.test.paths[3:7]).fresh == 0, "by picture, not by list"
    assert encoder.n_encoded == 12
    assert sets.get(encoder, dataset.learn.paths).fresh == 12


def test_features_are_those_of_the_encoder(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    kept = ImageFeatures.concatenate(list(sets.get(encoder, dataset.test.paths)))
    direct = encoder.encode_images(dataset.test.paths)
    assert torch.equal(kept.cls, direct.cls)
    torch.testing.assert_close(kept.patches, direct.patches, atol=1e-3, rtol=0)


def test_rows(dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets) -> None:
    encoded = sets.get(encoder, dataset.test.paths)
    every = ImageFeatures.concatenate(list(encoded))
    some = ImageFeatures.concatenate(list(encoded.rows([7, 2])))
    assert torch.equal(some.cls, every.cls[[7, 2]])
    assert encoder.n_encoded == 12


def test_a_broken_picture_stops_it_and_what_came_before_is_kept(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(ImageError, match=r"broken\.png"):
        sets.get(encoder, [*dataset.test.paths, broken])
    assert sets.get(encoder, dataset.test.paths).fresh == 0


def test_what_is_kept_can_be_asked_without_encoding(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    assert sets.kept(encoder, dataset.test.paths) == 0
    sets.get(encoder, dataset.test.paths[:6])
    assert sets.kept(encoder, dataset.test.paths) == 6
    assert encoder.n_encoded == 6


def test_a_rate_is_measured_once(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    encoded = sets.get(encoder, dataset.test.paths)
    rate = encoded.images_per_second
    assert rate > 0
    assert encoded.seconds == pytest.approx(12 / rate)
    probed = encoder.n_encoded
    assert sets.get(encoder, dataset.learn.paths[:2]).images_per_second == rate
    assert encoder.n_encoded == probed + 2


def test_no_images(encoder: CountingEncoder, sets: FeatureSets) -> None:
    with pytest.raises(InputError, match="no images to encode"):
        sets.get(encoder, [])
