from __future__ import annotations

from colored import CountingEncoder

from piaa.datasets import Dataset
from piaa.evaluation.encoded import FeatureSets
from piaa.evaluation.evaluating import make_methods
from piaa.evaluation.planning import plan


def test_a_plan_names_the_steps_and_keeps_nothing(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    methods = make_methods(["piaa", "cls"], encoder, dataset)
    steps = plan(dataset, encoder, methods, sets, fit=True)
    assert [step.what for step in steps] == [
        "encode learn",
        "encode test",
        "fit piaa",
        "score with piaa",
        "score with cls",
    ]
    assert all(step.seconds > 0 for step in steps)
    assert sets.kept(encoder, dataset.test.paths) == 0


def test_what_is_kept_costs_nothing(
    dataset: Dataset, encoder: CountingEncoder, sets: FeatureSets
) -> None:
    sets.get(encoder, dataset.test.paths)
    methods = make_methods(["cls"], encoder, dataset)
    (encode, _score) = plan(dataset, encoder, methods, sets, fit=True)
    assert (encode.what, encode.images, encode.seconds) == (
        "encode test (12 are kept already)",
        0,
        0,
    )
