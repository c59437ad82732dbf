from __future__ import annotations

from pathlib import Path

import pytest
from colored import CountingEncoder

from fake_encoder import CLASSES, SMALL_BANKS
from piaa.baselines import Method, make_method
from piaa.datasets import Dataset
from piaa.errors import InputError
from piaa.evaluation.curves import default_sizes, learning_curve
from piaa.evaluation.encoded import FeatureSets
from piaa.evaluation.metrics import mean_average_precision
from piaa.evaluation.plots import plot_curve


@pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")
def test_a_curve(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets, tmp_path: Path
) -> None:
    learn, test = (sets.get(encoder, split.paths) for split in (dataset.learn, dataset.test))
    seen: list[int] = []

    def make() -> Method:
        return make_method("piaa", encoder, CLASSES, config=SMALL_BANKS)

    curve = learning_curve(
        make, dataset, learn, test, seeds=3, sizes=[12, 6], advance=lambda n: seen.append(n)
    )
    assert curve.sizes == (6, 12)
    assert [len(values) for values in curve.maps] == [3, 1], (
        "all images can be drawn in one way only"
    )
    assert sum(seen) == 4
    whole = make()
    whole.fit(learn)
    assert curve.maps[1][0] == mean_average_precision(whole.scores(test), dataset.labels)
    assert curve.zero_shot == mean_average_precision(make().scores(test), dataset.labels)
    assert encoder.n_encoded == 24
    row = curve.rows()[0]
    assert row["min"] <= row["mean"] <= row["max"]
    again = learning_curve(make, dataset, learn, test, seeds=3, sizes=[6])
    assert again.maps[0] == curve.maps[0], "seeds are seeds"
    plot_curve(curve, tmp_path / "curve.svg")
    assert "unlabelled images" in (tmp_path / "curve.svg").read_text()


def test_what_has_no_curve(dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets) -> None:
    learn, test = (sets.get(encoder, split.paths) for split in (dataset.learn, dataset.test))

    def make() -> Method:
        return make_method("cls", encoder, CLASSES)

    with pytest.raises(InputError, match="learns nothing"):
        learning_curve(make, dataset, learn, test, seeds=1)
    with pytest.raises(InputError, match="between 1 and the 12"):
        learning_curve(make, dataset, learn, test, seeds=1, sizes=[13])
    with pytest.raises(InputError, match="at least 1 seed"):
        learning_curve(make, dataset, learn, test, seeds=0)


def test_default_sizes() -> None:
    assert default_sizes(2000) == (20, 50, 100, 200, 500, 1000, 2000)
    assert default_sizes(12) == (12,)
