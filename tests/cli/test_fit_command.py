"""`piaa fit`: a model from a folder, from shards, interrupted, and with bad files."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from cli_samples import Interrupt, Run

from fake_encoder import CLASSES, ColorEncoder
from piaa import Config, Recognizer
from piaa.artifact import load_artifact
from piaa.classes.others import NAMES
from piaa.scale.job import Job

pytestmark = pytest.mark.usefixtures("colors")
OUT = Path("pets.piaa")


def fit(run: Run, *more: str | Path, **options: object) -> object:
    return run("fit", "photos", "--classes", "classes.txt", "--out", OUT, *more, **options)


def test_a_model(run: Run, photos: Path, classes: Path) -> None:
    result = fit(run)
    expected = Recognizer(ColorEncoder(), CLASSES)
    expected.partial_fit(photos)
    expected.save("expected.piaa")
    assert OUT.read_bytes() == Path("expected.piaa").read_bytes()
    assert sorted(map(str, Path().iterdir())) == [
        "classes.txt",
        "expected.piaa",
        "pets.piaa",
        "photos",
    ]
    lines = result.stdout.splitlines()
    columns = ["class", "evidence", "presence", "images", "kept", "share", "threshold"]
    assert lines[0].split() == columns
    assert [line.split()[0] for line in lines[2:5]] == CLASSES
    assert "Saved pets.piaa." in result.stdout
    assert f"About {expected.report.unnamed:.0%} of the pictures seem to show none" in result.stdout
    assert "3 classes, colors on cpu, 12 pictures" in result.stderr
    assert "by stage: encode" in result.stderr


def test_json_and_options(
    run: Run, photos: Path, classes: Path, colors: list[dict[str, object]]
) -> None:
    result = fit(
        run, "--json", "--preset", "voc", "--tiles", 2, "--encoder", "ViT-B-16", "--device", "cpu"
    )
    told = json.loads(result.stdout)
    assert told["model"] == "pets.piaa"
    assert told["report"]["n_images"] == 12
    assert [row["name"] for row in told["report"]["classes"]] == CLASSES
    assert told["run"]["images"] == 12
    assert told["run"]["stages"].keys() == {"encode", "learn", "save"}
    model = Recognizer.load(OUT, Recognizer(ColorEncoder(), CLASSES, tiles=2).encoder)
    assert model.config == Config.reference("voc")
    assert (colors[0]["name"], colors[0]["device"]) == ("ViT-B-16", "cpu")


def test_other_names(run: Run, photos: Path, classes: Path) -> None:
    Path("others.txt").write_text("yellow\nwhite: pale\n")
    for given, names in (("others.txt", ("yellow", "white")), ("none", ()), ("auto", None)):
        fit(run, "--others", given, "--force")
        header = load_artifact(OUT).header
        if names is None:
            assert set(header["others"]) <= set(NAMES)
            assert header["others"]
        else:
            assert tuple(header["others"]) == names
    Path("others.txt").write_text("Red\n")
    result = fit(run, "--others", "others.txt", "--force", code=2)
    assert "'Red', which is a class" in result.stderr
    assert "nowhere.txt" in fit(run, "--others", "nowhere.txt", "--force", code=2).stderr


def test_bad_files(run: Run, photos: Path, classes: Path, bad: dict[str, str]) -> None:
    result = fit(run, "--json", code=1)
    told = json.loads(result.stdout)
    assert told["report"]["n_images"] == 12
    assert len(told["skipped"]) == len(bad)
    for name, reason in bad.items():
        assert any(name in line and reason in line for line in result.stderr.splitlines()), name
    OUT.unlink()
    strict = fit(run, "--strict", code=2)
    assert "Without --strict it would be skipped" in strict.stderr
    assert not OUT.exists()


def test_errors_before_any_work(
    run: Run, photos: Path, classes: Path, colors: list[dict[str, object]]
) -> None:
    (Path("empty.txt")).write_text("# nothing\n")
    (Path("twice.txt")).write_text("cat\nCat\n")
    OUT.touch()
    for arguments, message in (
        (["photos", "-c", classes, "-o", OUT], "'pets.piaa' exists"),
        (["photos", "-c", "empty.txt", "-o", "x"], "There is no class"),
        (["photos", "-c", "twice.txt", "-o", "x"], "is there twice"),
        (["nowhere", "-c", classes, "-o", "x"], "no file or folder 'nowhere'"),
        (["photos", "-o", "x"], "Give --classes FILE"),
        (["s3://b/x", "-c", classes, "-o", "x"], "--allow s3"),
        (["photos", "-c", classes, "-o", "x", "-e", "ViT-B-17"], "Did you mean"),
    ):
        assert message in run("fit", *arguments, code=2).stderr
    assert colors == []
    assert not Path("x.unfinished").exists()


def test_interrupted(run: Run, photos: Path, classes: Path, interrupt_at: Interrupt) -> None:
    (photos / "00.jpg").write_bytes(b"")  # skipped by the run that is interrupted
    fit(run, "--unit-size", 4, code=1)
    expected = OUT.read_bytes()
    OUT.unlink()
    with interrupt_at(3):
        result = fit(run, "--unit-size", 4, code=130)
    assert "2 of 4 units of work are done and kept in pets.piaa.unfinished" in result.stderr
    assert "Run the same command again to go on" in result.stderr
    assert not OUT.exists()
    # Other options are refused, with what to do.
    refused = fit(run, code=2)
    assert "--unit-size" in refused.stderr
    assert "--restart" in refused.stderr
    result = fit(run, "--unit-size", 4, "--json", code=1)
    assert OUT.read_bytes() == expected
    told = json.loads(result.stdout)
    assert told["run"]["earlier"] == 7
    assert [Path(item["file"]).name for item in told["skipped"]] == ["00.jpg"]
    assert "(7 by runs before)" in result.stderr


def test_killed_after_saving(
    run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output exists, but because of this very command."""

    def interrupt(_: Job) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Job, "remove", interrupt)
        fit(run, code=130)
    expected = OUT.read_bytes()
    fit(run)
    assert OUT.read_bytes() == expected
    assert "exists" in fit(run, code=2).stderr
    fit(run, "--force")


