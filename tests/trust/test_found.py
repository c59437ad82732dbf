"""What fuzzing and reading for it found: each of these files once got past the loader's own error."""

from __future__ import annotations

import io
import json
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image
from targets import TARGETS

from piaa import Config
from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.encoders.tensor_files import read_tensors
from piaa.errors import ArtifactError, CheckpointError, ImageError, InputError, PiaaError
from piaa.fitting.fit_report import FitReport
from piaa.images import StoredImage, cost, open_image
from piaa.scale.job import _change
from piaa.scale.sources.base import SourceError
from piaa.scale.sources.parquet import row_groups
from piaa.scale.sources.tar import MOST_NAME_BYTES, TarPart

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")
NESTED = b"[" * 100_000


def refused(name: str, data: bytes, folder: Path) -> str:
    target = TARGETS[name](_made(folder / "seeds"))
    with pytest.raises(PiaaError) as caught:
        target.accepts(data, _made(folder / "work"))
    return str(caught.value)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("label-lists", b"\0/a.jpg cat\n"),
        ("label-lists", b"b.jpg " + b"9" * 5000),
        ("voc-lists", b"../../elsewhere\n"),
        ("voc-annotations", b"<?xml version='1.0' encoding='utf-7'?><annotation/>"),
        ("voc-annotations", b"<?xml version='1.0' encoding='big5'?><annotation/>"),
        ("label-lines", NESTED),
        ("coco-instances", NESTED),
        ("settings-files", b"a = " + NESTED),
        ("settings-files", b"a = " + b"9" * 5000),
        ("job-manifests", NESTED),
        ("unit-results", NESTED + b"\n"),
    ],
)
def test_text_that_breaks_parsers(name: str, data: bytes, tmp_path: Path) -> None:
    assert refused(name, data, tmp_path)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("images", {"id": [1]}),
        ("images", {"id": "1"}),
        ("images", {"file_name": 7}),
        ("images", {"width": 10**400}),
        ("annotations", {"image_id": {}}),
        ("annotations", {"bbox": [0, 0, "9", None]}),
        ("annotations", {"bbox": [0, 0, 10**400, 1]}),
        ("categories", {"id": float("inf")}),
    ],
)
def test_coco_values_of_other_types(part: str, change: dict[str, object], tmp_path: Path) -> None:
    content = json.loads(TARGETS["coco-instances"](tmp_path).seeds[0])
    content[part][0] |= change
    assert "COCO" in refused("coco-instances", json.dumps(content).encode(), tmp_path)


def test_numbers_beyond_all_floats() -> None:
    with pytest.raises(InputError, match="shrinkage must be a finite number"):
        Config(shrinkage=10**400)


@pytest.mark.parametrize(
    ("field", "value"), [("bank", "many"), ("evidence", None), ("name", 3), ("n_images", 1e999)]
)
def test_a_report_of_other_types(field: str, value: object) -> None:
    row = {
        "name": "cat", "bank": 1, "images": 1, "kept": 1, "moved": 0, "text_fallback": False,
        "evidence": 0.5, "presence": 0.5, "learned_weight": 0.5, "prevalence": 0.1, "threshold": 0,
        "group": 0,
    }  # fmt: skip
    values = {"n_images": 3, "classes": [row], "unnamed": None}
    assert "cat" in str(FitReport.from_dict(values))
    of_field = values if field == "n_images" else row
    of_field[field] = value  # type: ignore[index]
    with pytest.raises(InputError, match="no saved fit report"):
        FitReport.from_dict(values)
    del of_field[field]
    with pytest.raises(InputError, match=f"no saved fit report.*{field}"):
        FitReport.from_dict(values)


def test_an_option_that_is_null_or_not_there_can_be_told() -> None:
    assert _change("config", {"config": {"a": None}}, {"config": {}}).startswith("config was")


