"""What attackers send: each is refused clearly while others are answered."""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import time
import zlib
from collections.abc import Iterator

import pytest
from servers import Answer, Served, png, running, wait_for

from fake_encoder import ColorEncoder, squares
from piaa import Recognizer
from piaa.encoders.base import ImageFeatures
from piaa.serve.limits import MIB, Limits

PHOTO = png(squares(1, ["red"], size=(64, 64)))


def still_answers(served: Served) -> None:
    answer = served.post("/v1/tags", [("a.png", PHOTO)])
    assert answer.status == 200
    assert "tags" in answer.json()["images"][0]


@pytest.fixture(autouse=True)
def _keeps_answering(served: Served) -> Iterator[None]:
    """After every attack."""
    yield
    still_answers(served)


def read(connection: socket.socket) -> Answer:
    """What a server says until it hangs up, or its content is complete."""
    data = b""
    while True:
        head, found, content = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}
        if found and len(content) >= int(headers.get("content-length", 0)):
            return Answer(int(lines[0].split()[1]), headers, content)
        chunk = connection.recv(65536)
        if not chunk:
            raise AssertionError(f"hung up after {data!r}")
        data += chunk


def start(connection: socket.socket, path: str, **headers: object) -> None:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(served: Served) -> None:
    with served.connect() as connection:
        start(
            connection,
            "/v1/tags",
            Content_Type="application/json",
            Content_Length=10**12,
            Expect="100-continue",
        )
        answer = read(connection)
    assert (answer.status, answer.problem) == (413, "too-large")


def test_a_body_that_does_not_say_is_cut_off(served: Served) -> None:
    with served.connect() as connection:
        start(connection, "/v1/tags", Content_Type="application/json", Transfer_Encoding="chunked")
        piece = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
        for _ in range(served.limits.body_bytes // 0x10000 + 1):
            connection.sendall(piece)
        answer = read(connection)
    assert (answer.status, answer.problem) == (413, "too-large")


def test_a_client_that_sends_it_all_the_same_reads_the_refusal(served: Served) -> None:
    answer = served.post("/v1/tags", [("big", b"x" * 3 * MIB)])
    assert (answer.status, answer.problem) == (413, "too-large")


def test_slow_uploads_end_while_others_are_answered(served: Served) -> None:
    slow = [served.connect() for _ in range(10)]
    try:
        for connection in slow:
            boundary = "multipart/form-data; boundary=x"
            start(connection, "/v1/tags", Content_Type=boundary, Content_Length=100_000)
            connection.sendall(b"--x\r\n")
        begin = time.monotonic()
        still_answers(served)
        for _ in range(3):
            time.sleep(0.2)
            for connection in slow:
                connection.sendall(b"C")
        answers = [read(connection) for connection in slow]
        assert {(each.status, each.problem) for each in answers} == {(408, "slow-upload")}
        assert time.monotonic() - begin < 20
    finally:
        for connection in slow:
            connection.close()


def test_slow_heads_end_too(served: Served) -> None:
    with served.connect() as silent, served.connect() as slow:
        slow.sendall(b"POST /v1/tags HT")
        answer = read(slow)
        assert (answer.status, answer.problem) == (408, "slow-upload")
        assert silent.recv(100) == b""


def test_connections_are_bounded(served: Served) -> None:
    held = [served.connect() for _ in range(served.limits.connections)]
    try:
        with served.connect() as one_more:
            answer = read(one_more)
        assert (answer.status, answer.problem) == (503, "too-many-connections")
    finally:
        for connection in held:
            connection.close()
    wait_for(lambda: served.ask("GET", "/healthz").status == 200)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "image/png",
        "application/x-www-form-urlencoded",
        "application/octet-stream",
        "multipart/mixed; boundary=x",
        "",
    ],
)
def test_other_content_types(served: Served, content_type: str) -> None:
    answer = served.ask("POST", "/v1/tags", PHOTO, {"Content-Type": content_type})
    assert (answer.status, answer.problem) == (415, "wrong-content-type")


def part(name: str, *, file: bool, content: bytes = b"") -> bytes:
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"'
    return (head + ('; filename=""' if file else "") + "\r\n\r\n").encode() + content + b"\r\n"


@pytest.mark.parametrize("file", [True, False])
def test_ten_thousand_empty_parts(served: Served, file: bool) -> None:
    body = part("images", file=file) * 10_000 + b"--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = served.ask("POST", "/v1/tags", body, kind)
    assert (answer.status, answer.problem) == (422, "too-many-parts")


