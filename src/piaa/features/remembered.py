"""The images of a sample, whole and by id: what branches are compared on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.base import ImageFeatures
from piaa.features.sample import Sample, halves

_IMAGES_AT_ONCE = 32


class Remembered:
    """A sample's n images by id, some at a time on a device.

    Attributes:
        cls: (n, D) float32, their global vectors, on the device.
        in_second: (n,) bool, which half of the collection each belongs to.
    """

    def __init__(self, sample: Sample, device: torch.device) -> None:
        self._sample, self._device = sample, device
        self._order = sample.order()
        self.cls = sample.cls[self._order].to(device)
        self.in_second = halves(sample.ids[self._order])

    def features(self) -> Iterator[ImageFeatures]:
        """As one row of patches, whatever their grid."""
        for some in torch.split(torch.arange(len(self._order)), _IMAGES_AT_ONCE):
            patches = self._patches(self._order[some])
            yield ImageFeatures(self.cls[some], patches, (1, patches.shape[1]))

    def scores(
        self, branch: Callable[[Tensor], Tensor], width: int, chosen: Tensor | None = None
    ) -> Tensor:
        """What `branch` makes of patches (B, M, D), (B, width): of all images or those chosen (n,) bool.

        Returns:
            (n, width) float32 on the CPU.
        """
        parts = [torch.empty(0, width)]
        for some in torch.split(self._places(chosen), _IMAGES_AT_ONCE):
            if len(some):
                parts.append(branch(self._patches(some)).cpu())
        return torch.cat(parts)

    def rows(self, most: int, chosen: Tensor | None = None) -> Tensor:
        """About `most` patches (N, D) float32, or all, evenly over all images or those chosen (n,) bool."""
        places, n_cells = self._places(chosen), self._sample.patches.shape[1]
        total = len(places) * n_cells
        picked = torch.arange(0, total, max(1, total // most))
        return self._unit(self._sample.patches[places[picked // n_cells], picked % n_cells])

    def _places(self, chosen: Tensor | None) -> Tensor:
        return self._order if chosen is None else self._order[chosen]

    def _patches(self, places: Tensor) -> Tensor:
        return self._unit(self._sample.patches[places])

    def _unit(self, patches: Tensor) -> Tensor:
        # As they are kept, patches have lost their length.
        return F.normalize(patches.float(), dim=-1).to(self._device)
