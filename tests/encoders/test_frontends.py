"""Front-ends against their slow plain form, on both families, square and other grids."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from plain_frontends import PlainTower

import piaa
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.frontends import FRONTENDS, ScClip, make_frontend
from piaa.errors import InputError
from recipe import pixels

OPTIONS = [
    *((family, name, {}) for family in ("clip", "eva") for name in FRONTENDS if name != "clip"),
    *(("eva", name, {"rotary": False}) for name in ("sclip", "itaclip", "sc-clip", "naclip")),
    ("clip", "maskclip", {"residual": False}),
    ("clip", "sc-clip", {"lof": "textbook", "neighbors": 7, "contamination": 0.2, "floor": 0.2}),
    ("clip", "naclip", {"std": 1.5}),
    ("clip", "itaclip", {"middle": (2, 11)}),
]


@pytest.mark.parametrize(("family", "name", "options"), OPTIONS, ids=lambda v: str(v) if v else "-")
@pytest.mark.parametrize("size", [(64, 112), (224, 224)], ids=["4x7", "14x14"])
def test_equals_the_plain_form(
    load: Callable[..., ClipEncoder], family: str, name: str, options: dict, size: tuple[int, int]
) -> None:
    encoder = load(family, frontend=name, frontend_options=options)
    images = pixels(31, 2, *size)
    with torch.no_grad():
        cls, patches, grid = encoder.vision(images, encoder.frontend)
        assert grid == (size[0] // 16, size[1] // 16)
        for index, image in enumerate(images):
            plain = PlainTower(encoder, image)
            expected = encoder.vision.finish(plain.tokens(encoder.frontend))
            torch.testing.assert_close(patches[index], expected, atol=1e-4, rtol=0)
            expected_cls = encoder.vision.finish(plain.cls)
            torch.testing.assert_close(cls[index], expected_cls, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["clip", "eva"])
def test_cls_is_the_same_whatever_the_frontend(
    load: Callable[..., ClipEncoder], family: str
) -> None:
    images = pixels(32, 2)
    vanilla = load(family, frontend="clip").encode_pixels(images).cls
    for name in FRONTENDS:
        cls = load(family, frontend=name).encode_pixels(images).cls
        torch.testing.assert_close(cls, vanilla, atol=1e-5, rtol=0)


def test_trunk_runs_once(load: Callable[..., ClipEncoder]) -> None:
    encoder = load("clip", frontend="sc-clip")
    blocks = encoder.vision.blocks
    calls = [0] * len(blocks)
    handles = [
        block.register_forward_hook(
            lambda *_, index=index: calls.__setitem__(index, calls[index] + 1)
        )
        for index, block in enumerate(blocks)
    ]
    encoder.encode_pixels(pixels(33, 2))
    for handle in handles:
        handle.remove()
    assert calls == [1] * (len(blocks) - 1) + [0]  # the last block is only ever read in parts


@pytest.mark.parametrize("name", FRONTENDS)
def test_presets_for_both_published_depths(name: str) -> None:
    for depth in (12, 24):
        make_frontend(name, depth).check(depth, rotary_model=False)


def test_presets_are_the_published_ones() -> None:
    assert make_frontend("sc-clip", 12).options() == {
        "rotary": True,
        "pre": 8,
        "post": 3,
        "multi": (3, 10),
        "cls_residual": 0.3,
        "floor": 0.4,
        "lof": "reference",
        "neighbors": 30,
        "contamination": 0.05,
    }
    large = make_frontend("sc-clip", 24)
    assert isinstance(large, ScClip)
    assert (large.pre, large.post, large.multi, large.cls_residual) == (16, 6, (8, 19), 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scclip", 12), r"Unknown front-end 'scclip'.*Did you mean.*'sc-clip'"),
        ((["clip"], 12), "Unknown front-end"),
        (("sc-clip", 6), r"no preset for a model of 6 blocks.*12, 24 blocks.*pre=\.\.\., post="),
        (("itaclip", 3), r"no preset.*middle=\.\.\."),
        (("sclip", 12, {"beta": 1}), r"Unknown option of front-end 'sclip' 'beta'.*rotary"),
        (("clip", 12, {"rotary": False}), "Unknown option of front-end 'clip'"),
        (("sc-clip", 12, {"lof": "other"}), "textbook"),
        (("sc-clip", 12, {"multi": (5, 5)}), "one past the last"),
        (("sc-clip", 12, {"neighbors": 0}), "neighbors"),
        (("sc-clip", 12, {"contamination": 1.0}), "contamination"),
        (("itaclip", 12, {"middle": ()}), "at least one block"),
        (("naclip", 12, {"std": 0}), "positive"),
    ],
)
def test_bad_names_and_options(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_frontend(*arguments)


def test_options_must_fit_the_model(load: Callable[..., ClipEncoder]) -> None:
    with pytest.raises(InputError, match="offers 0 to 10"):
        load("clip", frontend="itaclip", frontend_options={"middle": (12,)})
    with pytest.raises(InputError, match="rotary=False"):
        load("clip", frontend="sclip", frontend_options={"rotary": False})


def test_unusual_depth_works_with_own_options(tmp_path) -> None:
    from safetensors.torch import save_file

    from piaa.encoders.synthetic import synthetic_checkpoint

    small = synthetic_checkpoint(
        width=64, depth=6, grid=4, embed_dim=32, text_width=64, text_depth=1
    )
    save_file(small, tmp_path / "six.safetensors")
    assert piaa.load_encoder(weights=tmp_path / "six.safetensors").spec.frontend == "clip"
    encoder = piaa.load_encoder(
        weights=tmp_path / "six.safetensors",
        frontend="sc-clip",
        frontend_options={"pre": 3, "post": 1, "multi": (1, 5), "cls_residual": 0.2},
    )
    assert encoder.encode_pixels(pixels(1, 1, 64, 64)).patches.shape == (1, 16, 32)


def test_a_frontend_object_can_be_passed(load: Callable[..., ClipEncoder]) -> None:
    made = ScClip.for_depth(12, {"floor": 0.3})
    assert load("clip", frontend=made).frontend is made
    encoder = load("clip", frontend=made, frontend_options={"lof": "textbook"})
    assert encoder.spec.frontend_options["lof"] == "textbook"
    assert encoder.spec.frontend_options["floor"] == 0.3
