"""`piaa predict` against what the library says of the same pictures."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from cli_samples import Interrupt, Run
from PIL import Image

from fake_encoder import CLASSES, ColorEncoder
from piaa import Recognizer
from piaa.cli import predict as predict_module
from piaa.images import list_images
from piaa.scale.job import Job

pytestmark = pytest.mark.usefixtures("colors")


def expected(photos: Path, **options: object) -> dict[str, list[tuple[str, float]]]:
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    files = list_images(photos)
    predictions = recognizer.predict(files, **options)
    return {str(f): p.tags for f, p in zip(files, predictions, strict=True)}


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def tags_of(text: str) -> dict[str, list[tuple[str, float]]]:
    return {
        line["file"]: [(tag["name"], tag["score"]) for tag in line["tags"]] for line in lines(text)
    }


class TestFormats:
    def test_jsonl_says_what_the_library_says(self, run: Run, photos: Path, classes: Path) -> None:
        found = tags_of(run("predict", photos, "--classes", classes, "--json").stdout)
        wanted = expected(photos)
        assert list(found) == list(wanted)
        for file, tags in wanted.items():
            assert [name for name, _ in found[file]] == [name for name, _ in tags]
            np.testing.assert_allclose(
                [score for _, score in found[file]], [score for _, score in tags], atol=5e-5
            )
        assert any(len(tags) == 2 for tags in found.values())

    def test_size_is_of_the_upright_picture(
        self, run: Run, own_folder: Path, classes: Path
    ) -> None:
        image = Image.new("RGB", (40, 90), "red")
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save("lying.jpg", exif=exif)
        (line,) = lines(run("predict", "lying.jpg", "-c", classes, "--json").stdout)
        assert (line["width"], line["height"]) == (90, 40)

    def test_csv_has_a_row_a_tag(self, run: Run, photos: Path, classes: Path) -> None:
        Image.new("RGB", (64, 64), "gray").save(photos / "plain.png")
        arguments = ("predict", photos, "-c", classes, "--threshold", "0.9")
        found = tags_of(run(*arguments, "--format", "jsonl").stdout)
        rows = list(csv.DictReader(io.StringIO(run(*arguments, "--format", "csv").stdout)))
        wanted = [
            {"file": file, "class": name, "score": str(score) if name else ""}
            for file, tags in found.items()
            for name, score in tags or [("", 0.0)]
        ]
        assert rows == wanted
        assert "" in [row["class"] for row in rows], "a picture without tags must be there"

    def test_coco(self, run: Run, photos: Path, classes: Path) -> None:
        found = tags_of(run("predict", photos, "-c", classes, "--json").stdout)
        run("predict", photos, "-c", classes, "--out", "coco.json")
        coco = json.loads(Path("coco.json").read_text())
        names = {category["id"]: category["name"] for category in coco["categories"]}
        assert list(names.values()) == CLASSES
        files = {image["id"]: image["file_name"] for image in coco["images"]}
        assert list(files.values()) == list(found)
        again: dict[str, list[tuple[str, float]]] = {file: [] for file in found}
        for annotation in coco["annotations"]:
            assert annotation["bbox"] == [0, 0, 64, 64]
            tag = (names[annotation["category_id"]], annotation["score"])
            again[files[annotation["image_id"]]].append(tag)
        assert again == found

    def test_table_has_a_line_a_picture(self, run: Run, photos: Path, classes: Path) -> None:
        out = run("predict", photos, "-c", classes, "--top-k", "1").stdout.splitlines()
        assert len(out) == 12
        same = run("predict", photos, "-c", classes, "--top-k", "1", "--out", "-").stdout
        assert same.splitlines() == out
        assert out[0].split()[:2] == ["photos/00.png", "red"]
        assert out[-1].split()[:2] == ["photos/trip/11.png", "green"]

    def test_the_suffix_chooses_the_format(self, run: Run, photos: Path, classes: Path) -> None:
        for name, start in (("a.csv", "file,class"), ("a.jsonl", '{"file"'), ("a.txt", "photos/")):
            run("predict", photos, "-c", classes, "-o", name)
            assert Path(name).read_text().startswith(start)
        error = run("predict", photos, "-c", classes, "-o", "a.xml", code=2).stderr
        assert "does not tell its format" in error
        assert "cannot go with" in run(
            "predict", photos, "-c", classes, "--json", "--format", "csv", code=2
        ).stderr  # fmt: skip


class TestOptions:
    def test_a_model_needs_no_classes(self, run: Run, photos: Path, saved_colors: Path) -> None:
        found = tags_of(run("predict", photos, "--model", saved_colors, "--json").stdout)
        recognizer = Recognizer.load(saved_colors, ColorEncoder())
        wanted = recognizer.predict(list_images(photos))
        assert [[name for name, _ in tags] for tags in found.values()] == [
            [name for name, _ in p.tags] for p in wanted
        ]

    def test_threshold_0_gives_every_class(self, run: Run, photos: Path, classes: Path) -> None:
        found = tags_of(run("predict", photos, "-c", classes, "--threshold", 0, "--json").stdout)
        assert all({name for name, _ in tags} == set(CLASSES) for tags in found.values())

    @pytest.mark.parametrize(
        "wrong", [["--threshold", "1.5"], ["--top-k", "0"], ["--tiles", "0"], ["--format", "xml"]]
    )
    def test_values_out_of_range(
        self, run: Run, photos: Path, classes: Path, wrong: list[str]
    ) -> None:
        assert wrong[0] in run("predict", photos, "-c", classes, *wrong, code=2).stderr

    def test_options_reach_the_encoder(
        self, run: Run, photos: Path, classes: Path, colors: list[dict[str, object]]
    ) -> None:
        run("predict", photos, "-c", classes, "-e", "ViT-B-16", "--frontend", "sclip", "--tiles", 2)
        assert colors[-1] == {
            "name": "ViT-B-16", "weights": None, "frontend": "sclip", "device": None,
            "precision": "float32",
        }  # fmt: skip
        given = ("--weights", "x.safetensors", "--device", "cpu", "--precision", "int8")
        run("predict", photos, "-c", classes, *given)
        assert colors[-1] == {
            "name": None, "weights": "x.safetensors", "frontend": None, "device": "cpu",
            "precision": "int8",
        }  # fmt: skip

    def test_heatmaps_show_where(self, run: Run, photos: Path, classes: Path) -> None:
        out = run("predict", photos, "-c", classes, "--heatmaps", "maps", "--json").stdout
        listed = [tag["heatmap"] for line in lines(out) for tag in line["tags"]]
        written = sorted(str(path) for path in Path("maps").rglob("*.jpg"))
        assert sorted(listed) == written
        assert "maps/00.png.red.jpg" in written
        assert "maps/trip/10.png.red.jpg" in written
        # A square of the color is light (yellow is the hot end), the dark rest is violet.
        pixels = np.asarray(Image.open("photos/00.png").convert("RGB")).astype(int)
        heat = np.asarray(Image.open("maps/00.png.red.jpg").convert("RGB")).astype(int)
        red = pixels[..., 0] - pixels[..., 2] > 150
        assert heat[red].sum(1).mean() > 1.5 * heat[~red].sum(1).mean()


class TestBadFiles:
    def test_are_skipped_counted_and_listed(
        self, run: Run, photos: Path, classes: Path, bad: dict[str, str]
    ) -> None:
        result = run("predict", photos, "-c", classes, "--json", code=1)
        assert len(lines(result.stdout)) == 12
        assert f"{len(bad)} skipped:" in result.stderr
        for name, reason in bad.items():
            (line,) = [line for line in result.stderr.splitlines() if f"  photos/{name}:" in line]
            assert reason in line
        assert [line["file"] for line in lines(result.stdout)] == [
            str(p) for p in list_images(photos) if p.name[:2].isdigit()
        ]

    def test_every_bad_one_is_fatal_with_strict(
        self, run: Run, photos: Path, classes: Path, bad: dict[str, str]
    ) -> None:
        for name in bad:
            if name == "loop":
                continue
            path = Path(os_name(name))
            result = run("predict", Path("photos") / path, "-c", classes, "--strict", code=2)
            assert result.stdout == ""
            assert "--strict" in result.stderr

    def test_tags_stay_with_their_pictures(
        self, run: Run, photos: Path, classes: Path, bad: dict[str, str]
    ) -> None:
        wanted = tags_of_good(photos)
        out = run("predict", photos, "-c", classes, "--json", "--batch-size", 3, code=1).stdout
        found = {file: [name for name, _ in tags] for file, tags in tags_of(out).items()}
        assert found == wanted

    def test_only_bad_ones(self, run: Run, own_folder: Path, classes: Path) -> None:
        Path("empty.jpg").touch()
        result = run("predict", "empty.jpg", "-c", classes, "--out", "a.csv", code=1)
        assert "1 skipped" in result.stderr
        assert Path("a.csv").read_text() == "file,class,score\n"

    def test_a_file_that_may_not_be_read(
        self, run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = Path.open

        def deny(path: Path, *args: object, **options: object) -> object:
            if path.name == "03.png":
                raise PermissionError(13, "Permission denied", str(path))
            return opened(path, *args, **options)  # type: ignore[call-overload]

        monkeypatch.setattr(Path, "open", deny)
        result = run("predict", photos, "-c", classes, code=1)
        assert "photos/03.png: permission was denied" in result.stderr
        assert len(result.stdout.splitlines()) == 11


class TestOutput:
    def test_one_that_exists_is_an_error_before_any_work(
        self, run: Run, photos: Path, classes: Path, colors: list[dict[str, object]]
    ) -> None:
        Path("tags.csv").write_text("mine")
        error = run("predict", photos, "-c", classes, "-o", "tags.csv", code=2).stderr
        assert "exists" in error
        assert Path("tags.csv").read_text() == "mine"
        Path("maps").mkdir()
        Path("maps/mine.txt").touch()
        error = run("predict", photos, "-c", classes, "--heatmaps", "maps", code=2).stderr
        assert "not empty" in error
        assert colors == [], "an encoder was loaded first"
        run("predict", photos, "-c", classes, "-o", "tags.csv", "--heatmaps", "maps", "--force")
        assert Path("tags.csv").read_text().startswith("file,class,score\n")
        assert Path("maps/mine.txt").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nowhere", "-c", "classes.txt"], "no file or folder 'nowhere'"),
            (["*.xyz", "-c", "classes.txt"], "No file matches '*.xyz'"),
            (["empty", "-c", "classes.txt"], "holds no picture"),
            (["photos", "-c", "none.txt"], "none.txt"),
            (["photos", "-c", "blank.txt"], "no class"),
            (["photos", "-c", "twice.txt"], "is there twice"),
            (["photos", "--model", "none.piaa"], "'none.piaa' does not exist"),
            (["photos"], "--model FILE (made by piaa fit) or --classes FILE"),
            (["photos", "-c", "classes.txt", "-e", "ViT-B-61"], "Did you mean"),
            (["photos", "-c", "classes.txt", "--frontend", "scclip"], "'sc-clip'"),
            (["photos", "-c", "classes.txt", "-o", "empty", "-f", "csv"], "is a folder"),
            (["photos", "-c", "classes.txt", "-o", "classes.txt/a.csv"], "cannot be written"),
        ],
    )
    def test_errors_before_any_work(
        self,
        run: Run,
        photos: Path,
        classes: Path,
        colors: list[dict[str, object]],
        arguments: list[str],
        message: str,
    ) -> None:
        Path("empty").mkdir()
        Path("blank.txt").write_text("# nothing\n\n")
        Path("twice.txt").write_text("cat\ndog\nCat\n")
        result = run("predict", *arguments, code=2)
        assert message in result.stderr.replace("\n", " ")
        assert result.stderr.startswith("piaa: ")
        assert result.stdout == ""
        assert colors == [], "an encoder was loaded first"

    def test_nothing_is_left_of_a_run_that_failed(
        self, run: Run, photos: Path, classes: Path, own_folder: Path
    ) -> None:
        (photos / "zz.png").write_bytes(b"no picture")
        before = sorted(own_folder.iterdir())
        run("predict", photos, "-c", classes, "-o", "tags.csv", "--strict", code=2)
        assert sorted(own_folder.iterdir()) == before

    def test_lines_come_while_later_pictures_are_still_to_be_read(
        self, run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[int] = []
        make_writer = predict_module.make_writer

        def watch(*args: object, **options: object) -> object:
            writer = make_writer(*args, **options)  # type: ignore[arg-type]
            add = writer.add

            def noting(prediction: object, heatmaps: object) -> None:
                add(prediction, heatmaps)  # type: ignore[arg-type]
                seen.append(len(batches))

            writer.add = noting  # type: ignore[method-assign,assignment]
            return writer

        batches: list[int] = []
        encode = ColorEncoder.encode_pixels

        def count(self: ColorEncoder, pixels: object) -> object:
            batches.append(1)
            return encode(self, pixels)  # type: ignore[arg-type]

        monkeypatch.setattr(ColorEncoder, "encode_pixels", count)
        monkeypatch.setattr(predict_module, "make_writer", watch)
        run("predict", photos, "-c", classes, "--batch-size", 3, "--json")
        assert seen == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]

    def test_ctrl_c(
        self, run: Run, photos: Path, classes: Path, interrupt_at: Interrupt, own_folder: Path
    ) -> None:
        before = sorted(own_folder.iterdir())
        with interrupt_at(1):
            result = run("predict", photos, "-c", classes, "-o", "tags.csv", code=130)
        assert "interrupted" in result.stderr
        assert sorted(own_folder.iterdir()) == before


class TestUnits:
    """With --out, in units of work."""

    @pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json", "a.txt"])
    def test_a_file_is_what_standard_output_says(
        self, run: Run, photos: Path, saved_colors: Path, name: str
    ) -> None:
        arguments = ("predict", photos, "--model", saved_colors, "--top-k", 2)
        run(*arguments, "--out", name, "--unit-size", 5)
        formats = {"jsonl": "jsonl", "csv": "csv", "json": "coco", "txt": "table"}
        streamed = run(*arguments, "--format", formats[name.split(".")[1]]).stdout
        assert Path(name).read_text() == streamed

    @pytest.mark.parametrize("batch", [1, 2, 3, 4])
    def test_interrupted_and_run_again(
        self, run: Run, photos: Path, classes: Path, interrupt_at: Interrupt, batch: int
    ) -> None:
        (photos / "00.jpg").write_bytes(
            b""
        )  # of the first unit, skipped by the run that is interrupted
        arguments = ("predict", photos, "-c", classes, "--unit-size", 4, "--out", "tags.jsonl")
        run(*arguments, code=1)
        whole = Path("tags.jsonl").read_bytes()
        assert len(whole.splitlines()) == 12
        Path("tags.jsonl").unlink()
        with interrupt_at(batch):
            result = run(*arguments, code=130)
        assert not Path("tags.jsonl").exists()
        if batch > 1:
            said = f"{batch - 1} of 4 units of work are done and kept in tags.jsonl.unfinished"
            assert said in result.stderr
            refused = run(*arguments, "--threshold", "0.7", code=2).stderr
            assert "threshold was 0.5 and is now 0.7" in refused
        result = run(*arguments, code=1)
        assert Path("tags.jsonl").read_bytes() == whole
        assert "photos/00.jpg" in result.stderr
        assert not Path("tags.jsonl.unfinished").exists()
        if batch > 1:
            assert f"({4 * (batch - 1) - 1} by runs before)" in result.stderr

    def test_killed_after_writing(
        self, run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_: Job) -> None:
            raise KeyboardInterrupt

        arguments = ("predict", photos, "-c", classes, "--out", "tags.csv")
        with monkeypatch.context() as patch:
            patch.setattr(Job, "remove", interrupt)
            run(*arguments, code=130)
        written = Path("tags.csv").read_bytes()
        run(*arguments)
        assert Path("tags.csv").read_bytes() == written
        assert "exists" in run(*arguments, code=2).stderr

    def test_shards_and_lists(self, run: Run, photos: Path, classes: Path) -> None:
        files = list_images(photos)
        with tarfile.open("shard.tar", "w") as archive:
            for path in files[:8]:
                archive.add(path, path.name)
        Path("rest.txt").write_text("\n".join(map(str, files[8:])))
        run("predict", "shard.tar", "rest.txt", "-c", classes, "--out", "tags.jsonl")
        found = tags_of(Path("tags.jsonl").read_text())
        wanted = tags_of(run("predict", photos, "-c", classes, "--json").stdout)
        assert list(found.values()) == list(wanted.values())
        assert [Path(name).name for name in found] == [path.name for path in files]
        run("predict", "shard.tar", "-c", classes, "--out", "tags.txt")
        assert len(Path("tags.txt").read_text().splitlines()) == 8

    def test_log_json(self, run: Run, photos: Path, classes: Path) -> None:
        arguments = ("predict", photos, "-c", classes, "--out", "tags.csv")
        result = run(*arguments, "--log-json", "--unit-size", 6)
        events = [json.loads(line) for line in result.stderr.splitlines()]
        assert [event["event"] for event in events] == ["unit", "unit", "done"]
        assert events[-1]["images"] == 12
        assert events[-1]["stages"].keys() == {"encode", "score", "save"}

    def test_features_are_kept(
        self, run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep = ("--keep-features", "float16")
        run("predict", photos, "-c", classes, "--out", "a.csv", *keep)

        def refuse(*_: object) -> None:
            raise AssertionError("encoded again")

        monkeypatch.setattr(ColorEncoder, "encode_pixels", refuse)
        result = run("predict", photos, "-c", classes, "--out", "b.csv", *keep)
        assert Path("b.csv").read_bytes() == Path("a.csv").read_bytes()
        assert "12 were kept from before" in result.stderr
        streamed = run("predict", photos, "-c", classes, "--format", "csv", *keep).stdout
        assert streamed == Path("a.csv").read_text()

    def test_flags_of_units_need_a_file(
        self, run: Run, photos: Path, classes: Path, colors: list[dict[str, object]]
    ) -> None:
        for flag in (["--processes", "2"], ["--unit-size", "4"], ["--restart"], ["--log-json"]):
            error = run("predict", photos, "-c", classes, *flag, code=2).stderr
            assert flag[0] in error
            assert "--out FILE" in error
        assert colors == []
        run("predict", photos, "-c", classes, env={"PIAA_PREDICT_UNIT_SIZE": "4"})


def os_name(name: str) -> str:
    r"""The name of a file as the system has it, from the name with \xNN that is shown."""
    return name.encode("latin1").decode("unicode_escape").encode("latin1").decode(
        "utf-8", "surrogateescape"
    )  # fmt: skip


def tags_of_good(photos: Path) -> dict[str, list[str]]:
    files = [p for p in list_images(photos) if p.name[:2].isdigit()]
    predictions = Recognizer(ColorEncoder(), CLASSES).predict(files)
    return {str(f): [name for name, _ in p.tags] for f, p in zip(files, predictions, strict=True)}
