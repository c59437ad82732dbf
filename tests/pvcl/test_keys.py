"""The quick way to classes and keys against the exact one, where float32 cannot tell classes apart."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from piaa.pvcl.keys import Keys, _needed


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


def bars(label: Tensor, key: Tensor, n_classes: int, full: range) -> Tensor:
    """Bars that three of ten rows of each full class are within; the other classes take all."""
    worst = torch.full((n_classes,), math.inf, dtype=torch.float64)
    for c in full:
        own = key[label == c]
        worst[c] = own.quantile(0.3) if len(own) else key.median()
    return worst


def check_entering(keys: Keys, rows: Tensor, worst: Tensor) -> tuple[Tensor, Tensor]:
    """What an exact look lets in enters, and little else; (N,) who should, and places of who does."""
    label, key = keys.assess(rows)
    should = key <= worst[label]
    place, got_label, least, most = keys.entering(rows, worst)
    does = torch.zeros_like(should)
    does[place] = True
    assert not (should & ~does).any()
    assert torch.equal(got_label, label[place])
    assert (least <= key[place]).all()
    assert (key[place] <= most).all()
    assert (least <= worst[got_label]).all()
    return should, place


@pytest.mark.parametrize("scale", [None, 20.0, 60.0])
@pytest.mark.parametrize("full", ["none", "some", "all"])
def test_what_enters_is_what_an_exact_look_at_every_row_lets_in(
    scale: float | None, full: str
) -> None:
    text, rows = hard_case()
    keys = Keys(text, scale)
    label, key = keys.assess(rows)
    worst = bars(label, key, 20, range(0 if full != "none" else 20, 20, 2 if full == "some" else 1))
    should, place = check_entering(keys, rows, worst)
    assert 0 < should.sum() <= len(place) <= should.sum() + 5
    assert len(place) < len(rows) or full == "none"


@pytest.mark.parametrize("scale", [None, 60.0])
@pytest.mark.parametrize("apart", [1e-7, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("full", [False, True])
def test_classes_that_are_nearly_the_same(scale: float | None, apart: float, full: bool) -> None:
    """On the grid of the prototypes their mean is not 0 any more, and they are no longer than that."""
    random = torch.Generator().manual_seed(1)
    text = normalize(torch.ones(5, 48) + apart * torch.randn(5, 48, generator=random), dim=1)
    rows = normalize(torch.randn(4000, 48, generator=random), dim=1)
    keys = Keys(text, scale)
    label, key = keys.assess(rows)
    worst = bars(label, key, 5, range(0 if full else 1, 5))
    check_entering(keys, rows, worst)


@pytest.mark.parametrize(("n_classes", "scale"), [(2, 16.0), (3, 17.0), (20, 24.0)])
def test_entropies_of_probabilities_near_one(n_classes: int, scale: float) -> None:
    """In float32 these are 2^-24 apart, and so are the keys."""
    random = torch.Generator().manual_seed(3)
    text = normalize(torch.randn(n_classes, 48, generator=random), dim=1)
    rows = text.repeat(20_000 // n_classes, 1)
    noise = torch.randn(len(rows), 48, generator=random) / 48**0.5
    rows = normalize(rows + 0.4 * torch.rand(len(rows), 1, generator=random) * noise, dim=1)
    keys = Keys(text, scale)
    label, key = keys.assess(rows)
    for quantile in torch.linspace(0.02, 0.98, 49).double():
        worst = torch.stack([key[label == c].quantile(quantile) for c in range(n_classes)])
        check_entering(keys, rows, worst)


@pytest.mark.parametrize("n_classes", [2, 3, 80])
def test_the_least_logit_and_gap_of_an_entropy(n_classes: int) -> None:
    random = torch.Generator().manual_seed(2)
    logits = torch.randn(20_000, n_classes, generator=random)
    logits *= torch.logspace(-2, 1.5, 20_000)[:, None]
    logits[::2, 0] += 10 * torch.rand(10_000, generator=random)
    logits -= logits.mean(dim=1, keepdim=True)
    best, second = logits.topk(2, dim=1).values.T
    entropy = torch.special.entr(logits.double().softmax(dim=1)).sum(dim=1).float() + 1e-7
    needed = [torch.stack(_needed(each.repeat(n_classes)))[:, 0] for each in entropy[::20]]
    least, least_gap = torch.stack(needed, dim=1)
    assert (best[::20] >= least - 1e-3).all()
    assert ((best - second)[::20] >= least_gap - 1e-3).all()
    # Where all but the best are equal it is not far below.
    gap = torch.linspace(12, 20, n_classes)
    alike = torch.eye(n_classes)[0] * gap[:, None]
    entropy = torch.special.entr(alike.double().softmax(dim=1)).sum(dim=1).float()
    least = _needed(entropy)[0] / gap / (1 - 1 / n_classes)
    assert (least > 0.9).all()
    assert (least < 1.001).all()
    of_two = alike[:, :2].double().softmax(dim=1)
    _, least_gap = _needed(torch.special.entr(of_two).sum(dim=1).float())
    assert (least_gap / gap > 0.9).all()


def test_the_lead_is_over_the_mean_and_the_runner_up() -> None:
    text, rows = hard_case()
    cosines = rows.double() @ text.double().T
    two = cosines.topk(2, dim=1).values
    lead = two[:, 0] - (cosines.mean(dim=1) + two[:, 1]) / 2
    _, key = Keys(text, None).assess(rows)
    torch.testing.assert_close(-key, lead, atol=1e-6, rtol=0)


def test_only_torn_rows_are_compared_with_all_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    text, rows = hard_case()
    compared: list[Tensor] = []

    def assess(keys: Keys, some: Tensor) -> tuple[Tensor, Tensor]:
        compared.append((some[:, None] == rows).all(2).nonzero()[:, 1])
        return whole(keys, some)

    whole = Keys.assess
    monkeypatch.setattr(Keys, "assess", assess)
    Keys(text, None).entering(rows, torch.full((20,), math.inf, dtype=torch.float64))
    torn = torch.zeros(len(rows))
    torn[torch.cat(compared)] = 1
    assert torn[800:1200].all()
    assert torn[:800].mean() > 0.5
    assert torn[1200:].mean() < 0.3


@pytest.mark.parametrize("scale", [None, 60.0])
def test_a_single_class_takes_what_is_within_its_bar(scale: float | None) -> None:
    """It has no runner-up, and an entropy of 0 whatever the cosine."""
    text, rows = hard_case()
    keys = Keys(text[:1], scale)
    _, key = keys.assess(rows)
    worst = key.quantile(0.3)[None]
    place, _, least, most = keys.entering(rows, worst)
    assert torch.equal(place, (key <= worst).nonzero().squeeze(1))
    assert torch.equal(least, key[place])
    assert torch.equal(most, key[place])
    assert len(place) == (len(rows) if scale else 900)


@pytest.mark.parametrize("scale", [None, 60.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_few_classes(n_classes: int, scale: float | None) -> None:
    """The runner-up of two is the other one, as far below the mean as the best is above."""
    text, rows = hard_case()
    keys = Keys(text[4 : 4 + n_classes], scale)
    label, key = keys.assess(rows)
    # Bars that some row just meets.
    worst = torch.stack([key[label == c].sort().values[100] for c in range(n_classes)])
    check_entering(keys, rows, worst)


def test_the_class_of_equal_prototypes_is_the_first() -> None:
    text, rows = hard_case()
    label, _ = Keys(text, None).assess(rows)
    assert not (label == 1).any()
    assert (label == 0).any()


def sharp_rows(text: Tensor, scale: float) -> Tensor:
    """Rows between a prototype and another, whose entropies at a scale run from log 2 to nothing."""
    lead = torch.linspace(0, 60 / scale, 20_000)[:, None]
    return normalize(text[4] * (0.5 + lead) + text[5] * (0.5 - lead).clamp(min=0), dim=1)


@pytest.mark.parametrize("scale", [20.0, 60.0, 100.0])
def test_a_small_entropy_is_known_as_closely(scale: float) -> None:
    """Where a softmax is sharp, keys of a bank are 1e-5 and less, and nearer to each other than that.

    What decides there is to which float32 the probability of the best class is rounded.
    """
    text, _ = hard_case()
    rows = sharp_rows(text, scale)
    keys = Keys(text, scale)
    place, _, least, most = keys.entering(rows, torch.full((20,), math.inf, dtype=torch.float64))
    _, key = keys.assess(rows)
    assert len(place) == len(rows)
    assert (least <= key).all()
    assert (key <= most).all()
    small = (key < 1e-5) & (key > 1e-25)
    assert small.float().mean() > 0.2
    width = (most - least)[small] / key[small]
    assert width.median() < 0.01
    assert (width < 0.05).float().mean() > 0.9


def test_keys_next_to_nothing_are_known_apart() -> None:
    """Entropies of 1e-7 are multiples of what a float32 below 1 leaves to the others, plus a little."""
    text, _ = hard_case()
    keys = Keys(text, 60.0)
    rows = sharp_rows(text, 60.0)
    _, key = keys.assess(rows)
    some = (key > 1e-12) & (key < 2e-7)
    assert some.sum() > 500
    bar = key[some].median()
    should, place = check_entering(keys, rows, torch.full((20,), float(bar), dtype=torch.float64))
    assert len(place) < 1.02 * should.sum()


@pytest.mark.parametrize("seed", range(30))
def test_bounds_hold_for_any_text_and_scale(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    n_classes, dim, scale = 2 + seed * 5, 2 ** (2 + seed % 7), 10 ** (-0.5 + 0.15 * seed)
    text = torch.randn(n_classes, dim, generator=random)
    alike = 3 * (seed % 3 == 0)
    text = normalize(text + alike * text[:1], dim=1)
    drawn, others = text[torch.randint(n_classes, (2, 1000), generator=random)]
    share, noise = torch.rand(2, 1000, 1, generator=random)
    rows = 2 * share * drawn + 0.3 * others
    rows = normalize(rows + noise * torch.randn(1000, dim, generator=random) / dim**0.5, dim=1)
    keys = Keys(text, scale)
    label, key = keys.assess(rows)
    check_entering(keys, rows, torch.full((n_classes,), math.inf, dtype=torch.float64))
    check_entering(keys, rows, bars(label, key, n_classes, range(n_classes)))


@pytest.mark.parametrize("scale", [None, 20.0])
def test_one_product_turns_rows_away(scale: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the gap to the runner-up others, before any exponential is taken."""
    seen = {"promising": 0, "bounded": 0}
    promising, bounded = Keys._promising, Keys._entropy_bounds

    def counting(keys: Keys, rows: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        found = promising(keys, rows, least)
        seen["promising"] += len(found[0])
        return found

    def bounding(keys: Keys, logits: Tensor) -> tuple[Tensor, Tensor]:
        seen["bounded"] += len(logits)
        return bounded(keys, logits)

    monkeypatch.setattr(Keys, "_promising", counting)
    monkeypatch.setattr(Keys, "_entropy_bounds", bounding)
    random = torch.Generator().manual_seed(0)
    text = normalize(torch.randn(40, 256, generator=random), dim=1)
    kind = torch.arange(4000) % 40
    rows = text[kind]
    rows[::2] += 0.8 * text[kind - 1][::2]
    rows *= torch.rand(4000, 1, generator=random)
    rows = normalize(rows + 0.5 * torch.randn(4000, 256, generator=random) / 256**0.5, dim=1)
    keys = Keys(text, scale)
    label, key = keys.assess(rows)
    worst = torch.stack([key[label == c].quantile(0.05) for c in range(40)])
    place, *_ = keys.entering(rows, worst)
    assert len(place) < 0.1 * len(rows)
    assert len(place) <= seen["promising"] < 0.6 * len(rows)
    assert (scale is not None) * len(place) <= seen["bounded"] < 0.3 * len(rows)
