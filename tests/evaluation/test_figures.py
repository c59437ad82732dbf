from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fake_encoder import CLASSES, ColorEncoder, squares
from piaa import Config, Recognizer
from piaa.encoders.clip import ClipEncoder
from piaa.errors import InputError
from piaa.evaluation import figures
from piaa.images import preprocess


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("photos")
    paths = []
    for place, colors in enumerate((["red"], ["blue", "green"])):
        paths.append(folder / f"{place}.png")
        squares(place, colors).save(paths[-1])
    return paths


@pytest.fixture(scope="module")
def recognizer(photos: list[Path]) -> Recognizer:
    fitted = Recognizer(ColorEncoder(), CLASSES, config=Config(bank_size=400, bank_floor=400))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit([*photos, *(squares(i, [CLASSES[i % 3]]) for i in range(2, 14))])
    return fitted


@pytest.mark.parametrize("family", ["clip", "eva"])
def test_cls_attention_is_that_of_the_last_block(
    load: Callable[..., ClipEncoder], family: str
) -> None:
    encoder = load(family)
    picture = squares(3, ["red", "blue"], size=(50, 70))
    view, title = figures.global_view(encoder, picture)
    assert title == "CLS attention"
    assert view.shape == (50, 70)
    # By hand: what the trained block's attention gives the class token.
    tower = encoder.vision
    pixels, _ = preprocess(picture, encoder.spec.preprocessing)
    x, grid = tower.embed(pixels[None])
    rotate = tower.rotary(grid, x) if tower.rotary else None
    for block in tower.blocks[:-1]:
        x, _ = block(x, rotate)
    q, k, _ = tower.blocks[-1].project(tower.blocks[-1].norm1(x), 0, 3)
    q, k = (q, k) if rotate is None else (rotate(q), rotate(k))
    weights = torch.stack(
        [torch.softmax(q[0, h, 0] @ k[0, h].T / q.shape[-1] ** 0.5, 0) for h in range(q.shape[1])]
    ).mean(0)[1:]
    seen = view[~view.isnan()]
    assert float(seen.min()) >= float(weights.min()) - 1e-6
    assert float(seen.max()) <= float(weights.max()) + 1e-6
    assert float(seen.max()) == pytest.approx(float(weights.max()), rel=0.2)


def test_encoders_without_attention_show_cosines() -> None:
    view, title = figures.global_view(ColorEncoder(), squares(1, ["red"]))
    assert "cosine" in title
    assert float(view[~view.isnan()].max()) <= 1


@pytest.mark.parametrize("names", [None, ["blue"]])
def test_figures_are_drawn(
    recognizer: Recognizer, photos: list[Path], tmp_path: Path, names: list[str] | None
) -> None:
    for draw in (figures.draw_attention, figures.draw_before_after, figures.draw_retained):
        path = tmp_path / f"{draw.__name__}.png"
        draw(recognizer, photos, names, path)
        pixels = np.asarray(Image.open(path).convert("RGB"))
        assert pixels.std() > 10, "not an empty page"


def test_retained_patches_are_found_in_photographs_of_the_fit(
    recognizer: Recognizer, photos: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "retained.svg"
    figures.draw_retained(recognizer, photos[:1], ["red", "green"], path)
    kept = recognizer.retained(recognizer.encoder.encode_images(photos[:1]), "red")
    assert kept.any()
    assert f"red: {int(kept.sum())} patches" in path.read_text()


def test_before_and_after_need_a_fit(photos: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="need a fitted model"):
        figures.draw_before_after(
            Recognizer(ColorEncoder(), CLASSES), photos, None, tmp_path / "x.png"
        )
