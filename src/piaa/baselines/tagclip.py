"""TagCLIP (Lin et al., 2024): patch scores refined by attention, then each found class seen again.

Three steps for each picture at its own resolution: coarse patch scores; dual-masking attention
refinement (DMAR); class-wise re-identification (CWR), in which every class found is cropped and
classified once more, the class token seeing the class's own patches only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.baselines.attention import (
    attention_pass,
    masked_class_vectors,
    with_bilinear_positions,
)
from piaa.baselines.base import Templates, ZeroShot, encode_ensemble
from piaa.baselines.refinement import Candidates, dual_mask_refine, find_candidates
from piaa.classes.class_list import Classes, ClassList
from piaa.classes.near_names import comparable, plurals
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.encoders.clip import ClipEncoder
from piaa.errors import InputError
from piaa.features.batches import Images, _several
from piaa.images import ImageSource, open_image, preprocess

# The words that the published code adds for VOC. For COCO it leaves out two that are in names of
# classes, which `background_words` does for any classes.
BACKGROUND = (
    "ground", "land", "grass", "tree", "building", "wall", "sky", "lake", "water", "river", "sea",
    "railway", "railroad", "keyboard", "helmet", "cloud", "house", "mountain", "ocean", "road",
    "rock", "street", "valley", "bridge", "sign",
)  # fmt: skip


@dataclass(frozen=True)
class Tagged:
    """What TagCLIP finds in one picture.

    Attributes:
        scores: (C,) float32 in [0, 1] or, where attention adds up to more than 1, a little above.
        refined: (M, C + background) float32 patch scores after DMAR, row-major over `grid`.
        grid: (rows, columns) of the patches.
        candidates: Columns of the classes that were seen again; each cost a pass.
    """

    scores: Tensor
    refined: Tensor
    grid: tuple[int, int]
    candidates: tuple[int, ...]


class TagClip(ZeroShot):
    """TagCLIP for CLIP and EVA-02-CLIP encoders. The encoder's front-end plays no part.

    Args:
        template: Prompt around each class's words, or several. Default: what suits the encoder; the
            authors average 85.
        background: Words for what is around things; they compete with the classes. Default: the
            authors', without those in the names of classes.
        level: Classes above this share of the range of all patch scores are seen again; the
            authors take 0.5, and 0.1 for COCO-Stuff.
        first_block: First block, counted from 0, whose attention is averaged for refinement, to
            the last but one. Default: the authors' 8 of 12 blocks, or the same share of others.
        votes: In how many blocks a pair of patches must be above the mean. Default: the authors' 4
            of 12 blocks, or the same share of others.
        most_patches: Pictures of more are scaled down, since attention grows with the square. The
            default, 4096, is 1024 x 1024 pixels for patches of 16.
    """

    name: ClassVar[str] = "tagclip"
    needs_pictures: ClassVar[bool] = True

    def __init__(
        self,
        encoder: Encoder,
        classes: Classes,
        *,
        template: Templates | None = None,
        background: Sequence[str] | None = None,
        level: float = 0.5,
        first_block: int | None = None,
        votes: int | None = None,
        most_patches: int = 4096,
    ) -> None:
        if not isinstance(encoder, ClipEncoder):
            raise InputError(
                f"TagCLIP reads the attention maps of a CLIP transformer, and {encoder!r} gives "
                "none. Use a CLIP or EVA-02-CLIP encoder without tiles, or one of the methods for "
                "any encoder: cls, patch, sparc, piaa."
            )
        super().__init__(encoder, classes, template=template)
        self._clip = encoder
        self._tower = with_bilinear_positions(encoder.vision)
        depth = encoder.architecture.vision.depth
        self.level = _level(level)
        default = min(2 * depth // 3, depth - 2)
        self.first_block = _count("first_block", first_block, default, 0, depth - 2)
        self.votes = _count("votes", votes, max(1, depth // 3), 1, depth)
        self.most_patches = _count("most_patches", most_patches, 4096, 4, 2**20)
        if isinstance(background, str):
            raise InputError(f"background must be a list of words, not {background!r}.")
        self.background = background_words(self.classes) if background is None else (*background,)
        if self.background:
            # Both together, so that a word that is a class as well is refused.
            self._prototypes = encode_ensemble(
                encoder,
                ClassList(
                    self.classes.names + self.background,
                    self.classes.phrases + tuple((word,) for word in self.background),
                ),
                self.templates,
            )
        else:
            self._prototypes = self.text

    @property
    def forward_passes(self) -> str:
        rows, columns = self._clip.architecture.image_size
        return f"1 at native resolution + 1 at {rows} x {columns} for each class found"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **super().settings,
            "background": list(self.background),
            "level": self.level,
            "first_block": self.first_block,
            "votes": self.votes,
            "most_patches": self.most_patches,
        }

    def scores(self, images: Images) -> Tensor:
        rows = [self.tag(picture).scores.cpu() for picture in _several(images)]
        if not rows:
            raise InputError("There are no images to score: the list is empty.")
        return torch.stack(rows)

    def tag(self, picture: ImageSource) -> Tagged:
        """All three steps for one picture."""
        if isinstance(picture, ImageFeatures):
            raise InputError(
                "TagCLIP needs pictures at their own resolution, not features of a fixed size. "
                "Give paths or pictures."
            )
        return self.tag_pixels(self._read(picture))

    @torch.no_grad()
    def tag_pixels(self, pixels: Tensor) -> Tagged:
        """The same for pixels (1, 3, H, W), normalized; sides are multiples of the patch."""
        patch = self._clip.architecture.patch
        if pixels.shape[:-2] != (1, 3) or pixels.shape[-2] % patch or pixels.shape[-1] % patch:
            raise InputError(
                f"TagCLIP takes pixels (1, 3, H, W) of one picture, H and W multiples of {patch}, not "
                f"{tuple(pixels.shape)}."
            )
        pixels = pixels.to(self._clip.device)
        vectors, affinity, grid = attention_pass(
            self._tower, self._cast(pixels), first_block=self.first_block, votes=self.votes
        )
        refined = dual_mask_refine(self._probabilities(vectors), affinity, grid)
        scores = refined[:, : len(self.classes)].amax(dim=0)
        found = find_candidates(refined, grid, n_classes=len(self.classes), level=self.level)
        if found.classes:
            columns = torch.tensor(found.classes, device=scores.device)
            scores[columns] = 0.5 * scores[columns] + 0.5 * self._see_again(pixels, found)
        return Tagged(scores, refined, grid, tuple(found.classes))

    def _see_again(self, pixels: Tensor, found: Candidates) -> Tensor:
        """Probability (K,) of each candidate in its own crop."""
        patch, size = self._clip.architecture.patch, self._clip.architecture.image_size
        crops = [
            F.interpolate(
                pixels[:, :, top * patch : bottom * patch, left * patch : right * patch],
                size=size,
                mode="bilinear",
                align_corners=False,
            )
            for top, left, bottom, right in found.boxes
        ]
        visible = [
            F.interpolate(mask[None, None].float(), size=self._clip.architecture.grid).flatten(1)
            for mask in found.masks
        ]
        at_once = self._clip.default_batch_size
        parts = zip(
            torch.split(torch.cat(crops), at_once),
            torch.split(torch.cat(visible).bool().to(pixels.device), at_once),
            strict=True,
        )
        vectors = [
            masked_class_vectors(self._tower, self._cast(some), sees) for some, sees in parts
        ]
        probabilities = self._probabilities(torch.cat(vectors))
        return probabilities[range(len(found.classes)), found.classes]

    def _probabilities(self, vectors: Tensor) -> Tensor:
        """softmax over classes and background, (n, C + background), of vectors (n, D)."""
        cosines = F.normalize(vectors, dim=1) @ self._prototypes.T
        return (cosines * self._clip.text_scale).softmax(dim=1)

    def _cast(self, pixels: Tensor) -> Tensor:
        return pixels.to(self._tower.cls_token.dtype)

    def _read(self, picture: ImageSource) -> Tensor:
        """Pixels (1, 3, H, W), each side rounded up to whole patches and nothing cut off."""
        image = open_image(picture)
        size = native_size(
            (image.height, image.width),
            patch=self._clip.architecture.patch,
            most_patches=self.most_patches,
        )
        preprocessing = replace(self._clip.spec.preprocessing, image_size=size, fit="squash")
        return preprocess(image, preprocessing)[0][None]


def native_size(size: tuple[int, int], *, patch: int, most_patches: int) -> tuple[int, int]:
    """(rows, columns) of a picture in pixels, rounded up to whole patches, or scaled to fit.

    >>> native_size((375, 500), patch=16, most_patches=4096)
    (384, 512)
    >>> native_size((3000, 4000), patch=16, most_patches=4096)
    (880, 1168)
    """
    cells = [math.ceil(side / patch) for side in size]
    if math.prod(cells) > most_patches:
        shrink = math.sqrt(most_patches / math.prod(cells))
        # A thin picture keeps its one row of patches, so that its length has to give way.
        cells = [min(most_patches, max(1, int(side * shrink))) for side in cells]
    return cells[0] * patch, cells[1] * patch


def background_words(classes: ClassList) -> tuple[str, ...]:
    """`BACKGROUND` without the words that stand, in singular or plural, in a class's phrases.

    >>> background_words(ClassList.of(["stop sign", "keyboard", "rocks"]))[-4:]
    ('road', 'street', 'valley', 'bridge')
    """
    taken = {
        word
        for phrases in classes.phrases
        for phrase in phrases
        for word in comparable(phrase).split()
    }
    return tuple(word for word in BACKGROUND if taken.isdisjoint((word, *plurals(word))))


def _level(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"level must be a number in [0, 1], not {value!r}.")
    return float(value)


def _count(name: str, value: int | None, default: int, least: int, most: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, not {value!r}.")
    return value
