"""`piaa.Client` against a real service."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from servers import Served, png

import piaa
from fake_encoder import squares
from piaa import Recognizer
from piaa.client import ServiceError
from piaa.errors import InputError

PHOTOS = [squares(300 + i, ["red"], size=(60, 80)) for i in range(20)]


@pytest.fixture
def client(served: Served) -> piaa.Client:
    return piaa.Client(served.url)


def test_all_kinds_of_images(client: piaa.Client, recognizer: Recognizer, tmp_path: Path) -> None:
    path = tmp_path / "photo ä.png"
    PHOTOS[0].save(path)
    (expected,) = recognizer.predict([PHOTOS[0]], threshold=0.0)
    for image in (path, str(path), PHOTOS[0], np.asarray(PHOTOS[0]), png(PHOTOS[0])):
        (tagged,) = client.tag(image, threshold=0)
        assert tagged.tags == expected.tags
        assert tagged.size == (60, 80)
        assert tagged.error is None
    assert client.tag([path])[0].name == "photo ä.png"


def test_more_images_than_a_request_holds(
    client: piaa.Client, recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piaa.client._MOST_IMAGES", 8)  # what this service takes
    tagged = client.tag(iter(PHOTOS))
    for each, expected in zip(tagged, recognizer.predict(PHOTOS), strict=True):
        # Products of other batches may round the last bit of a score the other way.
        assert dict(each.tags) == pytest.approx(dict(expected.tags), abs=1e-6)
        assert [name for name, _ in each.tags] == [name for name, _ in expected.tags]


def test_errors_of_images_and_of_requests(client: piaa.Client, tmp_path: Path) -> None:
    bad, good = client.tag([b"no picture", PHOTOS[0]])
    assert bad.error is not None
    assert "not a picture" in bad.error
    assert good.tags
    with pytest.raises(ServiceError, match="422") as caught:
        client.tag(PHOTOS[0], top_k=0)
    assert caught.value.status == 422
    assert caught.value.problem["errors"][0]["pointer"] == "/top_k"
    with pytest.raises(InputError, match="Cannot read"):
        client.tag(tmp_path / "missing.jpg")
    with pytest.raises(InputError, match="list of names"):
        client.tag(PHOTOS[0], classes="red")


def test_classes_heatmap_overlay_and_model(client: piaa.Client, recognizer: Recognizer) -> None:
    (tagged,) = client.tag(PHOTOS[0], classes=["red", "cyan"])
    assert tagged.tags[0][0] == "red"
    (prediction,) = recognizer.predict(PHOTOS[:1])
    heat = client.heatmap(PHOTOS[0], "red", kind="text")
    assert np.array_equal(heat, prediction.heatmap("red", kind="text").numpy())
    assert client.overlay(PHOTOS[0], "red", classes=["red", "cyan"]).size == (80, 60)
    assert client.model()["fitted"] is True


def test_nobody_there_and_no_address() -> None:
    with pytest.raises(ServiceError, match="Is `piaa serve` running there"):
        piaa.Client("http://127.0.0.1:9").model()
    with pytest.raises(InputError, match="must be a URL"):
        piaa.Client("localhost:8000")


def test_it_comes_back_when_the_service_is_busy() -> None:
    asked: list[str | None] = []

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            busy = len(asked) < 3
            self.send_response(429 if busy else 200)
            self.send_header("Retry-After", "0.01")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/prefix/"
        try:
            assert piaa.Client(url, token="t").model() == {}
            assert asked == ["Bearer t"] * 3
            asked.clear()
            with pytest.raises(ServiceError, match="429"):
                piaa.Client(url, retries=1).model()
            assert asked == [None] * 2
        finally:
            server.shutdown()
            thread.join()
