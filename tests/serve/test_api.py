"""The HTTP API against the library: the same answers, whoever else is asking."""

from __future__ import annotations

import base64
import io
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image
from servers import Served, jpeg, png

from fake_encoder import CLASSES, COLORS, ColorEncoder, squares
from piaa import Recognizer, Tiles
from piaa.encoders.tiled import TiledEncoder
from piaa.images import open_image
from piaa.serve.decoder import lay_out
from piaa.serve.decoding import Decoded
from piaa.serve.engine import Engine
from piaa.serve.limits import Limits
from piaa.serve.metrics import Metrics

PHOTOS = [squares(100 + i, [c], size=(90, 120)) for i, c in enumerate(["red", "blue", "green"])]
PHOTOS.append(squares(200, ["red", "green"], size=(64, 64)))


def files() -> list[tuple[str, bytes]]:
    return [(f"{i}.png", png(photo)) for i, photo in enumerate(PHOTOS)]


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def assert_same_tags(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> None:
    """Products of other batches may round the last bit of a score the other way."""
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert dict(found) == pytest.approx(dict(expected), abs=1e-6)


def test_tags_of_a_form_are_those_of_the_library(served: Served, recognizer: Recognizer) -> None:
    answer = served.post("/v1/tags", files(), threshold=0)
    assert answer.status == 200
    predicted = recognizer.predict(PHOTOS, threshold=0.0)
    for photo, image, prediction in zip(PHOTOS, answer.json()["images"], predicted, strict=True):
        assert (image["width"], image["height"]) == photo.size
        assert_same_tags([(tag["name"], tag["score"]) for tag in image["tags"]], prediction.tags)


def test_threshold_and_top_k(served: Served, recognizer: Recognizer) -> None:
    (image,) = served.post("/v1/tags", files()[3:]).json()["images"]
    (prediction,) = recognizer.predict(PHOTOS[3:])
    assert [tag["name"] for tag in image["tags"]] == [name for name, _ in prediction.tags]
    (image,) = served.post("/v1/tags", files()[3:], threshold=0, top_k=1).json()["images"]
    assert len(image["tags"]) == 1


def test_json_says_the_same_as_a_form(served: Served) -> None:
    images = [{"name": name, "data": base64_of(data)} for name, data in files()]
    from_json = served.post_json("/v1/tags", {"images": images, "threshold": 0.2})
    assert from_json.json() == served.post("/v1/tags", files(), threshold=0.2).json()


def test_a_bad_picture_does_not_spoil_the_others(served: Served) -> None:
    sent = [("notes.txt", b"hello"), *files()[:1], ("half.png", files()[1][1][:100])]
    first, second, third = served.post("/v1/tags", sent).json()["images"]
    assert first["name"] == "notes.txt"
    assert first["error"]["type"] == "/problems#not-a-picture"
    assert second["tags"]
    assert third["error"]["status"] == 422


def test_many_at_once_get_what_each_gets_alone(served: Served, recognizer: Recognizer) -> None:
    photos = [squares(1000 + i, ["red", "blue"][: 1 + i % 2], size=(60, 80)) for i in range(40)]
    alone = [recognizer.predict([photo], threshold=0.0)[0].tags for photo in photos]
    batches = served.metric("piaa_batch_size_count")

    def tags(photo: Image.Image) -> list[tuple[str, float]]:
        answer = served.post("/v1/tags", [("x.png", png(photo))], threshold=0)
        return [(tag["name"], tag["score"]) for tag in answer.json()["images"][0]["tags"]]

    with ThreadPoolExecutor(16) as threads:
        for found, expected in zip(threads.map(tags, photos), alone, strict=True):
            assert_same_tags(found, expected)
    assert served.metric("piaa_batch_size_count") - batches < len(photos)  # some went together


def test_windows_are_encoded_as_by_the_tiled_encoder() -> None:
    tiled = TiledEncoder(ColorEncoder(canvas=(32, 40), fit="pad"), Tiles(1, 2))
    engine = Engine(Recognizer(tiled, CLASSES), Limits(), Metrics())
    decoded = []
    for photo in PHOTOS:
        canvases = lay_out(open_image(photo), tiled.spec.preprocessing, tiled.tiles)
        decoded.append(Decoded((photo.height, photo.width), *canvases, None))
    for photo, features in zip(PHOTOS, engine._encode(decoded), strict=True):
        expected = tiled.encode_images([photo])
        assert torch.equal(features.cls, expected.cls)
        assert torch.equal(features.patches, expected.patches)
        assert features.placements == expected.placements


def test_ad_hoc_classes_are_zero_shot(served: Served) -> None:
    names = ["yellow", "cyan", "red"]
    photo = squares(7, ["yellow"], size=(80, 80))
    answer = served.post(
        "/v1/classes", [("a.png", png(photo))], threshold=0, classes="\n".join(names)
    ).json()
    (expected,) = Recognizer(ColorEncoder(), names).predict([photo], threshold=0.0)
    scores = {tag["name"]: tag["score"] for tag in answer["images"][0]["tags"]}
    assert scores == pytest.approx(dict(expected.tags), abs=1e-6)
    assert answer["images"][0]["tags"][0]["name"] == "yellow"
    assert answer["warnings"] == []


def test_ad_hoc_classes_that_look_alike_are_remarked_on(served: Served) -> None:
    answer = served.post("/v1/classes", files()[:1], classes="red\nreds").json()
    assert "may mean the same thing" in answer["warnings"][0]


def test_words_are_encoded_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    encode = ColorEncoder.encode_text

    def counting(self: ColorEncoder, texts: list[str]) -> torch.Tensor:
        asked.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(ColorEncoder, "encode_text", counting)
    served.post("/v1/classes", files()[:1], classes="magenta\nwhite")
    served.post("/v1/classes", files()[:1], classes="white\nblack\nmagenta")
    # Names of other things are words as well.
    asked = [text for text in asked if text.split()[-1] in COLORS]
    assert asked == ["a photo of a magenta", "a photo of a white", "a photo of a black"]


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ([], "at least 1"),
        (["red", "Red "], "twice"),
        (["red", "b" * 300], "300 characters"),
        ([f"c{i}" for i in range(51)], "51 classes"),
        (["/etc/passwd", "a: "], "empty synonym"),
    ],
)
def test_class_lists_that_are_none(served: Served, classes: list[str], reason: str) -> None:
    image = {"data": base64_of(files()[0][1])}
    answer = served.post_json("/v1/classes", {"images": [image], "classes": classes})
    assert (answer.status, answer.problem) == (422, "invalid")
    assert reason in answer.json()["detail"]
    assert answer.json()["errors"][0]["pointer"].startswith("/classes")


