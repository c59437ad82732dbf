"""Sources other than files: archives, tables, lists, and stores behind URLs."""

from __future__ import annotations

import io
import os
import pickle
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_encoder import ColorEncoder, pictures
from piaa.errors import ImageError, InputError, UnknownNameError
from piaa.images import ImageSource, StoredImage, open_image
from piaa.images.opening import source_name
from piaa.scale.sources import FilePart, Part, SourceError, find_parts, is_store
from piaa.scale.sources import tar as tar_module
from piaa.scale.units import cut

fsspec = pytest.importorskip("fsspec")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    pictures(number + 1)[number].save(buffer, "PNG")
    return buffer.getvalue()


PICTURES = [png(number) for number in range(4)]


def images(parts: list[Part]) -> list[ImageSource]:
    return [image for part in parts for image in part.images()]


def names(parts: list[Part]) -> list[str]:
    return [str(source_name(image)) for image in images(parts)]


def check_pixels(found: list[ImageSource], expected: list[bytes] = PICTURES) -> None:
    assert len(found) == len(expected)
    for image, data in zip(found, expected, strict=True):
        assert (
            open_image(image).tobytes() == open_image(StoredImage("", lambda d=data: d)).tobytes()
        )


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


class TestTar:
    MEMBERS = {  # noqa: RUF012
        "000.png": PICTURES[0],
        "000.json": b'{"label": 3}',
        "a/001.PNG": PICTURES[1],
        "a/._001.png": b"what a Mac leaves",
        "b.c/002.x.png": PICTURES[2],
        "b.c/002.cls": b"7",
        "003.png": PICTURES[3],
    }

    @pytest.mark.parametrize(
        ("suffix", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tgz", "w:gz"), ("tar.xz", "w:xz")]
    )
    def test_pictures_among_other_files(self, tmp_path: Path, suffix: str, mode: str) -> None:
        path = make_tar(tmp_path / f"shard.{suffix}", self.MEMBERS, mode)
        parts = find_parts([path])
        assert is_store(str(path))
        assert [part.count for part in parts] == [None]
        members = ("000.png", "a/001.PNG", "b.c/002.x.png", "003.png")
        assert names(parts) == [f"{path}/{member}" for member in members]
        check_pixels(images(parts))
        assert sorted(tmp_path.iterdir()) == [path]  # nothing was unpacked
        features = ColorEncoder().encode_images(images(parts))
        assert len(features) == 4

    def test_only_plain_files(self, tmp_path: Path) -> None:
        """Links may point anywhere, devices never end."""
        secret = tmp_path / "secret.png"
        secret.write_bytes(PICTURES[0])
        path = tmp_path / "evil.tar"
        with tarfile.open(path, "w") as archive:
            for name, kind in (("link.png", tarfile.SYMTYPE), ("hard.png", tarfile.LNKTYPE),
                               ("zero.png", tarfile.CHRTYPE), ("pipe.png", tarfile.FIFOTYPE),
                               ("folder.png", tarfile.DIRTYPE)):  # fmt: skip
                info = tarfile.TarInfo(name)
                info.type, info.linkname = kind, str(secret)
                archive.addfile(info)
            info = tarfile.TarInfo("../../outside.png")
            info.size = len(PICTURES[1])
            archive.addfile(info, io.BytesIO(PICTURES[1]))
        check_pixels(images(find_parts([path])), [PICTURES[1]])
        assert not (tmp_path.parent.parent / "outside.png").exists()

    def test_too_large(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tar_module, "MOST_BYTES", len(PICTURES[0]) - 1)
        members = {"big.png": PICTURES[0], "small.png": b"x"}
        big, small = images(find_parts([make_tar(tmp_path / "a.tar", members)]))
        with pytest.raises(ImageError, match="more than the limit"):
            open_image(big)
        with pytest.raises(ImageError, match="not a picture"):
            open_image(small)

    def test_broken_archives(self, tmp_path: Path) -> None:
        whole = make_tar(tmp_path / "a.tar", self.MEMBERS).read_bytes()
        cut_short = tmp_path / "cut.tar"
        end = whole.index(PICTURES[2]) + len(PICTURES[2]) // 2
        cut_short.write_bytes(whole[:end])
        found = []
        with pytest.raises(SourceError, match=r"cut\.tar.* after a/001\.PNG"):
            found.extend(iter(find_parts([cut_short])[0].images()))
        (tmp_path / "no.tar").write_bytes(b"no archive at all" * 100)
        with pytest.raises(SourceError, match="its start"):
            names(find_parts([tmp_path / "no.tar"]))
        # A unit goes on with the next archive.
        told: list[tuple[str, str]] = []
        units = cut(find_parts([cut_short, tmp_path / "a.tar"]))
        seen = [i for unit in units for i in unit.images(lambda *what: told.append(what))]
        assert len(seen) == 2 + 4
        assert [name for name, _ in told] == [str(cut_short)]


class TestParquet:
    def table(self, path: Path, columns: dict[str, object], rows: int | None = None) -> Path:
        pq.write_table(pa.table(columns), path, row_group_size=rows or 10)
        return path

    def test_bytes(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "a.parquet", {"id": [1, 2, 3, 4], "image": PICTURES}, 3)
        parts = find_parts([path])
        assert [part.count for part in parts] == [3, 1]
        assert [part.name for part in parts] == [f"{path}#0-2", f"{path}#3-3"]
        assert names(parts) == [f"{path}#{row}" for row in range(4)]
        check_pixels(images(parts))

    def test_as_the_datasets_library_has_it(self, tmp_path: Path) -> None:
        (tmp_path / "1.png").write_bytes(PICTURES[1])
        rows = [
            {"bytes": PICTURES[0], "path": "0.png"},
            {"bytes": None, "path": "1.png"},
            {"bytes": None, "path": None},
            None,
        ]
        parts = find_parts([self.table(tmp_path / "a.parquet", {"label": [0] * 4, "img": rows})])
        found = images(parts)
        check_pixels(found[:2], PICTURES[:2])
        for missing in found[2:]:
            with pytest.raises(ImageError, match="the row holds no picture"):
                open_image(missing)

    def test_paths(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "0.png").write_bytes(PICTURES[0])
        absolute = tmp_path / "1.png"
        absolute.write_bytes(PICTURES[1])
        paths = ["deep/0.png", str(absolute), "s3://bucket/2.png", "gone.png"]
        path = self.table(tmp_path / "a.parquet", {"file_name": paths, "caption": ["x"] * 4})
        found = images(find_parts([path]))
        check_pixels(found[:2], PICTURES[:2])
        with pytest.raises(ImageError, match="--allow s3"):
            open_image(found[2])
        with pytest.raises(ImageError, match="no such file"):
            open_image(found[3])

    def test_a_remote_table_names_no_local_files(self, tmp_path: Path) -> None:
        store = fsspec.filesystem("memory")
        (tmp_path / "0.png").write_bytes(PICTURES[0])
        local = self.table(
            tmp_path / "a.parquet",
            {"path": [str(tmp_path / "0.png"), f"file://{tmp_path}/0.png", "../x.png", "b/1.png"]},
        )
        store.pipe("/tables/a.parquet", local.read_bytes())
        store.pipe("/tables/b/1.png", PICTURES[1])
        found = images(find_parts(["memory://tables/a.parquet"]))
        for image in found[:3]:
            with pytest.raises(ImageError, match="leads out of the table"):
                open_image(image)
        check_pixels(found[3:], PICTURES[1:2])

    def test_columns(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "a.parquet", {"x": PICTURES, "n": [1, 2, 3, 4]})
        check_pixels(images(find_parts([path])))  # the only one of bytes
        two = self.table(tmp_path / "b.parquet", {"x": PICTURES, "y": PICTURES})
        with pytest.raises(InputError, match=r"x \(binary\), y \(binary\).*--column"):
            find_parts([two])
        check_pixels(images(find_parts([two], column="y")))
        with pytest.raises(InputError, match="no column 'n' of picture bytes"):
            find_parts([path], column="n")
        (tmp_path / "c.parquet").write_bytes(b"PAR1 not really")
        with pytest.raises(InputError, match="no Parquet table"):
            find_parts([tmp_path / "c.parquet"])


class TestLists:
    def test_all_kinds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "0.png").write_bytes(PICTURES[0])
        make_tar(tmp_path / "a.tar", {"1.png": PICTURES[1]})
        (tmp_path / "odd name").write_bytes(PICTURES[2])
        lines = ["photos", "", "a.tar", "photos/0.png", "odd name", "gone.jpg"]
        (tmp_path / "list.txt").write_text("\n".join(lines))
        parts = find_parts(["list.txt"])
        assert [part.name for part in parts] == ["photos/0.png", "a.tar", "odd name", "gone.jpg"]
        check_pixels(images(parts[:3]), PICTURES[:3])
        assert parts[3].fingerprint() == "unreadable"

    def test_refusals(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for name, content, message in (
            ("empty.txt", "\n", "is empty"),
            ("inner.txt", "list.txt", "no file or folder"),
            ("url.txt", "https://example.com/a.jpg", "--allow https"),
        ):
            (tmp_path / name).write_text(content)
            with pytest.raises(InputError, match=message):
                find_parts([name])
        (tmp_path / "outer.txt").write_text("url.txt")
        with pytest.raises(InputError, match="a list in a list"):
            find_parts(["outer.txt"])
        (tmp_path / "latin.txt").write_bytes(b"caf\xe9.jpg")
        with pytest.raises(InputError, match="UTF-8"):
            find_parts(["latin.txt"])
        with pytest.raises(InputError, match="no file or folder 'nowhere'"):
            find_parts(["nowhere"])
        with pytest.raises(InputError, match="no sources"):
            find_parts([])


class TestUrls:
    def test_memory(self, tmp_path: Path) -> None:
        store = fsspec.filesystem("memory")
        for number in range(2):
            store.pipe(f"/mem/photos/{number}.png", PICTURES[number])
        store.pipe("/mem/photos/notes.md", b"#")
        store.pipe("/mem/shard.tar", make_tar(tmp_path / "a", {"2.png": PICTURES[2]}).read_bytes())
        parts = find_parts(["memory://mem/photos", "memory://mem/*.tar"])
        assert [part.name for part in parts] == [
            f"memory:///mem/{name}" for name in ("photos/0.png", "photos/1.png", "shard.tar")
        ]
        check_pixels(images(parts), PICTURES[:3])
        before = parts[0].fingerprint()
        assert before == find_parts(["memory://mem/photos/0.png"])[0].fingerprint()
        store.pipe("/mem/photos/0.png", PICTURES[3])
        assert parts[0].fingerprint() != before
        with pytest.raises(InputError, match="leads to no picture"):
            find_parts(["memory://mem/nothing"])
        with pytest.raises(ImageError, match=r"gone\.png"):
            open_image(images(find_parts(["memory://mem/gone.png"]))[0])

    @pytest.mark.parametrize("url", ["s3://b/a.png", "https://example.com/a.png", "GS://b/x"])
    def test_nothing_is_fetched_unasked(self, url: str) -> None:
        with pytest.raises(InputError, match=r"has to be allowed by name"):
            find_parts([url])

    def test_local(self, tmp_path: Path) -> None:
        for number in range(2):
            (tmp_path / f"{number}.png").write_bytes(PICTURES[number])
        make_tar(tmp_path / "a.tar", {"2.png": PICTURES[2]})
        parts = find_parts([f"file://{tmp_path}/*.png", f"file://{tmp_path}/a.tar"])
        assert parts[1].name == f"file://{tmp_path}/1.png"
        check_pixels(images(parts), PICTURES[:3])
        assert parts[0].fingerprint() != parts[1].fingerprint()

    @pytest.mark.parametrize("url", ["ssh://host/a.png", "github://a/b.png", "zip://a/x.png"])
    def test_kinds_that_are_never_read(self, url: str) -> None:
        with pytest.raises(UnknownNameError, match="kind of URL"):
            find_parts([url], allow=[url.partition(":")[0]])
        with pytest.raises(UnknownNameError):
            find_parts(["s3://a/b.png::file:///x"], allow=["s3"])

    def test_parts_go_to_other_processes(self, tmp_path: Path) -> None:
        path = make_tar(tmp_path / "a.tar", {"1.png": PICTURES[1]})
        for part in [*find_parts([path]), FilePart("memory://mem/x.png")]:
            assert pickle.loads(pickle.dumps(part)) == part


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """An S3 stand-in on this machine; its bucket."""
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = (
        "from moto.server import main; import sys; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", script, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"},
    )
    url = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "x")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", url)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"{url}/moto-api/", timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield url
        finally:
            server.terminate()
            server.wait()
            fsspec.filesystem("s3").clear_instance_cache()


