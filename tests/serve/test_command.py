"""`piaa serve` as a process: refuses early, and stops without losing what it has accepted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers import Served, png, wait_for

from fake_encoder import squares
from piaa import Recognizer
from piaa.encoders.clip import ClipEncoder
from piaa.serve.limits import Limits

PHOTO = png(squares(1, ["red"], size=(64, 64)))


@pytest.fixture(scope="module")
def model(load: Callable[..., ClipEncoder], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved zero-shot model of the small recorded CLIP."""
    path = tmp_path_factory.mktemp("model") / "model.piaa"
    Recognizer(load("clip"), ["cat", "dog", "car"]).save(path)
    return path


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PIAA_")}
    with subprocess.Popen(
        [sys.executable, "-m", "piaa", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # so that a signal can be sent to all of it
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_stopping_loses_no_accepted_request(model: Path) -> None:
    options = ("--model", str(model), "--port", "0", "--batch-size", "1")
    with command(*options) as process:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" at ")[2].strip()
        served = Served(url, int(url.rpartition(":")[2]), Limits())
        assert served.ask("GET", "/readyz").status == 200
        answered: list[int] = []
        refused: list[type[Exception]] = []

        def ask() -> None:
            try:
                answered.append(served.post("/v1/tags", [("a.png", PHOTO)] * 10).status)
            except OSError as error:
                refused.append(type(error))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        # All six are with the service once their pictures are counted as waiting, or answered.
        wait_for(lambda: served.metric("piaa_queue_images") + 10 * len(answered) >= 60)
        with served.connect() as half:
            body = b'{"images": [{"data": ""}]}'
            head = f"POST /v1/tags HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            half.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body[:9])
            time.sleep(0.2)
            os.killpg(process.pid, signal.SIGTERM)  # to the whole group, as service managers do
            time.sleep(0.4)
            half.sendall(body[9:])
            assert half.recv(65536).startswith(b"HTTP/1.1 200 OK")
        for thread in threads:
            thread.join(60)
        assert answered == [200] * 6
        assert refused == []
        process.wait(30)
        assert process.stderr is not None
        log = process.stderr.read()
        assert log.count("POST /v1/tags 200 ") == 7
        assert "Traceback" not in log
        with pytest.raises(ConnectionRefusedError):
            served.ask("GET", "/healthz")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--host", "0.0.0.0"], "Give a token"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 16"),
        (["--model", "missing.piaa"], "does not exist"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is_loaded(
    model: Path, options: list[str], reason: str
) -> None:
    with command("--model", str(model), *options) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert reason in err
    assert "Traceback" not in err
