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
- **Agreement.** A class that is absent from the collection is claimed by look-alikes: the images that T
  ranks highest are then others' for g, and X finds it where it finds a class that agrees better with its
  text. And h is worth as much as, cross-fitted, it agrees with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from piaa.mixtures import fit_mixture, standardize

# None of these is set per data set; docs/method.md shows how little the result depends on each.
GLOBAL_SHARE = 0.45  # weight of g where it is as informative as T
LEARNED_SHARE = 0.5  # weight of G where it is trusted and has evidence
WHOLE_SHARE = 0.45  # most that h takes from the others
MIDPOINT = 0.15  # ratio of gains (g to T) at which g gets half of its share
SHARPNESS = 3.0  # how fast it falls below
SHARED = (
    0.2,
    0.8,
)  # mean correlation of g with T at which g is heard even where it does not split,
HEARD = (0.1, 0.5)  # and below which, from few images, its split is one of something else
FEW = 50.0  # images at which that counts half,
SURE = (1.0, 2.0)  # if T splits by so many nats over all images: else it may be T that is wrong
PRIOR_GAIN = 2.0  # nats over all images; with few images no ratio is believed
NULL_GAIN = 1.2  # what two components gain on pure noise, in nats over all images
DOUBT = 20.0  # exponent on the ratio of gaps, which is near 1: 0.95 leaves 36 %, 0.9 leaves 12 %
LEAD = 1.0  # a gap below this many standard deviations finds nothing
ENOUGH = 16.0  # images that a class is found in, at which what was learnt from them counts half
TAIL = 0.02  # share of images that form a class's upper tail
TAIL_DOUBT = 12.0  # exponent on the ratio of tails, X to T, where X's is the shorter
CLEAR = (0.6, 1.0)  # gain of X in nats an image from which, and to which, a class splits clearly,
CLEAR_BESIDE = (0.03, 0.08)  # and beside a text that hardly does
MOST_CLEAR = (0.5, 0.65)  # share of such classes that vouches for the rest
OWN = (0.3, 0.5)  # correlation of X with its own text, below which it has learnt something else
BEHIND = (0.8, 1.0)  # ratio of gains, X to T, below which the text alone tells a class better
OUTDONE = (2.0, 3.0)  # ratio of gains, X to T or g, on average or of a clear class: that gives way
OUTDONE_BY_GROUPS = (1.0, 2.0)  # the same, for G of named groups of patches
KNOWN = (0.02, 0.04)  # nats an image by which T must split a class to know it by itself
PRESENT = (1.15, 1.6)  # agreement of T and g on a class, 2 at most, between absent and present
FIRST = (0.5, 0.8)  # share of T's highest images in which g finds no other class likelier
GHOST = (0.6, 0.9)  # correlation of X with a class that agrees better with its text: no clear split
SAME = (0.74, 0.84)  # the same, at which whatever X finds is that class
BORNE_OUT = (0.62, 0.72)  # correlation of X with g, which it has not learnt from, that settles it
SEES = (0.2, 0.4)  # the same, for the upper quarter of the classes, below which g cannot tell
SEEN = (0.45, 0.6)  # the same, relative to other classes, below which X has learnt something else
FOR_LEARNED = (0.5, 0.8)  # presence that G needs, and h, which knows nothing but what it was taught
FOR_OWN_CUT = (0.0, 0.45)  # presence that a threshold needs to lie below that of all classes
HALF_AGREEMENT = 0.35  # correlation of h with the rest at which it gets half of its share
_CLASSES_AT_ONCE = 256


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

    def fuse(self, text: Tensor, learned: Tensor, cls: Tensor, whole: Tensor | None) -> Tensor:
        """Weighted sum of branch scores (B, C); `whole` may be None where its weight is 0."""
        total = self.text * text + self.learned * learned + self.cls * cls
        return total if whole is None else total + self.whole * whole


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
    share_of_cls = _global_weight(gains["T"], gains["g"], agreement(text, cls).mean(), n)
    outdone = {name: _outdone(gains[name], gains["X"], n) for name in ("T", "g")}
    twin = _twin(text, crossfit)
    split = gains["X"] - 3 * NULL_GAIN / n
    clear = torch.lerp(ramp(split, CLEAR), ramp(split, CLEAR_BESIDE), outdone["T"])
    clear = clear * (1 - ramp(twin, GHOST))
    clear = torch.maximum(clear, ramp(clear.mean(), MOST_CLEAR))
    clear = clear * ramp(agreement(text, crossfit), OWN)
    by_text = _top_agreement(text, cls) + _relative(agreement(text, cls)) - 0.5 * twin
    known = share_of_cls / GLOBAL_SHARE
    # With g as it is, not standardized: even the highest images of an absent class are others' by far. That
    # says nothing where g cannot tell classes apart, and no class is its first choice.
    first = _first_choice(text, cls, min(_tail_count(n), max(2, n // n_classes)))
    able = 0.5 * first.quantile(0.9)
    agreed = (1 - able) * ramp(by_text, PRESENT) + able * ramp(first, FIRST)
    by_cls = agreement(cls, crossfit)
    agreed = torch.maximum(agreed, ramp(by_cls, BORNE_OUT))
    presence = known * agreed + (1 - known) * ramp(confidence, (0.5, 0.9))
    presence = torch.maximum(presence, clear) * (1 - ramp(twin, SAME))
    # X may be a split that g sees nothing of: wheels that are no motorbike's, under the name of bicycle.
    # Beside a weak text, g knows the names no better; and if it sees nothing of any class, it cannot tell.
    sees = ramp(by_cls.quantile(0.75), SEES)
    unseen = known * sees * (1 - outdone["T"]) * (1 - ramp(_relative(by_cls), SEEN))
    presence = presence * (1 - unseen)

    trust = min(1.0, mean_gap(crossfit) / max(mean_gap(text), 1e-6)) ** DOUBT
    evidence = _evidence(text, crossfit, clear) * ramp(presence, FOR_LEARNED)
    better = ramp(_ratio(gains["X"], gains["T"], n), BEHIND)
    learned = LEARNED_SHARE * clear.clamp_min(trust) * evidence * better
    weights = {"T": 1 - share_of_cls - learned, "g": torch.full((n_classes,), share_of_cls)}
    for name, weight in weights.items():
        own = torch.maximum(outdone[name], ramp(_ratio(gains["X"], gains[name], n), OUTDONE))
        given = own * clear * evidence * better * weight
        weights[name] = weight - given
        learned = learned + given

    nothing = torch.zeros(n_classes)
    return BranchWeights(weights["T"], learned, weights["g"], nothing, evidence, presence)


def with_whole(weights: BranchWeights, others: Tensor, crossfit: Tensor) -> BranchWeights:
    """Make room for h. others (n, C): what the rest says; crossfit (n, C): h of the other half."""
    agreed = agreement(crossfit, others).clamp_min(0).square()
    share = WHOLE_SHARE * agreed / (agreed + HALF_AGREEMENT**2)
    found = _found(others)
    share = share * found * ramp(weights.presence, FOR_LEARNED)
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
    given = sure * ramp(_ratio(gain(crossfit), gain(text), len(text)), OUTDONE_BY_GROUPS)
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
    ratio = float(gain(purified).mean()) / max(float(gain(plain).mean()), 1e-3)
    return 0.5 * (1 + weak) * float(ramp(torch.tensor(ratio), (1.0, 1.08)))


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """Correlation of two (n, C) class by class, (C,)."""
    return (standardize(first) * standardize(second)).mean(0)


def gain(scores: Tensor) -> Tensor:
    """Nats an image that two components gain over one, (C,) float32, less what noise would gain."""
    return (fit_mixture(scores).gain - NULL_GAIN / len(scores)).clamp_min(0).float()


def ramp(values: Tensor, ends: tuple[float, float]) -> Tensor:
    """0 below the first end, 1 above the second, straight between."""
    return ((values - ends[0]) / (ends[1] - ends[0])).clamp(0, 1)


def mean_gap(scores: Tensor) -> float:
    """Mean over images of the widest gap between standardized scores."""
    return float(_gaps(scores)[1].mean())


def _outdone(gains: Tensor, by: Tensor, n: int) -> Tensor:
    """() in [0, 1]: whether X splits the classes (C,) clearly better on average, from n images."""
    return ramp(_mean_ratio(by, gains, n), OUTDONE)


def _global_weight(text: Tensor, cls: Tensor, agreed: Tensor, n: int) -> float:
    """Of g, from the gains (C,) of T and g and how far they agree, ().

    With few images no ratio of gains is believed, and that g agrees with a text that splits is plainer.
    """
    by_gain = 1 / (1 + (MIDPOINT / _mean_ratio(cls, text, n)) ** SHARPNESS)
    alone = (1 - ramp(agreed, HEARD)) * ramp(text.mean() * n, SURE) / (1 + (n / FEW) ** 2)
    return float(GLOBAL_SHARE * torch.maximum(by_gain * (1 - alone), ramp(agreed, SHARED)))


def _mean_ratio(gains: Tensor, to: Tensor, n: int) -> Tensor:
    """() of the means of gains (C,), which are known as well as one from sqrt(C) times the images."""
    return _ratio(gains.mean(), to.mean(), n * len(gains) ** 0.5)


def _ratio(gains: Tensor, to: Tensor, n: float) -> Tensor:
    """Of gains from n images; 1 where there is next to nothing on either side."""
    return (gains + PRIOR_GAIN / n) / (to + PRIOR_GAIN / n)


def _gaps(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each image: its classes from best to worst, the widest gap in the upper half, its place."""
    order = standardize(scores).sort(dim=1, descending=True)
    upper = max(2, scores.shape[1] // 2 + 1)
    steps = order.values[:, : upper - 1] - order.values[:, 1:upper]
    widest = steps.max(dim=1)
    return order.indices, widest.values, widest.indices


def _found(scores: Tensor) -> Tensor:
    """(C,) in [0, 1): whether enough images stand out for the class."""
    n, n_classes = scores.shape
    order, gap, place = _gaps(scores)
    above = (torch.arange(n_classes) <= place[:, None]) & (gap > LEAD)[:, None]
    found = torch.bincount(order[above], minlength=n_classes).float()
    enough = max(ENOUGH, 0.1 * n / n_classes)
    return found.square() / (found.square() + enough**2)


def _evidence(text: Tensor, crossfit: Tensor, clear: Tensor) -> Tensor:
    """(C,) in [0, 1]: images that X finds the class in, and whether X's tail is as long as T's.

    A class that splits clearly needs no tail: one that is in half of the images has none.
    """
    longer = (_tail(crossfit) / _tail(text).clamp_min(1e-6)).clamp(0, 1)
    return _found(crossfit) * torch.maximum(longer**TAIL_DOUBT, clear)


def _tail(scores: Tensor) -> Tensor:
    top = scores.topk(_tail_count(len(scores)), dim=0).values.mean(0)
    spread = scores.std(0, unbiased=False).clamp_min(1e-6)
    return (top - scores.median(0).values) / spread


def _tail_count(n: int) -> int:
    return min(n, max(5, int(TAIL * n)))


def _relative(values: Tensor) -> Tensor:
    """To those of the upper quarter of the classes, in [0, 1]."""
    return (values.clamp_min(0) / values.quantile(0.75).clamp_min(1e-3)).clamp(0, 1)


def _twin(text: Tensor, crossfit: Tensor) -> Tensor:
    """(C,) in [0, 1]: correlation of X with that of the nearest class that agrees better with its text."""
    scores, own = standardize(crossfit), agreement(text, crossfit)
    nearest = [torch.zeros(0)]
    # Not all pairs at once, of which 10,000 classes have a hundred million.
    for some in torch.split(torch.arange(len(own)), _CLASSES_AT_ONCE):
        alike = scores[:, some].T @ scores / len(scores)
        nearest.append(alike.masked_fill_(own <= own[some, None], 0).amax(1))
    return torch.cat(nearest).clamp(0, 1)


def _top_agreement(text: Tensor, cls: Tensor) -> Tensor:
    """(C,): of the images that T ranks highest for a class, the relative share that g gives it too."""
    return _relative(_first_choice(text, standardize(cls), _tail_count(len(text))))


def _first_choice(text: Tensor, cls: Tensor, count: int) -> Tensor:
    """(C,): of the `count` images that T ranks highest for a class, the share in which it is g's highest."""
    top = text.topk(count, dim=0).indices
    return (cls.argmax(dim=1)[top] == torch.arange(text.shape[1])).float().mean(0)