def test_s3(bucket: str, tmp_path: Path) -> None:
    store = fsspec.filesystem("s3")
    store.mkdir("photos")
    for number in range(2):
        store.pipe(f"photos/trip/{number}.png", PICTURES[number])
    tar = make_tar(tmp_path / "a.tar", {"2.png": PICTURES[2]})
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"image": PICTURES[3:]}), table)
    store.pipe("photos/a.tar", tar.read_bytes())
    store.pipe("photos/t.parquet", table.read_bytes())
    parts = find_parts(
        ["s3://photos/trip", "s3://photos/*.tar", "s3://photos/t.parquet"], allow=["s3"]
    )
    assert parts[0].name == "s3://photos/trip/0.png"
    check_pixels(images(parts))
    before = [part.fingerprint() for part in parts]
    assert [part.fingerprint() for part in parts] == before
    store.invalidate_cache()  # asked one by one, and not from a listing
    assert [part.fingerprint() for part in parts] == before
    store.pipe("photos/trip/0.png", PICTURES[3])
    store.invalidate_cache()
    assert [a == b for a, b in zip(before, (p.fingerprint() for p in parts), strict=True)] == [
        False,
        True,
        True,
        True,
    ]
    store.rm("photos/trip/1.png")
    with pytest.raises(ImageError, match=r"s3://photos/trip/1\.png"):
        open_image(images(parts[1:2])[0])
    # Whatever a client raises is an error of that picture, not of the job.
    with pytest.raises(InputError, match="cannot be listed"):
        find_parts(["s3://no-such-bucket/x"], allow=["s3"])
