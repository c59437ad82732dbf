"""What is learnt, compared."""

from __future__ import annotations

import torch

from piaa import Recognizer
from piaa.features.batches import Images


def assert_same(one: Recognizer, other: Recognizer) -> None:
    """All that was learnt is equal, bit for bit."""
    assert one._learning.gathered is not None
    assert other._learning.gathered is not None
    for bank, twin in zip(
        one._learning.gathered.banks, other._learning.gathered.banks, strict=True
    ):
        state, same = bank.state(), twin.state()
        for name in state:
            assert torch.equal(state[name].nan_to_num(), same[name].nan_to_num()), name
    for part in ("ids", "patches", "cls"):
        first, second = (
            getattr(r._learning.gathered.sample, part)[r._learning.gathered.sample.order()]
            for r in (one, other)
        )
        assert torch.equal(first, second), part
    assert one.report == other.report
    assert torch.equal(one.scorer.classifier.weight, other.scorer.classifier.weight)
    assert torch.equal(one.scorer.classifier.bias, other.scorer.classifier.bias)
    assert torch.equal(one.scorer.thresholds, other.scorer.thresholds)
    assert one.scorer.slope == other.scorer.slope
    assert one.scorer.scales == other.scorer.scales
    for name, weight in vars(one.scorer.weights).items():
        assert torch.equal(weight, getattr(other.scorer.weights, name))


def all_scores(recognizer: Recognizer, images: Images) -> torch.Tensor:
    return torch.stack([p.scores for p in recognizer.predict(images)])