class TestTar:
    def names(self, path: Path, data: bytes) -> list[str]:
        path.write_bytes(data)
        return [image.name for image in TarPart(str(path)).images()]

    def archive(self, *members: tarfile.TarInfo) -> bytes:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            for member in members:
                archive.addfile(member, io.BytesIO(bytes(member.size)))
        return file.getvalue()

    def member(self, name: str, kind: bytes = tarfile.REGTYPE, size: int = 3) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.type, member.size = kind, size
        return member

    def test_damage_in_the_middle_is_not_the_end(self, tmp_path: Path) -> None:
        """tarfile itself takes a bad header after the first one for the end, and drops what follows."""
        data = bytearray(
            self.archive(self.member("a.jpg"), self.member("b.jpg"), self.member("c.jpg"))
        )
        assert len(self.names(tmp_path / "sound.tar", bytes(data))) == 3
        data[1024 + 150] ^= 1  # the checksum of b.jpg's header
        with pytest.raises(SourceError, match=r"after a\.jpg"):
            self.names(tmp_path / "damaged.tar", bytes(data))
        with pytest.raises(SourceError):
            self.names(tmp_path / "cut.tar", bytes(data[: 1024 + 200]))

    def test_a_header_of_nothing(self, tmp_path: Path) -> None:
        """An extended header whose size is damaged makes tarfile raise what is no TarError."""
        data = bytearray(self.archive(self.member("a.jpg")))
        for kind in (b"x", b"S", b"L"):
            header = self.member("a.jpg", kind, 0).tobuf()
            with pytest.raises(SourceError):
                self.names(tmp_path / "odd.tar", header + b"\xff" * 512 + bytes(data)[:300])

    def test_names_are_bounded(self, tmp_path: Path) -> None:
        huge = self.member("././@LongLink", tarfile.GNUTYPE_LONGNAME, MOST_NAME_BYTES + 1).tobuf()
        with pytest.raises(SourceError, match="a name of"):
            self.names(tmp_path / "huge.tar", huge + bytes(MOST_NAME_BYTES + 2048))

    def test_a_chain_of_names(self, tmp_path: Path) -> None:
        link = self.member("././@LongLink", tarfile.GNUTYPE_LONGNAME, 1).tobuf() + bytes(512)
        with pytest.raises(SourceError):
            self.names(tmp_path / "chain.tar", link * 5000)

    @pytest.mark.parametrize(
        "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
    )
    def test_links_and_devices_are_passed_over(self, kind: bytes, tmp_path: Path) -> None:
        link = self.member("link.jpg", kind, 0)
        link.linkname = "/etc/passwd"
        outside = self.member("../../outside.jpg")
        data = self.archive(link, outside)
        assert self.names(tmp_path / "links.tar", data) == [
            f"{tmp_path}/links.tar/../../outside.jpg"
        ]
        assert [path.name for path in tmp_path.iterdir()] == ["links.tar"]


def test_a_table_of_paths_that_are_no_text(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = pa.array([b"a.jpg", b"\xff.jpg"], pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"path": column}), tmp_path / "table.parquet")
    (part,) = row_groups(str(tmp_path / "table.parquet"), column=None, allow=())
    with pytest.raises(SourceError, match="cannot be read on"):
        list(part.images())


