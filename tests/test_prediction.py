from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from fake_encoder import COLORS, ColorEncoder, features_of, names_of, recognizer_of, squares
from piaa import Config, Prediction, Recognizer
from piaa.errors import InputError, UnknownNameError
from piaa.images import Tiles
from piaa.images.placement import Fit, Size
from worlds import World, patch_world

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


@pytest.fixture(scope="module")
def world() -> World:
    return patch_world(4, 60, 9, 16, 5)


@pytest.fixture(scope="module", params=["zero-shot", "auto", "paper", "voc"])
def recognizer(world: World, request: pytest.FixtureRequest) -> Recognizer:
    config = {"paper": Config.paper(), "voc": Config.reference("voc")}.get(request.param)
    recognizer = recognizer_of(world, config)
    if request.param != "zero-shot":
        recognizer.fit(features_of(world))
    return recognizer


class TestScores:
    def test_range_shape_and_order(self, recognizer: Recognizer, world: World) -> None:
        predictions = recognizer.predict(features_of(world))
        assert len(predictions) == 60
        scores = torch.stack([p.scores for p in predictions])
        assert scores.dtype == torch.float32
        assert scores.shape == (60, 5)
        assert scores.isfinite().all()
        assert ((scores >= 0) & (scores <= 1)).all()
        evidence = recognizer.scorer.evidence(features_of(world))
        rising = scores.gather(0, evidence.argsort(0)).diff(dim=0)
        assert (rising >= -1e-6).all()
        above = evidence >= recognizer.scorer.thresholds
        clear = (evidence - recognizer.scorer.thresholds).abs() > 1e-4
        assert torch.equal((scores >= 0.5)[clear], above[clear])

    @pytest.mark.parametrize("threshold", [0, 0.2, 0.5, 0.9, 1])
    def test_tags_are_the_classes_above(
        self, recognizer: Recognizer, world: World, threshold: float
    ) -> None:
        for p in recognizer.predict(features_of(world), threshold=threshold):
            above = {n for n, s in zip(names_of(world), p.scores, strict=True) if s >= threshold}
            assert {name for name, _ in p.tags} == above
            values = [score for _, score in p.tags]
            assert values == sorted(values, reverse=True)
            assert dict(p.tags) == {n: float(p.scores[names_of(world).index(n)]) for n in above}
            if threshold == 0:
                assert len(p.tags) == 5

    def test_the_default_is_each_class_s_threshold(
        self, recognizer: Recognizer, world: World
    ) -> None:
        default = recognizer.predict(features_of(world))
        half = recognizer.predict(features_of(world), threshold=0.5)
        assert [p.tags for p in default] == [p.tags for p in half]

    def test_top(self, recognizer: Recognizer, world: World) -> None:
        everything = recognizer.predict(features_of(world), threshold=0)
        cut = recognizer.predict(features_of(world), threshold=0, top_k=2)
        for p, two in zip(everything, cut, strict=True):
            assert two.tags == p.top(2) == p.tags[:2]
            assert p.top(99) == p.tags
            assert [s for _, s in p.top(5)] == p.scores.sort(descending=True).values.tolist()

    def test_arguments(self, recognizer: Recognizer, world: World) -> None:
        features = features_of(world, [0])
        for threshold in (-0.1, 1.1, float("nan"), "high", None):
            with pytest.raises(InputError, match="threshold must be a number in"):
                recognizer.stream(features, threshold=threshold)
        for count in (0, -1, 1.5, True):
            with pytest.raises(InputError, match="top_k must be a whole number of at least 1"):
                recognizer.predict(features, top_k=count)
            with pytest.raises(InputError, match="top takes a whole number"):
                recognizer.predict(features)[0].top(count)

    def test_a_prediction_is_one_of_a_kind(self, recognizer: Recognizer, world: World) -> None:
        """Comparing tensors has no truth value, so predictions do not try."""
        one, other = recognizer.predict(features_of(world, [0, 0]))
        assert one != other
        assert len({one, other, one}) == 2
        assert "tags=" in repr(one)
        assert "_scorer" not in repr(one)


def picture(size: Size, box: tuple[int, int, int, int], color: str = "red") -> Image.Image:
    pixels = np.zeros((*size, 3), dtype=np.uint8)
    top, left, bottom, right = box
    pixels[top:bottom, left:right] = COLORS[color]
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def fitted() -> Recognizer:
    recognizer = Recognizer(ColorEncoder(), ["red", "green", "black"])
    recognizer.fit([squares(i, [["red"], ["green"], []][i % 3]) for i in range(24)])
    return recognizer


