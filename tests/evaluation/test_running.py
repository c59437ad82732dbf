from __future__ import annotations

import numpy as np
import pytest
from colored import CountingEncoder
from sklearn.metrics import average_precision_score

from fake_encoder import CLASSES, SMALL_BANKS
from piaa.baselines import make_method
from piaa.datasets import Dataset
from piaa.errors import InputError
from piaa.evaluation.encoded import FeatureSets
from piaa.evaluation.evaluating import evaluate, find_config, make_methods
from piaa.evaluation.running import compare, measure


@pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")
def test_a_method_is_fitted_scored_and_compared_with_the_labels(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    method = make_method("piaa", encoder, CLASSES, config=SMALL_BANKS)
    learn, test = (sets.get(encoder, split.paths) for split in (dataset.learn, dataset.test))
    found = measure(method, dataset, learn=learn, test=test, rounds=50)
    direct = make_method("piaa", encoder, CLASSES, config=SMALL_BANKS)
    direct.fit(dataset.learn.paths)
    scores = direct.scores(dataset.test.paths)
    np.testing.assert_allclose(found.scores, scores, atol=0.05)
    each = [average_precision_score(dataset.labels[:, c], scores[:, c]) for c in range(3)]
    assert found.map.value == pytest.approx(np.mean(each))
    assert list(found.per_class.values()) == pytest.approx(each)
    assert found.map.low <= found.map.value <= found.map.high
    assert found.f1 is not None
    assert found.f1.of1 > 0.8
    assert found.by_size is None, "no boxes"
    assert found.settings["fitted_images"] == 12
    assert found.images_per_second > 0


def test_methods_without_thresholds_have_no_f1(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    test = sets.get(encoder, dataset.test.paths)
    method = make_method("cls", encoder, CLASSES)
    found = measure(method, dataset, learn=None, test=test, rounds=5)
    assert found.f1 is None
    assert found.seconds["fit"] == 0
    with pytest.raises(InputError, match="needs features"):
        measure(method, dataset, learn=None, test=None)


def test_evaluate_encodes_each_split_once_for_all_methods(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    names = ["piaa", "cls", "patch"]
    methods = make_methods(names, encoder, dataset, config=SMALL_BANKS)
    result = evaluate(dataset, encoder, methods, sets, rounds=20)
    probe = 12 + 1  # how fast it is, once
    assert encoder.n_encoded == 24 + probe
    assert [one.label for one in result.measured] == names
    assert result.versus[0] is None
    assert all(gap is not None for gap in result.versus[1:])
    again = make_methods(names, encoder, dataset, config=SMALL_BANKS)
    evaluate(dataset, encoder, again, sets, rounds=20)
    assert encoder.n_encoded == 24 + probe, "a second run encodes nothing"


def test_methods_that_do_not_learn_leave_the_images_to_learn_from_alone(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    evaluate(dataset, encoder, make_methods(["cls"], encoder, dataset), sets, rounds=5)
    assert sets.kept(encoder, dataset.learn.paths) == 0


def test_tiles_are_one_more_line(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    methods = make_methods(["piaa"], encoder, dataset, config=SMALL_BANKS)
    result = evaluate(dataset, encoder, methods, sets, tiles=2, config=SMALL_BANKS, rounds=20)
    plain, tiled = result.measured
    assert tiled.label == "piaa, tiles 2 x 2"
    assert tiled.forward_passes == "5 (tiles)"
    assert plain.forward_passes == "1"
    assert result.versus[1] is not None


def test_the_record_holds_what_the_numbers_depend_on(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    methods = make_methods(["piaa", "cls"], encoder, dataset, config=SMALL_BANKS)
    record = evaluate(dataset, encoder, methods, sets, rounds=5).to_dict(["piaa", "evaluate"])
    protocol = record["protocol"]
    assert record["command"] == ["piaa", "evaluate"]
    assert protocol["classes"] == CLASSES
    assert protocol["prompts"][0] == "a photo of a red"
    assert protocol["weights"]["sha256"] == "0" * 64
    assert protocol["learn"] == {"split": "learn", "images": 12, "labels": "not read"}
    assert "non-interpolated" in protocol["metric"]
    assert {"piaa", "torch", "numpy"} <= record["versions"].keys()
    assert record["results"][1]["first_minus_this"]["low"] <= 0.5
    assert record["results"][0]["settings"]["config"]["bank_size"] == 8


def test_compare_takes_the_first_as_the_measure(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    test = sets.get(encoder, dataset.test.paths)
    some = [
        measure(make_method(name, encoder, CLASSES), dataset, learn=None, test=test, rounds=5)
        for name in ("patch", "cls")
    ]
    first, gap = compare(some, dataset, rounds=10)
    assert first is None
    assert gap is not None
    assert gap.value == pytest.approx(some[0].map.value - some[1].map.value)


def test_presets(dataset: Dataset) -> None:
    assert find_config("auto", dataset).alpha is None
    assert find_config("paper", dataset).alpha == 0.9
    with pytest.raises(InputError, match="no constants for folder"):
        find_config("reference", dataset)
    with pytest.raises(InputError, match="auto, reference, paper"):
        find_config("voc", dataset)


def test_a_method_twice(dataset: Dataset, encoder: CountingEncoder) -> None:
    with pytest.raises(InputError, match="named twice"):
        make_methods(["cls", "cls"], encoder, dataset)
