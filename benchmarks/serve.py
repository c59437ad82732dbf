"""The service on loopback: photographs a second with many clients against one by one, and the ratio.

    python benchmarks/serve.py [--clients 16] [--seconds 8] [--rounds 3] [--photos FOLDER]

A server process with the embedded encoder tags JPEG files, one a request; nothing is remembered between
requests. Rounds of one client and of many take turns, so that a slow moment hits both alike. Every
answer is compared with the one that the recognizer gives when it is asked alone. Without --photos,
files of 500 x 375 pixels are made.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from piaa.client import _form

CLASSES = [
    "person",
    "dog",
    "cat",
    "horse",
    "car",
    "bus",
    "bicycle",
    "boat",
    "train",
    "bird",
    "sofa",
]
FILES = 64


@contextmanager
def server(**limits: int) -> Iterator[tuple[int, int]]:
    """Process number and port of a server in a process of its own."""
    command = [sys.executable, __file__, "--serve"]
    for name, value in limits.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            wait_until_ready(port)
            yield process.pid, port
        finally:
            process.terminate()
            process.wait(60)


def run_server(**limits_of_it: int) -> None:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `piaa serve` does
    from piaa import Recognizer, load_encoder
    from piaa.serve.app import create_app
    from piaa.serve.limits import Limits
    from piaa.serve.running import listen, serve

    limits = Limits(**limits_of_it)
    with listen("127.0.0.1", 0) as listening:
        app = create_app(Recognizer(load_encoder("lite"), CLASSES), limits=limits)
        print(listening.getsockname()[1], flush=True)
        serve(app, listening, limits)


def wait_until_ready(port: int, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"The server was not ready after {seconds:g} s.")


def get(port: int, path: str) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    return connection.getresponse().read().decode()


class Load:
    """Clients that send one photograph after the other until the time is over."""

    def __init__(self, port: int, files: list[bytes], expected: list[dict[str, float]]) -> None:
        self._port, self._expected = port, expected
        self._bodies = [_form("images", [("x.jpg", data)], [("threshold", "0")]) for data in files]
        self.worst = 0.0

    def run(self, clients: int, seconds: float) -> tuple[float, list[float]]:
        """Photographs a second, and the seconds that each took."""
        took: list[float] = []
        failures: list[str] = []
        start = time.perf_counter()
        end = start + seconds

        def client(number: int) -> None:
            connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
            index = number
            while time.perf_counter() < end:
                sent = time.perf_counter()
                kind, body = self._bodies[index % len(self._bodies)]
                connection.request("POST", "/v1/tags", body, {"Content-Type": kind})
                response = connection.getresponse()
                content = response.read()
                if response.status != 200:
                    failures.append(f"{response.status} {content[:200]!r}")
                    return
                took.append(time.perf_counter() - sent)
                self._check(index % len(self._bodies), content)
                index += clients

        threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise SystemExit(f"{len(failures)} requests failed: {failures[0]}")
        return len(took) / (time.perf_counter() - start), took

    def _check(self, index: int, content: bytes) -> None:
        tags = {tag["name"]: tag["score"] for tag in json.loads(content)["images"][0]["tags"]}
        expected = self._expected[index]
        self.worst = max(self.worst, *(abs(tags[name] - expected[name]) for name in expected))


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=4, help="most pictures encoded together")
    parser.add_argument("--encoders", type=int, default=2, help="batches encoded at once")
    parser.add_argument("--remembered-bytes", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        run_server(
            batch=options.batch,
            encoders=options.encoders,
            remembered_bytes=options.remembered_bytes,
        )
        return

    from lite import make_photos
    from piaa import Recognizer, load_encoder

    from machine import describe

    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        if options.photos:
            paths = sorted(options.photos.glob("*.jpg"))[:FILES]
        else:
            paths = make_photos(Path(folder), FILES)
        files = [path.read_bytes() for path in paths]
        alone = Recognizer(load_encoder("lite"), CLASSES)
        expected = [
            dict(
                zip(CLASSES, alone.predict([path], heatmaps=False)[0].scores.tolist(), strict=True)
            )
            for path in paths
        ]
    del alone
    with server(batch=options.batch, encoders=options.encoders) as (_, port):
        load = Load(port, files, expected)
        load.run(options.clients, 2.0)
        ratios = []
        for number in range(options.rounds):
            one, each = load.run(1, options.seconds)
            many, together = load.run(options.clients, options.seconds)
            ratios.append(many / one)
            print(
                f"round {number + 1}: one by one {one:5.1f}/s (median {1e3 * percentile(each, 0.5):.0f} ms), "
                f"{options.clients} clients {many:5.1f}/s (p50 {1e3 * percentile(together, 0.5):.0f} ms, "
                f"p99 {1e3 * percentile(together, 0.99):.0f} ms), ratio {many / one:.2f}"
            )
        text = get(port, "/metrics")
    found = re.search(r"piaa_batch_size_sum (\S+)\npiaa_batch_size_count (\S+)", text)
    assert found is not None
    print(f"mean batch over all rounds {float(found[1]) / float(found[2]):.1f}")
    print(f"ratio {sorted(ratios)[len(ratios) // 2]:.2f} (median of {len(ratios)})")
    print(f"largest difference to the answers computed alone {load.worst:.1e}")


if __name__ == "__main__":
    main()
