"""How far to trust each branch of evidence, without a label.

Four branches score every image for every class. Three are log-odds: T, the text prototypes on patches; G,
the classifier learnt from the banks on patches; g, the text prototypes on the global vector. The fourth, h,
is a classifier of the global vector learnt from what the other three say (`piaa.whole`). Each may be the
best one or useless, depending on encoder and collection. What tells them apart on unlabelled images:

- **Bimodality.** Scores that know a class split into images with and without it; scores that do not are one
  Gaussian. The log-likelihood gain of two components over one compares g with T, and X with T class by
  class. (The lead of the best class over the second, which would be simpler, fails where images hold many
  labels.)
- **Cross-fitting.** A learnt classifier looks sure on images whose own patches are in its banks. X is G with
  every image scored by the banks of the other half of the collection; only X is judged.
- **The widest gap.** A classifier that is unsure confuses classes within an image: the widest gap between an
  image's sorted, standardized scores shrinks. It compares X with T.
- **Clear splits.** Where X splits a class by a nat an image, and agrees with its text, it is surely there;
  where most classes do and T does not, the text is the weak one and its share goes to the learnt branch.
- **Proportion.** Where X varies several times as much as a T that is not weak, it is far too sure of itself.
- **Agreement.** Where g agrees with T it is worth hearing, split or not; from few images, where it does not,
  it is not. A class that is absent is claimed by others (`piaa.presence`). And h is worth as much as,
  cross-fitted, it agrees with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from piaa.branch_statistics import (
    NULL_GAIN,
    agreement,
    few,
    found,
    gain,
    mean_gap,
    mean_ratio,
    ramp,
    ratio,
    tail,
)
from piaa.presence import nearest_twin, presence_of

# None of these is set per data set; docs/experiments.md shows how little the result depends on each.
GLOBAL_SHARE = 0.45  # weight of g where it is as informative as T; with few images, half
LEARNED_SHARE = 0.5  # weight of G where it is trusted and has evidence
WHOLE_SHARE = 0.45  # most that h takes from the others
MIDPOINT = 0.15  # ratio of gains (g to T) at which g gets half of its share
SHARPNESS = 3.0  # how fast it falls below
SHARED = (0.2, 0.8)  # mean correlation of g with T from which g is heard even if it splits nothing
HEARD = (0.1, 0.5)  # the same from few images, and below which its split is one of something else,
SURE = (1.0, 2.0)  # if T splits by so many nats over all images: else it may be T that is wrong
DOUBT = 20.0  # exponent on the ratio of gaps, which is near 1: 0.95 leaves 36 %, 0.9 leaves 12 %
TAIL_DOUBT = 12.0  # exponent on the ratio of tails, X to T, where X's is the shorter
CLEAR = (0.6, 1.0)  # gain of X in nats an image from which, and to which, a class splits clearly,
CLEAR_BESIDE = (0.03, 0.08)  # and beside a text that hardly does
MOST_CLEAR = (0.5, 0.65)  # share of such classes that vouches for the rest
OWN = (0.3, 0.5)  # correlation of X with its own text, below which it has learnt something else
BEHIND = (0.8, 1.0)  # ratio of gains, X to T, below which the text alone tells a class better
OUTDONE = (2.0, 3.0)  # ratio of gains, X to T or g, on average or of a clear class: that gives way
OUTDONE_BY_GROUPS = (1.0, 2.0)  # the same, for G of named groups of patches
LOUD = (1.8, 2.4)  # spread of X, in that of T: beside a text that is not weak, less of it counts
KNOWN = (0.02, 0.04)  # nats an image by which T must split a class to know it by itself
GHOST = (0.6, 0.9)  # correlation of X with a class that agrees better with its text: no clear split
FOR_LEARNED = (0.5, 0.8)  # presence that G needs, and h, which knows nothing but what it was taught
FOR_OWN_CUT = (0.0, 0.45)  # presence that a threshold needs to lie below that of all classes
HALF_AGREEMENT = 0.35  # correlation of h with the rest at which it gets half of its share
FOR_WHOLE = 0.4  # share of the images that others find which X must find, for h to count in full


@dataclass(frozen=True)
class BranchWeights:
    """Weights (C,) float32 of the four branches; they sum to 1 for every class.

    Attributes:
        text, learned, cls, whole: of T, G, g and h.
        evidence: (C,) float32 in [0, 1], how far the learnt classifier finds images of the class.
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

    def fuse(self, text: Tensor, learned: Tensor, cls: Tensor, whole: Tensor | None) -> Tensor:
        """All four in sum, (B, C)."""
        return self.by_text(text, cls) + self.by_learned(learned, whole)


def even_weights(n_classes: int) -> BranchWeights:
    """Text on patches and on the whole image, half each: before any fit, or with next to no images."""
    half, none = torch.full((n_classes,), 0.5), torch.zeros(n_classes)
    return BranchWeights(half, none, half, none, none, none)


