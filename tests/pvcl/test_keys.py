"""The quick way to classes and keys against the exact one, where float32 cannot tell classes apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from piaa.pvcl.keys import Keys


def hard_case() -> tuple[Tensor, Tensor]:
    """Prototypes in pairs that are equal, or differ by less than float32 resolves; rows between."""
    random = torch.Generator().manual_seed(0)
    text = normalize(torch.randn(20, 48, generator=random), dim=1)
    text[1], text[3] = text[0], text[2] + 1e-7
    rows = torch.randn(3000, 48, generator=random) / 48**0.5
    rows[:400] += text[0]
    rows[400:800] += text[2]
    rows[800:1200] = text[4] + text[5]  # as near to one as to the other
    return text, normalize(rows, dim=1)


@pytest.mark.parametrize("scale", [None, 20.0, 60.0])
@pytest.mark.parametrize("full", ["none", "some", "all"])
def test_what_enters_is_what_an_exact_look_at_every_row_lets_in(
    scale: float | None, full: str
) -> None:
    text, rows = hard_case()
    keys = Keys(text, scale)
    label, key = keys.assess(rows)
    worst = torch.full((20,), math.inf, dtype=torch.float64)
    for c in range(0 if full != "none" else 20, 20, 2 if full == "some" else 1):
        own = key[label == c]
        worst[c] = own.quantile(0.3) if len(own) else key.median()
    enters = (key <= worst[label]).nonzero().squeeze(1)
    place, got_label, got_key = keys.entering(rows, worst)
    assert torch.equal(place, enters)
    assert torch.equal(got_label, label[enters])
    assert torch.equal(got_key, key[enters])
    assert 0 < len(enters) < len(rows) or full == "none"


def test_torn_rows_are_few_and_are_looked_at_exactly() -> None:
    text, rows = hard_case()
    open_bars = torch.full((20,), math.inf, dtype=torch.float64)
    _, label, torn = Keys(text, None)._screen(rows, open_bars)
    exact, _ = Keys(text, None).assess(rows)
    assert torn[800:1200].all()
    assert torn[:800].float().mean() > 0.5
    assert torn[1200:].float().mean() < 0.2
    assert torch.equal(label[~torn], exact[~torn])


def test_the_class_of_equal_prototypes_is_the_first() -> None:
    text, rows = hard_case()
    label, _ = Keys(text, None).assess(rows)
    assert not (label == 1).any()
    assert (label == 0).any()
