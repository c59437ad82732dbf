"""How far to trust each branch of evidence, without a label.

Four branches score every image for every class. Three are log-odds: T, the text prototypes on patches; G,
the classifier learnt from the banks on patches; g, the text prototypes on the global vector. The fourth, h,
is a classifier of the global vector learnt from what the other three say (`piaa.auto.whole`). Each may be the
best one or useless, depending on encoder and collection. What tells them apart on unlabelled images:

- **Bimodality.** Scores that know a class split into images with and without it; scores that do not are one
  Gaussian. The log-likelihood gain of two components over one compares g with T, and X with T class by
  class. (The lead of the best class over the second, which would be simpler, fails where images hold many
  labels.)
- **Cross-fitting.** A learnt classifier looks sure on images whose own patches are in its banks. X is G with
  every image scored by the banks of the other half of the collection; only X is judged.
- **Evidence.** What was learnt of a class counts as far as X finds images of it, as these seem to hold it
  (`piaa.auto.presence`), and as X does not vary several times as much as a T that is not weak: it is then far
  too sure of itself.
- **Weak text.** Where X splits most classes several times as well as T, the text is the weak one: its share
  of every class that X splits goes to the learnt branch.
- **Agreement.** Where g agrees with T it is worth hearing, split or not; from few images, where it does not,
  it is not. And h is worth as much as, cross-fitted, it agrees with what patches say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from piaa.auto.branch_statistics import (
    NULL_GAIN,
    agreement,
    few,
    found,
    gain,
    mean_ratio,
    ramp,
    ratio,
)
from piaa.auto.presence import presence_of

# None of these is set per data set; docs/experiments.md shows how little the result depends on each.
GLOBAL_SHARE = 0.45  # weight of g where it is as informative as T; with few images, half
LEARNED_SHARE = 0.5  # weight of G where it is trusted and has evidence
WHOLE_SHARE = 0.45  # most that h takes from the others
MIDPOINT = 0.15  # ratio of gains (g to T) at which g gets half of its share
SHARPNESS = 3.0  # how fast it falls below
SHARED = (0.2, 0.8)  # mean correlation of g with T from which g is heard even if it splits nothing
HEARD = (0.1, 0.5)  # the same from few images, and below which its split is one of something else,
SURE = (1.0, 2.0)  # if T splits by so many nats over all images: else it may be T that is wrong
CLEAR = (0.6, 1.0)  # gain of X in nats an image from which, and to which, a class splits clearly,
CLEAR_BESIDE = (0.03, 0.08)  # and beside a text that hardly does
BEHIND = (0.8, 1.0)  # ratio of gains, X to T, below which the text alone tells a class better
OUTDONE = (2.0, 3.0)  # ratio of gains, X to T or g, on average: that gives way
OUTDONE_BY_GROUPS = (1.0, 2.0)  # the same of a class, for G of named groups of patches
LOUD = (1.8, 2.4)  # spread of X, in that of T: beside a text that is not weak, less of it counts
FOR_OWN_CUT = (0.0, 0.1)  # evidence that a threshold needs to lie below that of all classes
HALF_AGREEMENT = 0.35  # correlation of h with T and X at which it gets half of its share
# How far a class may be one of several groups: h is taught a threshold, not odds, and no longer asked.
IN_DOUBT = (0.0, 0.2)
FOR_WHOLE = 0.7  # evidence at which h counts in full: it was taught by what X found, among others


@dataclass(frozen=True)
class BranchWeights:
    """Weights (C,) float32 of the four branches; they sum to 1 for every class.

    Attributes:
        text, learned, cls, whole: of T, G, g and h.
        evidence: (C,) float32 in [0, 1], how far what was learnt of the class is to be believed.
        presence: (C,) float32 in [0, 1], how far the collection seems to hold the class at all.
    """

    text: Tensor
    learned: Tensor
    cls: Tensor
    whole: Tensor
    evidence: Tensor
    presence: Tensor

    def by_text(self, text: Tensor, cls: Tensor) -> Tensor:
        """What the text branches say in sum, of T and g (B, C)."""
        return self.text * text + self.cls * cls

    def by_learned(self, learned: Tensor, whole: Tensor | None) -> Tensor:
        """What the learnt branches say in sum, of G and h (B, C); h may be None where it has no weight."""
        total = self.learned * learned
        return total if whole is None else total + self.whole * whole

    def by_patches(self, text: Tensor, learned: Tensor) -> Tensor:
        """What patches say in sum, of T and G (B, C)."""
        return self.text * text + self.learned * learned


def even_weights(n_classes: int) -> BranchWeights:
    """Text on patches and on the whole image, half each: before any fit, or with next to no images."""
    half, none = torch.full((n_classes,), 0.5), torch.zeros(n_classes)
    return BranchWeights(half, none, half, none, none, none)


def weigh(text: Tensor, crossfit: Tensor, cls: Tensor, sure: Tensor | None = None) -> BranchWeights:
    """Weights of T, G and g from the branch scores (n, C) float32 of n unlabelled images: T, X and g.

    sure (C,) in [0, 1]: how far a class was learnt from a single group of patches with its name
    (`piaa.auto.grouped`). Several do not count as one: a class that is not there may be any of them. It is
    left to G as far as X splits images better than T: a text that is good by itself is heard on.
    """
    n, n_classes = text.shape
    if n < 4 or n_classes < 2:
        return even_weights(n_classes)
    sure = torch.zeros(n_classes) if sure is None else sure
    gains = {name: gain(scores) for name, scores in (("T", text), ("X", crossfit), ("g", cls))}
    known = _known(gains["T"], gains["g"], agreement(text, cls).mean(), n)
    share_of_cls = known * (GLOBAL_SHARE + (0.5 - GLOBAL_SHARE) * few(n))
    outdone = {name: ramp(mean_ratio(gains["X"], gains[name], n), OUTDONE) for name in ("T", "g")}
    presence = presence_of(text, crossfit, cls)
    loud = (1 - outdone["T"]) * _loud(text, crossfit)
    evidence = torch.maximum(found(crossfit) * presence.believed * (1 - loud), sure)
    better = ratio(gains["X"], gains["T"], n)
    counts = evidence * ramp(better, BEHIND)

    split = gains["X"] - 3 * NULL_GAIN / n
    clear = torch.lerp(ramp(split, CLEAR), ramp(split, CLEAR_BESIDE), outdone["T"])
    learned = LEARNED_SHARE * counts
    weights = {"T": 1 - share_of_cls - learned, "g": torch.full((n_classes,), share_of_cls)}
    to_group = sure * ramp(better, OUTDONE_BY_GROUPS)
    for name, weight in weights.items():
        given = weight * (1 - (1 - outdone[name] * clear * counts) * (1 - to_group))
        weights[name] = weight - given
        learned = learned + given
    nothing, seen = torch.zeros(n_classes), torch.maximum(presence.seen, sure)
    return BranchWeights(weights["T"], learned, weights["g"], nothing, evidence, seen)


def with_whole(
    weights: BranchWeights, by_patches: Tensor, crossfit: Tensor, doubt: Tensor | None = None
) -> BranchWeights:
    """Make room for h. by_patches (n, C): what T and X say; crossfit (n, C): h of the other half.

    g is not asked: it reads the same vector, and shares its errors with h.

    doubt (C,) in [0, 1]: how far a class may be another group of patches than the likeliest.
    """
    agreed = agreement(crossfit, by_patches).clamp_min(0).square()
    share = WHOLE_SHARE * agreed / (agreed + HALF_AGREEMENT**2)
    # What h says it has from the others: of a class that X hardly finds it was taught hardly anything.
    share = share * (weights.evidence / FOR_WHOLE).clamp_max(1)
    if doubt is not None:
        share = share * (1 - ramp(doubt, IN_DOUBT))
    rest = 1 - share
    return replace(
        weights,
        text=rest * weights.text,
        learned=rest * weights.learned,
        cls=rest * weights.cls,
        whole=share,
    )


def held_at_all(weights: BranchWeights) -> Tensor:
    """(C,) in [0, 1]: 0 for classes of which nothing was learnt."""
    return ramp(weights.evidence, FOR_OWN_CUT)


def weakness_of(text: Tensor, crossfit: Tensor) -> float:
    """In [0, 1]: whether what was learnt splits most classes several times as well as T, both (n, C)."""
    # Of most classes, not on average: with half of them absent, the others are not to be left over.
    ratios = gain(crossfit) / gain(text).clamp_min(NULL_GAIN / len(text))
    return float(ramp(ratios.median(), OUTDONE))


def purified_share(plain: Tensor, purified: Tensor, weak: float) -> float:
    """In [0, 1]: how much of the purified classifier to mix in, by X of both, each (n, C).

    Purification repairs banks that a weak text filled with the wrong patches, and robs good ones. It is
    mixed in where the purified scores split more clearly. Beside a text that is not `weak` the mean of
    both is the most: it is never far below the better.
    """
    clearer = gain(purified).mean() / gain(plain).mean().clamp_min(1e-3)
    return 0.5 * (1 + weak) * float(ramp(clearer, (1.0, 1.08)))


def _known(text: Tensor, cls: Tensor, agreed: Tensor, n: int) -> float:
    """In [0, 1], how far to believe g: from the gains (C,) of T and g and how far they agree, ().

    With few images no ratio of gains is believed, and that g agrees with a text that splits is plainer.
    """
    by_gain = 1 / (1 + (MIDPOINT / mean_ratio(cls, text, n)) ** SHARPNESS)
    heard = ramp(agreed, HEARD)
    alone = (1 - heard) * ramp(text.mean() * n, SURE) * few(n)
    shared = torch.lerp(ramp(agreed, SHARED), heard, few(n))
    return float(torch.maximum(by_gain * (1 - alone), shared))


def _loud(text: Tensor, crossfit: Tensor) -> Tensor:
    """(C,) in [0, 1]: whether X varies out of all proportion to T.

    A bank of patches that are nearly the same makes a classifier that is far too sure: small airplanes in a
    blue sky, under the name of bird.
    """
    spread, own = (scores.std(0, unbiased=False) for scores in (crossfit, text))
    return ramp(spread / own.clamp_min(1e-6), LOUD)