def weigh(text: Tensor, crossfit: Tensor, cls: Tensor, confidence: Tensor) -> BranchWeights:
    """Weights of T, G and g from the branch scores (n, C) float32 of n unlabelled images: T, X and g.

    confidence (C,), relative to the surest classes, is how sure the banks are; it stands in for the
    agreement of T and g where g knows nothing.
    """
    n, n_classes = text.shape
    if n < 4 or n_classes < 2:
        return even_weights(n_classes)
    gains = {name: gain(scores) for name, scores in (("T", text), ("X", crossfit), ("g", cls))}
    known = _known(gains["T"], gains["g"], agreement(text, cls).mean(), n)
    share_of_cls = known * (GLOBAL_SHARE + (0.5 - GLOBAL_SHARE) * few(n))
    outdone = {name: _outdone(gains[name], gains["X"], n) for name in ("T", "g")}
    twin = nearest_twin(text, crossfit)
    split = gains["X"] - 3 * NULL_GAIN / n
    clear = torch.lerp(ramp(split, CLEAR), ramp(split, CLEAR_BESIDE), outdone["T"])
    clear = clear * (1 - ramp(twin, GHOST))
    clear = torch.maximum(clear, ramp(clear.mean(), MOST_CLEAR))
    clear = clear * ramp(agreement(text, crossfit), OWN)
    presence = presence_of(
        text,
        crossfit,
        cls,
        twin,
        clear,
        confidence,
        known=known,
        weak=outdone["T"],
    )
    trust = min(1.0, mean_gap(crossfit) / max(mean_gap(text), 1e-6)) ** DOUBT
    evidence = _evidence(text, crossfit, clear) * ramp(presence, FOR_LEARNED)
    gives_way = {
        name: torch.maximum(of_all, ramp(ratio(gains["X"], gains[name], n), OUTDONE))
        for name, of_all in outdone.items()
    }
    evidence = evidence * (1 - (1 - gives_way["T"]) * _loud(text, crossfit))
    better = ramp(ratio(gains["X"], gains["T"], n), BEHIND)
    learned = LEARNED_SHARE * clear.clamp_min(trust) * evidence * better
    weights = {"T": 1 - share_of_cls - learned, "g": torch.full((n_classes,), share_of_cls)}
    for name, weight in weights.items():
        given = gives_way[name] * clear * evidence * better * weight
        weights[name] = weight - given
        learned = learned + given

    nothing = torch.zeros(n_classes)
    return BranchWeights(weights["T"], learned, weights["g"], nothing, evidence, presence)


def with_whole(weights: BranchWeights, others: Tensor, crossfit: Tensor) -> BranchWeights:
    """Make room for h. others (n, C): what the rest says; crossfit (n, C): h of the other half."""
    agreed = agreement(crossfit, others).clamp_min(0).square()
    share = WHOLE_SHARE * agreed / (agreed + HALF_AGREEMENT**2)
    # What h says it has from the others: of a class that X hardly finds it was taught hardly anything.
    enough = torch.minimum(found(others), weights.evidence / FOR_WHOLE)
    share = share * enough * ramp(weights.presence, FOR_LEARNED)
    rest = 1 - share
    return replace(
        weights,
        text=rest * weights.text,
        learned=rest * weights.learned,
        cls=rest * weights.cls,
        whole=share,
    )


def with_groups(
    weights: BranchWeights, sure: Tensor, text: Tensor, crossfit: Tensor
) -> BranchWeights:
    """Leave classes to G that were learnt from a group of patches with their name, sure (C,) in [0, 1].

    That is as far as X splits images better than T, both (n, C): a text that is good by itself is heard on.
    """
    given = sure * ramp(ratio(gain(crossfit), gain(text), len(text)), OUTDONE_BY_GROUPS)
    kept = 1 - given
    return replace(
        weights,
        text=kept * weights.text,
        learned=weights.learned + given * (1 - weights.learned),
        cls=kept * weights.cls,
        evidence=torch.maximum(weights.evidence, sure),
        presence=torch.maximum(weights.presence, sure),
    )


def held_at_all(weights: BranchWeights) -> Tensor:
    """(C,) in [0, 1]: 0 for classes that are surely not in the collection."""
    return ramp(weights.presence, FOR_OWN_CUT)


@dataclass(frozen=True)
class TextStrength:
    """How good the text is.

    Attributes:
        weak: in [0, 1], whether what was learnt from it splits most classes several times as well.
        known: (C,) float32 in [0, 1], whether T splits a class at all.
    """

    weak: float
    known: Tensor

    @staticmethod
    def of(text: Tensor, crossfit: Tensor) -> TextStrength:
        """From T and X (n, C) of unlabelled images."""
        by_text, n = gain(text), len(text)
        # Of most classes, not on average: with half of them absent, the others are not to be left over.
        weak = ramp((gain(crossfit) / by_text.clamp_min(NULL_GAIN / n)).median(), OUTDONE)
        return TextStrength(float(weak), ramp(by_text, KNOWN))


def purified_share(plain: Tensor, purified: Tensor, weak: float) -> float:
    """In [0, 1]: how much of the purified classifier to mix in, by X of both, each (n, C).

    Purification repairs banks that a weak text filled with the wrong patches, and robs good ones. It is
    mixed in where the purified scores split more clearly. Beside a text that is not `weak` the mean of
    both is the most: it is never far below the better.
    """
    clearer = gain(purified).mean() / gain(plain).mean().clamp_min(1e-3)
    return 0.5 * (1 + weak) * float(ramp(clearer, (1.0, 1.08)))


def _outdone(gains: Tensor, by: Tensor, n: int) -> Tensor:
    """() in [0, 1]: whether X splits the classes (C,) clearly better on average, from n images."""
    return ramp(mean_ratio(by, gains, n), OUTDONE)


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


def _evidence(text: Tensor, crossfit: Tensor, clear: Tensor) -> Tensor:
    """(C,) in [0, 1]: images that X finds the class in, and whether X's tail is as long as T's.

    A class that splits clearly needs no tail: one that is in half of the images has none.
    """
    longer = (tail(crossfit) / tail(text).clamp_min(1e-6)).clamp(0, 1)
    return found(crossfit) * torch.maximum(longer**TAIL_DOUBT, clear)
