"""The service under a steady mix of good, bad and huge requests: lost and wrong answers, memory, p99.

    python benchmarks/serve_soak.py [--seconds 120] [--count 20000] [--rate 12] [--photos FOLDER]

Ends after --seconds or --count requests, whichever comes first. Requests start at fixed times whether
or not earlier ones are answered, so that a slow server shows in the latency. Every answer is compared:
scores with those the recognizer gives when it is asked alone, refusals with the problem they must have.
Memory is that of the server and all its decoders; it is flat if the mean over the last quarter of the
run is within 5 % of that over the second quarter. Exits with 1 if an answer is lost or wrong, or the
memory is not flat.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from piaa.client import _form
from serve import CLASSES, FILES, percentile, server

WARM_UP = 0.25
FLAT = 0.05
# Fewer than there are files: features are remembered and forgotten all the time.
REMEMBERED_BYTES = 8 * 2**20
WORDS = ["tree", "street", "animal", "food"]


@dataclass(frozen=True)
class Case:
    """A request, and what is wrong with an answer to it ("" if nothing)."""

    kind: str
    path: str
    content_type: str
    body: bytes
    fault: Callable[[int, bytes], str]


@dataclass
class Tally:
    """What became of the requests."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def total(self) -> int:
        return sum(map(len, self.seconds.values())) + self.lost.total()


