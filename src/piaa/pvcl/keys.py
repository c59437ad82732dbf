"""The class and the key of a patch: how a bank orders what it sees.

**Exact cosines.** A float32 matmul may round differently for another batch shape, thread count or
machine. Here patches and prototypes are rounded to multiples of 2^-24, about what float32 keeps of
a unit vector, and multiplied in float64: products are multiples of 2^-48, and by Cauchy-Schwarz no
partial sum exceeds the product of the norms, so every sum fits the 53 bits of a float64 and
nothing is rounded in whatever order the terms are added.

**The key**, lower is more confident, is one of two:

- With a `text_scale` s (paper and published code): the entropy of softmax(s * cosines). It is
  computed row by row in float64 from the exact cosines and then rounded to float32, which absorbs
  a last-bit difference between implementations of exp and log unless a value happens to lie that
  close to a rounding boundary: a chance of the order of 1e-8 a patch between unlike machines.
- Without one: minus the lead, lead = max_c x.t_c - (mean_c x.t_c + second highest x.t_c) / 2. The
  scale that matches a data set is known only after the whole of it has been seen, and an order that
  depends on it could be neither streamed nor merged. The lead needs no scale. Where a softmax is
  soft its confidence is a matter of the distance to the mean, log p_max = s (max - mean) - log C +
  O(s^2); where it is sharp, of that to the runner-up. Half way between both is the better order, the
  more so the weaker the text (docs/method.md). It is also exact (no exp), so these banks are
  bit-identical on any machine.

The mean term is the product with the mean prototype: with prototypes that are centered once it is 0,
and argmax and softmax do not feel the centering.

**Two steps.** Most patches are beyond the bars of full banks, and of those that are not, most are
pushed out again by later ones. So patches are screened with a float32 product and a bound on its
error, and what may be within the bar goes in with the least and the most that its key can be. Exact
looks are for patches that are torn between classes and for those that are left at the end.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.pvcl.members import Rows

_GRID = 2.0**24
_LOG_FLOOR = 1e-10
# Probability of all classes but the best, below which bounds follow how that of the best is rounded.
_CERTAIN = 2.0**-6
# More than exponentials lose that are next to 0 in float32.
_TINY = 2.0**-100
_COSINES_AT_ONCE = 2**22
# Their float64 copies and products stay within a core's cache.
_EXACT_ROWS_AT_ONCE = 512


class Keys:
    """Keys of patches under some text prototypes.

    Args:
        text: (C, D) float32 unit text prototypes; all arithmetic is on its device.
        text_scale: as in the module; `None` is the lead.
    """

    def __init__(self, text: Tensor, text_scale: float | None) -> None:
        prototypes = text.double()
        if len(text) > 1:  # a single prototype is its own mean, and centering would erase it
            prototypes = prototypes - prototypes.mean(0)
        self.text_scale = text_scale
        self.prototypes = (prototypes * _GRID).round_()
        """(C, D) float64, whole numbers: centered prototypes in units of 2^-24."""
        logits = self.prototypes * ((text_scale or 1.0) / _GRID)
        self._logit_prototypes = logits.float()
        self._longest = float(logits.norm(dim=1).max())
        # Most that a float32 logit of a row is off, after as much as the largest there can be was taken away
        # and added again: by D products, D sums and that one, in any order, where rows are unit to within a
        # few percent; and by the grid, on which prototypes are not quite centered any more.
        dim = text.shape[1]
        sums = (dim + 16) * 2.1 * self._longest
        self._slack = (sums + 4 * math.sqrt(dim) * (text_scale or 1.0)) * 2.0**-24
        # dH = -sum p_c (log p_c + H) dz_c, so logits off by e change log H by at most 2 e, and log p_c no
        # more; and sums over the classes round.
        self._error = math.exp(min(2 * self._slack + len(text) * 2.0**-22, 60.0))

    def rows_at_once(self, most: int) -> int:
        """Up to `most` rows whose cosines with all classes fit a bounded memory."""
        return max(1, min(most, _COSINES_AT_ONCE // len(self.prototypes)))

    def entering(self, rows: Tensor, worst: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Those of the (N, D) rows that may be within the bar of their class.

        Args:
            worst: (C,) float64, highest key that each class still takes.

        Returns:
            Their places (P,); classes (P,) int64, exact; and least and most that their keys can be, (P,)
            float64: the exact key twice where that was looked at.
        """
        n_classes = len(self.prototypes)
        if n_classes == 1:
            label, key = self.assess(rows)
            place = (key <= worst).nonzero().squeeze(1)
            return place, at(label, place), at(key, place), at(key, place)
        estimate = self._leads if self.text_scale is None else self._entropies
        place, label, least, most, torn = estimate(rows, worst)
        good = (least <= _limit(worst, label, torn)).nonzero().squeeze(1)
        place, label, least, most, torn = (at(x, good) for x in (place, label, least, most, torn))
        if torn.any():
            doubtful = torn.nonzero().squeeze(1)
            label[doubtful], exact = self.assess(rows[place[doubtful]])
            least[doubtful] = most[doubtful] = exact
            good = (least <= worst[label]).nonzero().squeeze(1)
            place, label, least, most = (at(x, good) for x in (place, label, least, most))
        return place, label, least, most

    def assess(self, rows: Tensor | Rows) -> tuple[Tensor, Tensor]:
        """Class and key of each of the (N, D) rows, from its exact cosines with all classes."""
        label = torch.empty(len(rows), dtype=torch.int64, device=self.prototypes.device)
        key = torch.empty(len(rows), dtype=torch.float64, device=self.prototypes.device)
        for part in _parts(len(rows), self.rows_at_once(_EXACT_ROWS_AT_ONCE)):
            products = _whole(rows[part]) @ self.prototypes.T
            best, label[part] = products.max(dim=1)
            if self.text_scale is None:
                if products.shape[1] > 1:
                    best = best - _masked(products, label[part]).amax(dim=1) / 2
                key[part] = best * -(_GRID**-2)
                continue
            # As the published code takes it: of float32 probabilities, with a floor under the log.
            # Where the softmax saturates (entropy below 1e-7) the order of a bank depends on both.
            logits = products.sub_(best[:, None]).mul_(self.text_scale * _GRID**-2)
            probability = logits.softmax(dim=1).float().double()
            entropy = -probability.mul(probability.clamp(min=_LOG_FLOOR).log_()).sum(dim=1)
            key[part] = entropy.float()
        return label, key

    # What follows screens in cheap float32. It may let through what an exact look turns away, and never the
    # reverse: each comparison allows for the largest error a float32 product of unit vectors can have.
    # Classes too close to tell apart in float32 leave a row torn: to be looked at exactly.

    def _promising(self, rows: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        """Places (P,) of rows that may have the logit which their best class needs at `least` (C,).

        Also their logits (P, C); centered, so that the best of a row is 0 or more.
        """
        least = least.clamp(0.0, self._longest)
        scores = self._logits(rows, -least)
        place = (scores.amax(dim=1) >= -2 * self._slack).nonzero().squeeze(1)
        return place, at(scores, place).add_(least)

    def _logits(self, rows: Tensor, bias: Tensor) -> Tensor:
        """Float32 logits (N, C) of the rows plus a bias (C,)."""
        if rows.device.type != "cpu":
            return torch.addmm(bias, rows, self._logit_prototypes.T)
        # As the convolution of a picture of N pixels: that takes the kernels of oneDNN, which need 0.7 of the
        # time of a product's on AMD and are no slower elsewhere. (On a GPU it might be rounded to TF32.)
        pixels = rows[None, None].permute(0, 3, 1, 2)
        scores = F.conv2d(pixels, self._logit_prototypes[:, :, None, None], bias)
        return scores.permute(0, 2, 3, 1).reshape(len(rows), -1)

    def _leads(self, rows: Tensor, worst: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Rows whose lead may be within the bar of their class: what `entering` gives, and who is torn."""
        bar = worst.float() + 2 * self._slack
        # A runner-up is no lower than the mean of all but the best.
        place, scores = self._promising(rows, -bar / (1 + 0.5 / (len(bar) - 1)))
        best, label = scores.max(dim=1)
        rival = _masked(scores, label).amax(dim=1)
        key = (rival / 2 - best).double()
        torn = rival >= best - 2 * self._slack
        return place, label, key - 2 * self._slack, key + 2 * self._slack, torn

    def _entropies(
        self, rows: Tensor, worst: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """As `_leads`, of rows whose entropy may be within the bar."""
        # `assess` has float32 probabilities, the best off by 2^-25, and a floor under the log.
        fixed = 1.1 * 2.0**-25 + len(worst) * _LOG_FLOOR
        least_logit, least_gap = _needed((worst.float() + fixed) * self._error)
        place, scores = self._promising(rows, least_logit)
        best, label = scores.max(dim=1)
        rival = _masked(scores, label).amax(dim=1)
        torn = rival >= best - 2 * self._slack
        # More classes only add entropy to that of the best two, which spares most rows the rest.
        possible = rival - best - 2 * self._slack <= _limit(-least_gap, label, torn)
        chosen = possible.nonzero().squeeze(1)
        least, most = self._entropy_bounds(at(scores, chosen).sub_(best[chosen, None]))
        return at(place, chosen), at(label, chosen), least, most, at(torn, chosen)

    def _entropy_bounds(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Least and most that the exact keys of rows can be, (N,) float64 each.

        Args:
            logits: (N, C) float32, less the best of its row, which itself is lowest; used up.
        """
        odds = logits.exp()
        total = odds.sum(dim=1)
        surprise = logits.neg_().add_(total.log1p()[:, None]).clamp_(max=-math.log(_LOG_FLOOR))
        others = odds.mul_(surprise).sum(dim=1).double()
        best = 1 / (1 + total.double())
        others, rest = others * best, total * best
        entropy = others - best * best.log()
        # Where the best class is next to certain, `assess` rounds its probability to one of few float32:
        # nearly always it is known to which, and what is open is only the share of the others. Elsewhere that
        # rounding is small beside the error.
        certain, error = rest < _CERTAIN, self._error
        least = torch.where(certain, others / error + _rounded(rest / error), entropy / error)
        most = torch.where(certain, others * error + _rounded(rest * error), entropy * error)
        return least - _TINY, most + _TINY


def _limit(bar: Tensor, label: Tensor, torn: Tensor) -> Tensor:
    """The bar (C,) that a row of some class (N,) must not be beyond; of all if that class is open."""
    return torch.where(torn, bar.max(), bar[label])


def _masked(scores: Tensor, column: Tensor) -> Tensor:
    """The (N, C) scores with one column of each row (N,) made lowest, in place."""
    return scores.scatter_(1, column[:, None], torch.finfo(scores.dtype).min)


def _parts(n: int, at_once: int) -> list[slice]:
    return [slice(first, first + at_once) for first in range(0, n, at_once)]


def at(values: Tensor, place: Tensor) -> Tensor:
    """`values[place]` for ascending, distinct places, without a copy where these are all there are."""
    return values if len(place) == len(values) else values.index_select(0, place)


def _whole(rows: Tensor) -> Tensor:
    """Unit rows as float64 whole numbers in units of 2^-24."""
    # A float32 below 2^24 rounds to a whole number exactly; twice as fast as in float64.
    return rows.mul(_GRID).round_().double()


def _rounded(rest: Tensor) -> Tensor:
    """-p log p of a best class that leaves a `rest` (N,) float64 to others, its p rounded to float32."""
    p = (1 - rest).clamp(min=1 / math.e).float().double()
    return -p * p.log()


def _needed(entropy: Tensor) -> tuple[Tensor, Tensor]:
    """Least that the best of C centered logits can be, and its gap to the next, at an entropy, (C,) each."""
    n_others = len(entropy) - 1
    # With q the probability of all but the best, entropy >= -log(1 - q), and >= the entropy of "best or not",
    # which is at least q (1 - q - log q).
    q = -torch.expm1(-entropy)
    q = torch.minimum(q, entropy / (1 - q - q.log()))
    # The logits of the others are -best / n_others on average, so that, by Jensen,
    # q / (1 - q) >= n_others exp(-best - best / n_others).
    gap = ((1 - q) / q).log()
    return (gap + math.log(n_others)) / (1 + 1 / n_others), gap