@pytest.mark.parametrize("kind", ["fused", "text", "learned", "difference"])
def test_heatmap_grid_is_that_of_the_library(
    served: Served, recognizer: Recognizer, kind: str
) -> None:
    fields = {"class": "red", "kind": kind, "format": "grid"}
    answer = served.post("/v1/heatmap", files()[:1], field="image", **fields).json()
    (prediction,) = recognizer.predict(PHOTOS[:1])
    assert answer["grid"] == prediction.heatmap("red", kind=kind).tolist()  # type: ignore[arg-type]
    (place,) = recognizer.encoder.encode_images(PHOTOS[:1]).placements
    assert answer["box"] == list(place.box)  # a crop of 120 x 90


def test_heatmap_png_has_the_size_of_the_picture(served: Served) -> None:
    answer = served.post("/v1/heatmap", files()[:1], field="image", **{"class": "red"})
    assert answer.headers["content-type"] == "image/png"
    overlay = np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB")).astype(int)
    photo = np.asarray(PHOTOS[0]).astype(int)
    assert overlay.shape == photo.shape
    assert np.array_equal(overlay[:, :10], photo[:, :10])  # cut off by the crop: not looked at
    hot = photo[:, 20:100, 0] > 200
    brightness = overlay[:, 20:100].sum(-1)
    assert brightness[hot].mean() > brightness[~hot].mean() + 100


def test_large_pictures_get_a_small_overlay(served: Served) -> None:
    photo = squares(1, ["red"], size=(300, 2000))
    answer = served.post("/v1/heatmap", [("x", jpeg(photo))], field="image", **{"class": "red"})
    assert Image.open(io.BytesIO(answer.content)).size == (1024, 154)


def test_heatmap_of_ad_hoc_classes(served: Served) -> None:
    fields = {"class": "yellow", "format": "grid", "classes": "yellow\ncyan"}
    photo = png(squares(7, ["yellow"], size=(64, 64)))
    answer = served.post("/v1/heatmap", [("x", photo)], field="image", **fields)
    assert max(max(row) for row in answer.json()["grid"]) > 0.9
    fields["kind"] = "learned"
    answer = served.post("/v1/heatmap", [("x", photo)], field="image", **fields)
    assert (answer.status, answer.problem) == (422, "invalid")