class TestHeatmaps:
    def test_on_the_grid(self, fitted: Recognizer) -> None:
        (p,) = fitted.predict(picture((64, 64), (0, 32, 32, 64)))
        for kind in ("fused", "text", "learned"):
            heat = p.heatmap("red", kind=kind)
            assert heat.dtype == torch.float32
            assert heat.shape == (8, 8)
            assert ((heat >= 0) & (heat <= 1)).all()
            inside = torch.zeros(8, 8, dtype=torch.bool)
            inside[:4, 4:] = True
            assert heat[inside].min() > heat[~inside].max()
        difference = p.heatmap("red", kind="difference")
        expected = p.heatmap("red", kind="learned") - p.heatmap("red", kind="text")
        torch.testing.assert_close(difference, expected)
        assert torch.equal(p.heatmap("red"), p.heatmap("red", kind="fused"))

    def test_text_map_is_the_softmax_over_classes(self, fitted: Recognizer) -> None:
        image = squares(99, ["red", "green"])
        features = fitted.encoder.encode_images([image])
        logits = features.patches[0] @ fitted.text.T * fitted.scorer.scales.text
        expected = logits.softmax(-1)[:, 0].view(8, 8)
        heat = fitted.predict(image)[0].heatmap("red", kind="text")
        torch.testing.assert_close(heat, expected, atol=2e-3, rtol=0)  # halves were kept
        classifier = fitted.scorer.classifier
        assert classifier is not None
        logits = classifier.scores(features.patches[0]) * fitted.scorer.scales.learned
        expected = logits.softmax(-1)[:, 0].view(8, 8)
        heat = fitted.predict(image)[0].heatmap("red", kind="learned")
        torch.testing.assert_close(heat, expected, atol=2e-3, rtol=0)

    @pytest.mark.parametrize("config", [Config.paper(), Config.reference("coco")])
    def test_published_forms_fuse_to_the_learned_map(self, config: Config) -> None:
        recognizer = Recognizer(ColorEncoder(), ["red", "green", "black"], config=config)
        recognizer.fit([squares(i, [["red"], ["green"], []][i % 3]) for i in range(24)])
        p = recognizer.predict(squares(99, ["red"]))[0]
        assert torch.equal(p.heatmap("red"), p.heatmap("red", kind="learned"))

    @pytest.mark.parametrize("tiles", [None, 2, Tiles(1, 3, overlap=0.5)])
    @pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
    @pytest.mark.parametrize("size", [(300, 500), (460, 260)])
    def test_a_small_thing_lies_where_it_is(
        self, size: Size, fit: Fit, tiles: int | Tiles | None
    ) -> None:
        encoder = ColorEncoder(canvas=(128, 96), fit=fit)
        recognizer = Recognizer(encoder, ["red", "green", "black"], tiles=tiles)
        top, left = size[0] // 2 + 20, size[1] // 2 - 50
        box = (top, left, top + 60, left + 48)
        (p,) = recognizer.predict(picture(size, box))
        assert p.heatmap("red").shape == (16, 12)
        heat = p.image_heatmap("red")
        assert heat.shape == size
        seen = ~heat.isnan()
        if fit != "crop" or tiles:
            assert seen.all()
        else:
            assert not seen.all()
        hot = heat.nan_to_num(0) > 0.7 * heat[seen].max()
        rows, columns = hot.nonzero().float().mean(0) + 0.5
        half_a_cell = max(size) / 12 / 2
        assert abs(rows - (top + 30)) < half_a_cell
        assert abs(columns - (left + 24)) < half_a_cell
        heat[max(0, top - 60) : top + 120, max(0, left - 60) : left + 108] = 0
        assert heat.nan_to_num(0).max() < 0.3

    def test_tiles_find_what_is_too_small_without(self) -> None:
        """It fills a quarter of a cell of the whole picture at best, and whole cells of a window."""
        image = picture((640, 640), (300, 300, 360, 360))
        names = ["red", "green", "black"]
        plain, tiled = (Recognizer(ColorEncoder(), names, tiles=tiles) for tiles in (None, 3))
        before, after = (r.predict(image)[0] for r in (plain, tiled))
        # Half of it at most: where windows overlap the map is their mean with the whole picture.
        assert before.image_heatmap("red").max() < 0.01
        assert after.image_heatmap("red").max() > 0.4
        assert after.scores[0] > 100 * before.scores[0]
        assert tiled.encoder.spec.tiles == Tiles(3, 3).to_dict()
        (features,) = tiled.encoder.stream_images([image], batch_size=1)
        assert features.windows == 10

    def test_what_cannot_be_shown(self, fitted: Recognizer) -> None:
        image = squares(0, ["red"])
        (p,) = fitted.predict(image, heatmaps=False)
        with pytest.raises(InputError, match="predict with heatmaps=True"):
            p.heatmap("red")
        (p,) = fitted.predict(image)
        with pytest.raises(UnknownNameError, match=r"Unknown class 'rad'.*'red'"):
            p.heatmap("rad")
        with pytest.raises(UnknownNameError, match="kind of heatmap"):
            p.heatmap("red", kind="best")
        features = fitted.encoder.encode_images([image])
        (p,) = fitted.predict(replace(features, placements=()))
        assert p.heatmap("red").shape == (8, 8)
        with pytest.raises(InputError, match="no picture to map onto"):
            p.image_heatmap("red")
        (p,) = Recognizer(ColorEncoder(), ["red", "green"]).predict(image)
        assert torch.equal(p.heatmap("red"), p.heatmap("red", kind="text"))
        for kind in ("learned", "difference"):
            with pytest.raises(InputError, match="needs a fit"):
                p.heatmap("red", kind=kind)

    def test_predictions_do_not_hold_on_to_the_batch(self, fitted: Recognizer) -> None:
        predictions = fitted.predict([squares(i, ["red"]) for i in range(8)], batch_size=8)
        for p in predictions:
            assert isinstance(p, Prediction)
            assert p._features is not None
            assert p._features.patches.dtype == torch.float16
            kept = p._features.patches.untyped_storage().nbytes()
            assert kept == 64 * 16 * 2
            assert p._features.cls.untyped_storage().nbytes() == 16 * 4
            assert p.scores.untyped_storage().nbytes() <= 8 * 3 * 4