def test_weights_that_unpack_to_more_than_they_are(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(100_000)}, tmp_path / "stored.pt")
    with (
        zipfile.ZipFile(tmp_path / "stored.pt") as stored,
        zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in stored.namelist():
            packed.writestr(name, stored.read(name))
    assert read_tensors(tmp_path / "stored.pt", trust_torchscript=False)["a"].shape == (100_000,)
    with pytest.raises(CheckpointError, match="it is compressed"):
        read_tensors(tmp_path / "packed.pt", trust_torchscript=False)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_long_name_in_weights(zipped: bool, tmp_path: Path) -> None:
    """What torch refuses, its error message is searched for in quadratic time: this took hours."""
    name = "a" * 500_000
    torch.save({"a": _Named(name)}, tmp_path / "w.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match="a name of 500,0"):
        read_tensors(tmp_path / "w.pt", trust_torchscript=False)


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize("what", ["scale", "text"])
def test_a_model_of_numbers_that_overflow(what: str, tmp_path: Path) -> None:
    """Finite in the file, but their products were not, and all scores NaN."""
    target = TARGETS["forged-artifacts"](tmp_path)
    (tmp_path / "model").write_bytes(target.seeds[0])
    sound = load_artifact(tmp_path / "model")
    header, tensors = dict(sound.header), dict(sound.tensors)
    if what == "scale":
        header["scales"] = {**header["scales"], "cls": 1e308}
    else:
        tensors["text"] = tensors["text"].index_fill(1, torch.tensor([1]), 3e38)
    save_artifact(tmp_path / "forged", Artifact(tensors, header))
    with pytest.raises(ArtifactError, match=r"1e\+18"):
        target.accepts((tmp_path / "forged").read_bytes(), _made(tmp_path / "work"))


@pytest.mark.parametrize("length", [2**24, 10**8 - 1, 10**8 + 1, 2**32 - 1, 2**62])
def test_the_length_of_a_header_is_not_believed(length: int, tmp_path: Path) -> None:
    """Refused from the file's own size, before anything of that length is allocated."""
    (tmp_path / "weights").write_bytes(length.to_bytes(8, "little") + b'{"a":{}}')
    with pytest.raises(CheckpointError):
        read_tensors(tmp_path / "weights", trust_torchscript=False)


def _stored(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _opened(data: bytes, **options: int) -> Image.Image:
    return open_image(StoredImage("stranger", lambda: data), **options)


class TestCostlyPictures:
    """What small files can claim: before, 530 bytes took 1.1 s and 1.3 GB, and 190 kB took 15 s."""

    def test_a_progressive_jpeg_that_claims_to_be_huge(self) -> None:
        data = bytearray(_stored(Image.new("RGB", (16, 16)), "JPEG", progressive=True))
        frame = data.find(b"\xff\xc2")
        data[frame + 5 : frame + 9] = (13_000).to_bytes(2, "big") * 2
        begin = time.process_time()
        with pytest.raises(ImageError, match=r"169,000,000 pixels, which cost as much"):
            _opened(bytes(data))
        assert time.process_time() - begin < 0.1

    def test_scans_without_end(self) -> None:
        data = _stored(Image.new("RGB", (1000, 1000)), "JPEG", progressive=True)
        assert _opened(data).size == (1000, 1000)
        last = data[data.rfind(b"\xff\xda") : -2]
        with pytest.raises(ImageError, match="1,000,000 pixels, which cost as much"):
            _opened(data[:-2] + last * 2000 + data[-2:])

    def test_they_are_counted_wherever_a_part_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        picture = Image.radial_gradient("L").convert("RGB")
        data = _stored(picture, "JPEG", progressive=True)
        for part in (1, 7, 2**20):
            monkeypatch.setattr(cost, "_PART", part)
            opened = Image.open(io.BytesIO(data))
            assert cost.pixel_weight(opened) == 1 + data.count(b"\xff\xda") / 8  # type: ignore[arg-type]
            opened.load()  # the place in the file is the old one

    @pytest.mark.parametrize(
        ("mode", "kind", "options", "weight"),
        [
            ("RGB", "JPEG", {}, 1),
            ("RGB", "PNG", {}, 1),
            ("RGB", "WEBP", {}, 3),
            ("RGB", "AVIF", {}, 2),
            ("RGB", "JPEG2000", {}, 6),
            ("CMYK", "JPEG", {}, 3),
            ("RGBA", "PNG", {}, 3),
            ("RGBA", "WEBP", {"lossless": True}, 5),
            ("P", "PNG", {"transparency": 3}, 3),
            ("F", "TIFF", {}, 4),
        ],
    )
    def test_what_a_pixel_counts_for(
        self, mode: str, kind: str, options: dict[str, object], weight: int
    ) -> None:
        data = _stored(Image.new(mode, (20, 30)), kind, **options)
        assert _opened(data, max_pixels=600 * weight).size == (20, 30)
        with pytest.raises(ImageError, match=f"more than the limit of {600 * weight - 1:,}"):
            _opened(data, max_pixels=600 * weight - 1)