def test_a_heatmap_of_no_class_or_no_picture(served: Served) -> None:
    answer = served.post("/v1/heatmap", files()[:1], field="image", **{"class": "purple"})
    assert (answer.status, answer.problem) == (404, "unknown-class")
    answer = served.post("/v1/heatmap", [("x", b"?")], field="image", **{"class": "red"})
    assert (answer.status, answer.problem) == (422, "not-a-picture")


def test_a_picture_seen_before_may_be_named_by_its_hash(served: Served) -> None:
    (first,) = served.post("/v1/tags", files()[:1], threshold=0).json()["images"]
    reference = {"name": "0.png", "sha256": first["sha256"]}
    encoded = served.metric("piaa_batch_size_sum")
    again = served.post_json("/v1/tags", {"images": [reference], "threshold": 0}).json()
    assert again["images"] == [first]
    heat = {"image": reference, "class": "red", "format": "grid"}
    assert served.post_json("/v1/heatmap", heat).status == 200
    assert served.metric("piaa_batch_size_sum") == encoded  # nothing was encoded again
    assert served.post_json("/v1/heatmap", {**heat, "format": "png"}).problem == "not-remembered"
    unknown = served.post_json("/v1/tags", {"images": [{"sha256": "0" * 64}]}).json()
    assert unknown["images"][0]["error"]["type"] == "/problems#not-remembered"


def test_model(served: Served, recognizer: Recognizer) -> None:
    model = served.ask("GET", "/v1/model").json()
    assert [row["name"] for row in model["classes"]] == CLASSES
    thresholds = [row["threshold"] for row in model["classes"]]
    assert thresholds == recognizer.scorer.thresholds.tolist()
    assert model["classes"][0]["report"]["images"] == recognizer.report.classes[0].images
    assert model["images"] == 30
    assert model["encoder"]["name"] == "colors"
    assert model["limits"]["images"] == served.limits.images


def test_health(served: Served) -> None:
    assert served.ask("GET", "/healthz").json() == {"status": "ok"}
    assert served.ask("GET", "/readyz").json() == {"status": "ok"}


def test_metrics_are_prometheus_text(served: Served) -> None:
    served.post("/v1/tags", files()[:1])
    answer = served.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? \d+(\.\d+)?(e[+-]\d+)?')
    lines = answer.content.decode().splitlines()
    assert all(each.startswith("# ") or line.fullmatch(each) for each in lines)
    declared = {each.split()[2] for each in lines if each.startswith("# TYPE")}
    assert {"piaa_requests_total", "piaa_request_seconds", "piaa_queue_images"} <= declared
    buckets = [
        int(each.rpartition(" ")[2])
        for each in lines
        if each.startswith("piaa_request_seconds_bucket")
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == int(served.metric("piaa_request_seconds_count"))


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/images"),
        ({"images": []}, "/images"),
        ({"images": [{"data": "%%%"}]}, "/images/0/data"),
        ({"images": [{"path": "/etc/passwd"}]}, "/images/0/data"),
        ({"images": [{"sha256": "xyz"}]}, "/images/0/sha256"),
        ({"images": [{"data": ""}], "threshold": 2}, "/threshold"),
        ({"images": [{"data": ""}], "top_k": 0}, "/top_k"),
        ({"images": [{"data": ""}], "url": "http://localhost/"}, "/url"),
    ],
)
def test_json_that_does_not_fit_is_pointed_at(served: Served, body: object, pointer: str) -> None:
    answer = served.post_json("/v1/tags", body)
    assert (answer.status, answer.problem) == (422, "invalid")
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_forms_that_do_not_fit(served: Served) -> None:
    for answer in (
        served.post("/v1/tags", []),
        served.post("/v1/tags", files(), field="pictures"),
        served.post("/v1/tags", files(), thresh=1),
        served.post("/v1/tags", files(), threshold="much"),
        served.post("/v1/heatmap", files(), field="image", **{"class": "red"}),
    ):
        assert (answer.status, answer.problem) == (422, "invalid")


def test_every_problem_has_an_entry_on_the_page(served: Served) -> None:
    answer = served.ask("GET", "/nowhere")
    assert (answer.status, answer.problem) == (404, "not-found")
    page = served.ask("GET", "/problems").content.decode()
    assert f'id="{answer.problem}"' in page
    answer = served.ask("DELETE", "/v1/tags")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