def test_too_many_pictures_in_json(served: Served) -> None:
    images = [{"data": ""}] * 9
    assert served.post_json("/v1/tags", {"images": images}).problem == "too-many-parts"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"--x\r\n\r\n\r\n--x--\r\n",  # a part without a name
        part("images", file=True, content=PHOTO),  # no end
        b"--x\r\n" + b"A" * 100_000,
        b"--x\r\n" + b"A: b\r\n" * 1000 + b"\r\n--x--\r\n",
        b"--x\r\nContent-Disposition: " + b"a" * 100_000 + b"\r\n\r\n\r\n--x--\r\n",
        part("threshold", file=False, content=b"\xff\xfe") + b"--x--\r\n",
    ],
)
def test_forms_that_are_none(served: Served, body: bytes) -> None:
    for kind in ("multipart/form-data; boundary=x", "multipart/form-data"):
        answer = served.ask("POST", "/v1/tags", body, {"Content-Type": kind})
        assert (answer.status, answer.problem) == (400, "malformed-body")


def test_a_field_that_never_ends(served: Served) -> None:
    body = part("threshold", file=False, content=b"1" * 300_000) + b"--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert served.ask("POST", "/v1/tags", body, kind).problem == "too-large"


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'"\\ud800"', b"\xff", b"null"])
def test_json_that_is_none(served: Served, body: bytes) -> None:
    answer = served.ask("POST", "/v1/tags", body, {"Content-Type": "application/json"})
    assert answer.status in (400, 422)
    assert answer.problem in ("malformed-body", "invalid")


def test_bombs_and_cut_files_are_refused_one_by_one(served: Served) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 10**6))
    bomb = b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")
    sent = [("bomb", bomb), ("cut", PHOTO[:200]), ("good", PHOTO), ("empty", b"")]
    images = served.post("/v1/tags", sent).json()["images"]
    slugs = [each.get("error", {}).get("type", "").partition("#")[2] for each in images]
    assert slugs == ["too-many-pixels", "not-a-picture", "", "not-a-picture"]


def test_names_are_only_echoed(served: Served) -> None:
    """A path, a header of its own, markup: nothing is opened or interpreted."""
    names = ["/etc/passwd", "../../x.png", "<script>", 'a"; name="threshold', "\u2028é"]
    images = served.post("/v1/tags", [(name, PHOTO) for name in names]).json()["images"]
    assert [each["name"] for each in images][:3] == names[:3]
    assert all("tags" in each for each in images)


def test_garbage_that_is_not_http(served: Served) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n"):
        with served.connect() as connection:
            connection.sendall(sent + b"\r\n\r\n")
            said = connection.recv(1000)
            assert said == b"" or re.match(rb"HTTP/1\.1 4\d\d ", said)


class SlowEncoder(ColorEncoder):
    """Takes half a second a batch."""

    def encode_pixels(self, pixels):  # type: ignore[no-untyped-def]
        time.sleep(0.5)
        features: ImageFeatures = super().encode_pixels(pixels)
        return features


@pytest.fixture(scope="module")
def slow() -> Iterator[Served]:
    limits = Limits(
        queue=6,
        images=6,
        batch=1,
        encoders=1,
        deadline_seconds=2.0,
        decoders=1,
        remembered_bytes=0,
    )
    with running(Recognizer(SlowEncoder(), ["red", "blue"]), limits) as server:
        yield server


def test_a_full_queue_says_when_to_come_back(slow: Served) -> None:
    waiting = []
    for _ in range(2):
        connection = slow.connect()
        image = {"data": base64.b64encode(PHOTO).decode()}
        body = json.dumps({"images": [image] * 3}).encode()
        start(connection, "/v1/tags", Content_Type="application/json", Content_Length=len(body))
        connection.sendall(body)
        waiting.append(connection)
    wait_for(lambda: slow.metric("piaa_queue_images") == 6)
    answer = slow.post("/v1/tags", [("a.png", PHOTO)])
    assert (answer.status, answer.problem) == (429, "busy")
    assert int(answer.headers["retry-after"]) >= 1
    assert slow.ask("GET", "/healthz").status == 200
    # Six pictures take three seconds; nobody waits beyond the deadline.
    answers = [read(connection) for connection in waiting]
    late = [answer.problem for answer in answers if answer.status == 504]
    assert len(late) >= 1
    assert set(late) == {"deadline"}
    assert all(answer.status in (200, 504) for answer in answers)
    wait_for(lambda: slow.metric("piaa_queue_images") == 0)
    still_answers(slow)