def make_cases(files: list[bytes], expected: list[dict[str, float]]) -> list[tuple[Case, int]]:
    """Cases, each with how often it comes."""
    good = [
        Case(
            "good",
            "/v1/tags",
            *_form("images", [("a.jpg", data)], [("threshold", "0")]),
            same(want),
        )
        for data, want in zip(files, expected, strict=True)
    ]
    several = Case(
        "good, several",
        "/v1/tags",
        *_form("images", [("a.jpg", data) for data in files[:4]], [("threshold", "0")]),
        same(*expected[:4]),
    )
    words = Case(
        "good, own words",
        "/v1/classes",
        *_form("images", [("a.jpg", files[0])], [("classes", "\n".join(WORDS))]),
        lambda status, _: "" if status == 200 else f"status {status}",
    )
    picture = Case(
        "good, heatmap",
        "/v1/heatmap",
        *_form("image", [("a.jpg", files[1])], [("class", CLASSES[0])]),
        lambda status, body: "" if status == 200 and body.startswith(b"\x89PNG") else f"{status}",
    )
    cut = _form("images", [("cut.jpg", files[0][: len(files[0]) // 2])], [])
    bomb = _form("images", [("bomb.png", make_bomb(50_000))], [])
    large = _form("images", [("large.png", make_bomb(5_000, real=True))], [])
    huge = _form("images", [("huge", b"x" * (65 * 2**20))], [])
    return [
        *((case, 1) for case in good),
        (several, 4),
        (words, 6),
        (picture, 6),
        (Case("bad, cut short", "/v1/tags", *cut, image_problem("not-a-picture")), 8),
        (
            Case(
                "bad, claims 50,000 x 50,000", "/v1/tags", *bomb, image_problem("too-many-pixels")
            ),
            6,
        ),
        (Case("bad, type", "/v1/tags", "text/plain", b"hello", problem("wrong-content-type")), 6),
        (Case("bad, JSON", "/v1/tags", "application/json", b"{", problem("malformed-body")), 6),
        (Case("huge, 25 million pixels", "/v1/tags", *large, image_problem("")), 1),
        (Case("huge, 65 MB", "/v1/tags", *huge, problem("too-large")), 1),
    ]


def same(*expected: dict[str, float]) -> Callable[[int, bytes], str]:
    def fault(status: int, body: bytes) -> str:
        if status != 200:
            return f"status {status}: {body[:200]!r}"
        images = json.loads(body)["images"]
        found = [{tag["name"]: tag["score"] for tag in image.get("tags", ())} for image in images]
        return "" if found == list(expected) else "other scores"

    return fault


def image_problem(slug: str) -> Callable[[int, bytes], str]:
    def fault(status: int, body: bytes) -> str:
        if status != 200:
            return f"status {status}: {body[:200]!r}"
        (image,) = json.loads(body)["images"]
        found = image.get("error", {}).get("type", "").partition("#")[2]
        return "" if found == slug else f"{found!r} in place of {slug!r}"

    return fault


def problem(slug: str) -> Callable[[int, bytes], str]:
    def fault(status: int, body: bytes) -> str:
        found = json.loads(body).get("type", "").partition("#")[2] if status >= 400 else status
        return "" if found == slug else f"{found!r} in place of {slug!r}"

    return fault


def make_bomb(side: int, *, real: bool = False) -> bytes:
    """A small PNG file of side x side pixels, which are all there if it is `real`."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    packer = zlib.compressobj(9)
    rows = side if real else 1
    body = b"".join(packer.compress(bytes(1 + 3 * side)) for _ in range(rows)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def send(port: int, case: Case, due: float, tally: Tally) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", case.path, case.body, {"Content-Type": case.content_type})
        response = connection.getresponse()
        body = response.read()
        fault = case.fault(response.status, body)
    except (OSError, HTTPException) as error:
        with tally.lock:
            tally.lost[f"{case.kind}: {error!r}"] += 1
        return
    finally:
        connection.close()
    with tally.lock:
        tally.seconds.setdefault(case.kind, []).append(time.perf_counter() - due)
        if fault:
            tally.wrong[f"{case.kind}: {fault}"] += 1


def tree_bytes(root: int) -> int:
    """Memory of a process and all below it: proportional, so that what they share counts once."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    total, todo = 0, [root]
    while todo:
        process = todo.pop()
        todo += children.get(process, [])
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def soak(
    process: int, port: int, cases: list[tuple[Case, int]], options: argparse.Namespace
) -> bool:
    tally = Tally()
    chosen = random.Random(0)
    kinds, weights = zip(*cases, strict=True)
    memory: list[tuple[float, int]] = []
    start = time.perf_counter()
    sent = 0
    next_look = 0.0
    with ThreadPoolExecutor(64) as threads:
        while sent < options.count and (now := time.perf_counter() - start) < options.seconds:
            due = sent / options.rate
            if now < due:
                time.sleep(min(due - now, 0.05))
                continue
            (case,) = chosen.choices(kinds, weights)
            threads.submit(send, port, case, start + due, tally)
            sent += 1
            if now >= next_look:
                memory.append((now, tree_bytes(process)))
                next_look = now + options.seconds / 200
    memory.append((time.perf_counter() - start, tree_bytes(process)))
    return report(tally, memory, sent)


def report(tally: Tally, memory: list[tuple[float, int]], sent: int) -> bool:
    print(f"{'requests':28} {'count':>6} {'p50 ms':>8} {'p99 ms':>8}")
    for kind, seconds in sorted(tally.seconds.items()):
        low, high = 1e3 * percentile(seconds, 0.5), 1e3 * percentile(seconds, 0.99)
        print(f"{kind:28} {len(seconds):6} {low:8.0f} {high:8.0f}")
    every = [each for kind, some in tally.seconds.items() if "good" in kind for each in some]
    print(
        f"sent {sent}, answered {tally.total - tally.lost.total()}, p99 of good ones "
        f"{1e3 * percentile(every, 0.99):.0f} ms"
    )
    for title, counted in (("lost", tally.lost), ("wrong", tally.wrong)):
        print(f"{title}: {counted.total()}")
        for reason, count in counted.most_common(5):
            print(f"  {count} x {reason}")
    end = memory[-1][0]
    early = [size for at, size in memory if WARM_UP * end <= at < 2 * WARM_UP * end]
    late = [size for at, size in memory if at >= 3 * WARM_UP * end]
    change = (sum(late) / len(late)) / (sum(early) / len(early)) - 1
    peak = max(size for _, size in memory)
    print(
        f"memory: {sum(early) / len(early) / 2**20:.0f} MB in the second quarter, "
        f"{sum(late) / len(late) / 2**20:.0f} MB in the last ({100 * change:+.1f} %), "
        f"peak {peak / 2**20:.0f} MB"
    )
    answered_all = sent == tally.total
    return answered_all and not tally.lost and not tally.wrong and abs(change) <= FLAT


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=12.0, help="requests a second")
    parser.add_argument("--photos", type=Path)
    options = parser.parse_args()

    from lite import make_photos
    from piaa import Recognizer, load_encoder

    from machine import describe

    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        if options.photos:
            paths = sorted(options.photos.glob("*.jpg"))[:FILES]
        else:
            paths = make_photos(Path(folder), FILES)
        alone = Recognizer(load_encoder("lite"), CLASSES)
        predictions = [alone.predict([path], heatmaps=False)[0] for path in paths]
        expected = [dict(zip(CLASSES, p.scores.tolist(), strict=True)) for p in predictions]
        cases = make_cases([path.read_bytes() for path in paths], expected)
    del alone, predictions
    with server(remembered_bytes=REMEMBERED_BYTES) as (process, port):
        passed = soak(process, port, cases, options)
    print("passed" if passed else "FAILED")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
