"""A data set of colored squares, an encoder that counts, and a place for features."""

from __future__ import annotations

from pathlib import Path

import pytest
from colored import CountingEncoder, make_folder

from piaa.datasets import Dataset, open_dataset
from piaa.evaluation.encoded import FeatureSets


@pytest.fixture(scope="session")
def squares_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("squares") / "data")


@pytest.fixture
def dataset(squares_root: Path) -> Dataset:
    return open_dataset("folder", squares_root)


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
def sets(tmp_path: Path) -> FeatureSets:
    return FeatureSets(tmp_path / "features")