def test_restart(run: Run, photos: Path, classes: Path, interrupt_at: Interrupt) -> None:
    with interrupt_at(2):
        fit(run, "--unit-size", 4, code=130)
    Path("classes.txt").write_text("red\nyellow\n")
    assert "classes names was" in fit(run, "--unit-size", 4, code=2).stderr
    fit(run, "--unit-size", 4, "--restart")


def test_interrupted_before_a_unit_was_done(
    run: Run, photos: Path, classes: Path, interrupt_at: Interrupt
) -> None:
    with interrupt_at(1):
        result = fit(run, code=130)
    assert "kept" not in result.stderr
    assert sorted(map(str, Path().iterdir())) == ["classes.txt", "photos"]


def test_shards_and_tables(run: Run, photos: Path, classes: Path) -> None:
    files = sorted(photos.rglob("*.png"))
    with tarfile.open("shard.tar", "w") as archive:
        for path in files[:8]:
            archive.add(path, path.name)
    Path("rest.txt").write_text("\n".join(map(str, files[8:])))
    for number, shard in enumerate(("shard.tar", "s*.tar")):
        result = run("fit", shard, "rest.txt", "-c", classes, "-o", f"{number}.piaa", "--json")
        assert json.loads(result.stdout)["report"]["n_images"] == 12


def test_log_json(run: Run, photos: Path, classes: Path) -> None:
    (photos / "bad.jpg").touch()
    result = fit(run, "--log-json", "--unit-size", 5, code=1)
    lines = result.stderr.splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    # The second unit's result is written while the third is read.
    assert sorted(event["event"] for event in events) == ["done", "skip", "unit", "unit", "unit"]
    assert [event["event"] for event in events][-2:] == ["unit", "done"]
    (skip,) = (event for event in events if event["event"] == "skip")
    assert skip["file"].endswith("bad.jpg")
    assert events[-1]["images"] == 12
    assert events[-1]["skipped"] == 1
    assert events[-1]["stages"]["encode"]["images_per_second"] > 0
    assert not [line for line in lines if "images/s" in line]


def test_features_are_kept(
    run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = []
    encode = ColorEncoder.encode_pixels

    def count(self: ColorEncoder, pixels: list[object]) -> object:
        encoded.append(len(pixels))
        return encode(self, pixels)

    monkeypatch.setattr(ColorEncoder, "encode_pixels", count)
    fit(run, "--keep-features", "float16")
    first = OUT.read_bytes()
    assert sum(encoded) == 12
    result = fit(run, "--keep-features", "float16", "--force")
    assert sum(encoded) == 12
    assert "12 were kept from before" in result.stderr
    assert OUT.read_bytes() == first
    Path("classes.txt").write_text("red\nyellow\n")
    fit(run, "--keep-features", "float16", "--force", "--preset", "coco")
    assert sum(encoded) == 12
    fit(run, "--keep-features", "int8", "--force")
    assert sum(encoded) == 24
    caches = json.loads(run("cache", "info", "--json").stdout)["caches"]
    assert sorted((c["encoder"]["storage"], c["images"]) for c in caches) == [
        ("float16", 12),
        ("int8", 12),
    ]


class TestCache:
    def test_nothing_yet(self, run: Run) -> None:
        assert run("cache", "info").stdout.startswith("0 B in ")
        assert run("cache", "verify").stdout == "0 shards, 0 damaged\n"
        assert "Removed 0 shards" in run("cache", "prune", "--most", "1G").stdout

    def test_info_verify_prune(self, run: Run, photos: Path, classes: Path, tmp_path: Path) -> None:
        fit(run, "--keep-features", "int8")
        result = run("cache", "info")
        assert "colors" in result.stdout
        assert " 12 " in result.stdout
        assert "1 shards, 0 damaged" in run("cache", "verify").stdout
        (shard,) = (tmp_path / "cache" / "features").glob("*/*.safetensors")
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        result = run("cache", "verify", "--json", code=1)
        (damaged,) = json.loads(result.stdout)["damaged"]
        assert damaged["file"] == str(shard)
        assert "checksum" in damaged["problem"]
        assert "(removed)" in run("cache", "verify", "--remove", code=1).stdout
        assert not shard.exists()
        fit(run, "--keep-features", "int8", "--force")
        assert "0 B left" in run("cache", "prune", "--most", "0").stdout

    def test_arguments(self, run: Run) -> None:
        assert "Say what to keep" in run("cache", "prune", code=2).stderr
        assert "is no size" in run("cache", "prune", "--most", "lots", code=2).stderr
