"""What is fuzzed: for each loader sound files, how to damage them, and what must hold of any it accepts."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from mutations import mutate, mutate_tree
from PIL import Image

from fake_encoder import CLASSES, SMALL_BANKS, ColorEncoder, features_of, pictures
from piaa import ClassList, Config, Recognizer
from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.datasets import open_dataset
from piaa.datasets.names import COCO
from piaa.encoders import checkpoints
from piaa.encoders.loading import load_encoder
from piaa.encoders.synthetic import synthetic_checkpoint
from piaa.errors import CheckpointError
from piaa.feature_store import FeatureStore
from piaa.fitting import Gathered
from piaa.images import StoredImage, open_image
from piaa.saving import as_artifact
from piaa.scale.cache import FeatureCache
from piaa.scale.fit_state import load_gathered, save_gathered
from piaa.scale.sources.tar import TarPart
from worlds import patch_world

Accepts = Callable[[bytes, Path], bool]


@dataclass(frozen=True)
class Target:
    """Sound files, and `accepts(data, folder)`: True, or an error; wrong content is an AssertionError."""

    seeds: Sequence[bytes]
    accepts: Accepts
    change: Callable[[bytes, Random], bytes] | None = None

    def mutated(self, rng: Random) -> bytes:
        data = rng.choice(self.seeds)
        if self.change is not None:
            return self.change(data, rng)
        return mutate(data, rng, self.seeds)


def images(_: Path) -> Target:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize((40, 30), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = 6
    written: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (picture, "JPEG", {"exif": exif}),
        (picture, "JPEG", {"progressive": True}),
        (picture.convert("CMYK"), "JPEG", {}),
        (picture, "PNG", {"exif": exif}),
        (picture.convert("P"), "PNG", {"transparency": 3}),
        (picture.convert("RGBA"), "PNG", {}),
        (Image.fromarray(rng.integers(0, 65536, (9, 7), dtype=np.uint16)), "PNG", {}),
        (picture, "WEBP", {"exif": exif}),
        (picture, "WEBP", {"lossless": True}),
        (picture, "GIF", {"save_all": True, "append_images": [picture.rotate(90)]}),
        (picture, "TIFF", {}),
        (picture, "TIFF", {"compression": "tiff_lzw"}),
        (picture, "TIFF", {"compression": "jpeg"}),
        (picture.convert("1"), "TIFF", {"compression": "group4"}),
        (picture, "BMP", {}),
        (picture, "AVIF", {}),
        (picture, "JPEG2000", {}),
        (picture, "PPM", {}),
    ]
    seeds = []
    for image, kind, options in written:
        file = io.BytesIO()
        image.save(file, kind, **options)
        seeds.append(file.getvalue())

    def accepts(data: bytes, folder: Path) -> bool:
        opened = open_image(StoredImage("stranger", lambda: data))
        assert opened.mode == "RGB"
        assert opened.width * opened.height > 0
        return True

    def change(data: bytes, rng: Random) -> bytes:
        changed = mutate(data, rng, seeds)
        return with_right_checksums(changed) if rng.random() < 0.7 else changed

    return Target(seeds, accepts, change)


def with_right_checksums(png: bytes) -> bytes:
    """The chunks of a PNG with checksums that match; else hardly any damage would reach its decoder."""
    made, place = png[:8], 8
    while png.startswith(b"\x89PNG") and place + 12 <= len(png):
        end = place + 8 + int.from_bytes(png[place : place + 4], "big")
        body = png[place + 4 : end]
        made += png[place : place + 4] + body + zlib.crc32(body).to_bytes(4, "big")
        place = end + 4
    return made + png[place:] if png.startswith(b"\x89PNG") else png


def _small_state() -> dict[str, torch.Tensor]:
    state = synthetic_checkpoint(
        width=64, depth=1, patch=8, grid=2, embed_dim=8, text_width=64, text_depth=1
    )
    state["token_embedding.weight"] = state["token_embedding.weight"][:16].clone()
    state["vocab_size"] = torch.tensor(16)
    return state


def _formats(state: dict[str, torch.Tensor], folder: Path) -> list[bytes]:
    """Safetensors, and torch.save's two formats."""
    from safetensors.torch import save

    seeds = [save(state, {"format": "pt"})]
    for zipped in (True, False):
        file = io.BytesIO()
        torch.save(state, file, _use_new_zipfile_serialization=zipped)
        seeds.append(file.getvalue())
    return seeds


def checkpoint_files(folder: Path) -> Target:
    rng = torch.Generator().manual_seed(0)
    state = {f"layer.{i}.weight": torch.randn(5, 4 + i, generator=rng) for i in range(4)}
    state |= {"half": torch.ones(3).half(), "steps": torch.tensor(7), "flags": torch.tensor([True])}
    seeds = _formats(state, folder)
    script = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), script)
    published = {hashlib.sha256(seed).hexdigest() for seed in seeds}

    def accepts(data: bytes, place: Path) -> bool:
        path = place / "weights"
        path.write_bytes(data)
        found = checkpoints.read(path)
        digest = hashlib.sha256(data).hexdigest()
        assert found.sha256 == digest, "the model would be known by another file's hash"
        assert found.tensors, "an empty checkpoint was accepted"
        for expected in sorted(published - {digest})[:1]:
            try:
                checkpoints.read(path, sha256=expected)
            except CheckpointError:
                continue
            raise AssertionError("a file was taken for another one")
        return True

    def change(data: bytes, rng: Random) -> bytes:
        return mutate(data, rng, [*seeds, script.getvalue()])

    return Target(seeds, accepts, change)


def encoders(folder: Path) -> Target:
    seeds = _formats(_small_state(), folder)

    def accepts(data: bytes, place: Path) -> bool:
        (place / "weights").write_bytes(data)
        encoder = load_encoder(weights=place / "weights", frontend="clip")
        assert encoder.spec.weights_sha256 == hashlib.sha256(data).hexdigest()
        return True

    return Target(seeds, accepts)


def weight_indexes(_: Path) -> Target:
    from safetensors.torch import save

    shard = save({"a": torch.ones(2), "b": torch.zeros(3)})
    index = {
        "metadata": {"total_size": 20},
        "weight_map": {"a": "s.safetensors", "b": "s.safetensors"},
    }
    config = {
        "vision_config": {"hidden_act": "gelu", "layers": [1, 2]},
        "model_cfg": {"embed_dim": 8},
    }
    seeds = [json.dumps([index, config]).encode()]

    def accepts(data: bytes, place: Path) -> bool:
        # Two files of a folder as one JSON list; damage that is no list goes into the index.
        try:
            files = [json.dumps(part).encode() for part in json.loads(data)][:2]
        except (ValueError, TypeError, RecursionError):
            files = [data]
        for name, content in zip(
            ("model.safetensors.index.json", "config.json"), files, strict=False
        ):
            (place / name).write_bytes(content)
        (place / "s.safetensors").write_bytes(shard)
        checkpoints.read(place)
        return True

    return Target(seeds, accepts, _tree_or_bytes(seeds))


def _recognizer() -> Recognizer:
    recognizer = Recognizer(ColorEncoder(), CLASSES, config=SMALL_BANKS)
    recognizer.fit(pictures())
    return recognizer


def artifacts(folder: Path) -> Target:
    fitted = _recognizer()
    fitted.save(folder / "fitted")
    plain = Recognizer(ColorEncoder(), CLASSES)
    plain.save(folder / "plain")
    known = {as_artifact(one).digest() for one in (fitted, plain)}

    def accepts(data: bytes, place: Path) -> bool:
        (place / "model").write_bytes(data)
        loaded = Recognizer.load(place / "model", ColorEncoder())
        assert as_artifact(loaded).digest() in known, "a damaged model was loaded as another one"
        return True

    return Target([(folder / name).read_bytes() for name in ("fitted", "plain")], accepts)


def forged_artifacts(folder: Path) -> Target:
    """Files whose hashes are right and whose content is not: a stranger can make those."""
    fitted = _recognizer()
    fitted.save(folder / "fitted")
    features = ColorEncoder().encode_images(pictures(3))

    def accepts(data: bytes, place: Path) -> bool:
        (place / "model").write_bytes(data)
        loaded = Recognizer.load(place / "model", ColorEncoder())
        if loaded.is_fitted:
            str(loaded.report)
        for prediction in loaded.predict(features):
            scores = torch.as_tensor(prediction.scores, dtype=torch.float64)
            assert ((scores >= 0) & (scores <= 1)).all(), scores  # NaN is neither
        return True

    def change(data: bytes, rng: Random) -> bytes:
        (folder / "sound").write_bytes(data)
        sound = load_artifact(folder / "sound")
        tensors, header = dict(sound.tensors), dict(sound.header)
        if rng.random() < 0.7:
            header = mutate_tree(header, rng)
        else:
            _forge_tensor(tensors, rng)
        if not isinstance(header, dict):
            header = {}
        try:
            save_artifact(folder / "forged", Artifact(tensors, header))
        except (ValueError, UnicodeEncodeError):  # NaN, or half a character: cannot be written
            return data
        return (folder / "forged").read_bytes()

    return Target([(folder / "fitted").read_bytes()], accepts, change)


def _forge_tensor(tensors: dict[str, torch.Tensor], rng: Random) -> None:
    name = rng.choice(sorted(tensors))
    tensor = tensors[name].clone()
    match rng.randrange(6):
        case 0:
            del tensors[name]
            return
        case 1:
            tensor = tensor[:-1]
        case 2:
            tensor = tensor.reshape(-1)
        case 3:
            tensor = tensor.double()
        case 4 if tensor.numel():
            extremes = (torch.nan, torch.inf, 3e38, -3e38, 0.0, 1e-45)
            value = rng.choice(extremes) if tensor.is_floating_point() else rng.choice((-1, 2**62))
            tensor.view(-1)[rng.randrange(tensor.numel())] = value
        case _:
            tensors[f"{name}.more"] = tensor
            return
    tensors[name] = tensor


def fit_states(folder: Path) -> Target:
    world = patch_world(0, 20, 6, 8, 4)
    gathered = Gathered(world.text, SMALL_BANKS)
    gathered.add(features_of(world, list(range(20))))
    save_gathered(folder / "state", gathered, {"skipped": [["a", "b"]]})
    known = load_artifact(folder / "state", format="piaa-fit-state").digest()

    def accepts(data: bytes, place: Path) -> bool:
        (place / "state").write_bytes(data)
        found, facts = load_gathered(place / "state")
        save_gathered(place / "again", found, facts)
        again = load_artifact(place / "again", format="piaa-fit-state")
        assert again.digest() == known, "a damaged state was loaded as another one"
        return True

    return Target([(folder / "state").read_bytes()], accepts)


def feature_shards(folder: Path) -> Target:
    encoder = ColorEncoder()
    features = encoder.encode_images(pictures(3))
    store = FeatureStore.create(folder / "store", encoder.spec)
    store.add(features)
    (shard,) = (folder / "store").glob("*.safetensors")
    (sound,) = list(store)

    def accepts(data: bytes, place: Path) -> bool:
        _cached_rows(data, place, encoder)
        store = FeatureStore.create(place / "store", encoder.spec)
        (place / "store" / shard.name).write_bytes(data)
        (found,) = list(store)
        assert torch.equal(found.cls, sound.cls)
        assert torch.equal(found.patches, sound.patches)
        assert (found.grid, found.placements) == (sound.grid, sound.placements)
        return True

    return Target([shard.read_bytes()], accepts)


def _cached_rows(data: bytes, place: Path, encoder: ColorEncoder) -> None:
    """The same bytes as a shard of the cache, which drops what is damaged and goes on."""
    cache = FeatureCache(encoder.spec, place / "cache")
    (cache.folder / "0000.safetensors").write_bytes(data)
    cache.refresh()
    cache.get(bytes(16))


def class_lists(_: Path) -> Target:
    seeds = [
        b"cat\ndog: hound, puppy\n# a comment\n\nsofa: couch\n",
        "\ufeffKatze\r\nHündin\r\n自転車: 二輪車\r\n".encode(),
    ]

    def accepts(data: bytes, place: Path) -> bool:
        (place / "classes.txt").write_bytes(data)
        found = ClassList.of(place / "classes.txt")
        assert ClassList.from_dict(json.loads(json.dumps(found.to_dict()))) == found
        found.prompts("a photo of a {}.")
        return True

    return Target(seeds, accepts)


def configs(_: Path) -> Target:
    forms = [Config.auto(), Config.reference("voc"), Config.paper()]
    seeds = [json.dumps(form.to_dict()).encode() for form in forms]

    def accepts(data: bytes, place: Path) -> bool:
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            return False
        if not isinstance(values, dict):
            return False
        config = Config.from_dict(values)
        assert Config.from_dict(config.to_dict()) == config
        return True

    return Target(seeds, accepts, _tree_or_bytes(seeds))


def settings_files(_: Path) -> Target:
    import typer

    from piaa.cli import app
    from piaa.cli.settings import read_settings

    group: Any = typer.main.get_command(app)
    seeds = [b'encoder = "lite"\n\n[predict]\ntop-k = 3\nthreshold = 0.5\n']

    def accepts(data: bytes, place: Path) -> bool:
        (place / "piaa.toml").write_bytes(data)
        read_settings(group.make_context("piaa", ["doctor"]), place / "piaa.toml")
        return True

    return Target(seeds, accepts)


def tar_sources(folder: Path) -> Target:
    seeds = []
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
            for name in ("a/one.jpg", f"{'long' * 40}/two.png", "notes.txt"):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = 9, 1.5
                archive.addfile(member, io.BytesIO(b"not a jpg"))
            link = tarfile.TarInfo("link.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        seeds.append(file.getvalue())

    def accepts(data: bytes, place: Path) -> bool:
        (place / "shard.tar").write_bytes(data)
        for stored in TarPart(str(place / "shard.tar")).images():
            assert isinstance(stored, StoredImage)
            assert b"root:" not in stored.read()
        return True

    return Target(seeds, accepts)


def _data_set(
    name: str, file: str, beside: dict[str, bytes], seeds: list[bytes], **options: Any
) -> Target:
    def accepts(data: bytes, place: Path) -> bool:
        root = place / "root"
        for path, content in {**beside, file: data}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        found = open_dataset(name, root, partial=True, **options)
        assert set(np.unique(found.labels)) <= {-1, 0, 1}
        shares = np.zeros(1) if found.test.shares is None else found.test.shares
        assert (np.isnan(shares) | ((shares >= 0) & (shares <= 1))).all(), shares
        for path in (*found.learn.paths, *found.test.paths):
            assert ".." not in path.relative_to(root).parts, f"{path} leads out of its folder"
        return True

    tree = seeds[0][:1] in (b"{", b"[")
    return Target(seeds, accepts, _tree_or_bytes(seeds) if tree else None)


def _tree_or_bytes(seeds: Sequence[bytes]) -> Callable[[bytes, Random], bytes]:
    def change(data: bytes, rng: Random) -> bytes:
        if rng.random() < 0.5:
            return mutate(data, rng, seeds)
        lines = data.splitlines()
        place = rng.randrange(len(lines))
        lines[place] = json.dumps(mutate_tree(json.loads(lines[place]), rng)).encode()
        return b"\n".join(lines)

    return change


_XML = (
    b"<annotation><size><width>100</width><height>50</height></size><object><name>cat</name><difficult>0"
    b"</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object></annotation>"
)
_VOC = "VOC2007/"
_VOC_FILES = {
    f"{_VOC}ImageSets/Main/trainval.txt": b"000001\n",
    f"{_VOC}ImageSets/Main/test.txt": b"000002\n000003 1\n",
    f"{_VOC}Annotations/000002.xml": _XML,
    f"{_VOC}Annotations/000003.xml": _XML,
    **{f"{_VOC}JPEGImages/00000{i}.jpg": b"" for i in (1, 2, 3)},
}


def voc_annotations(_: Path) -> Target:
    return _data_set("voc2007", f"{_VOC}Annotations/000002.xml", _VOC_FILES, [_XML])


def voc_lists(_: Path) -> Target:
    return _data_set(
        "voc2007", f"{_VOC}ImageSets/Main/test.txt", _VOC_FILES, [b"000002\n000003 1\n"]
    )


def coco_instances(_: Path) -> Target:
    content = {
        "images": [{"id": i, "file_name": f"{i}.jpg", "width": 20, "height": 10} for i in (1, 2)],
        "annotations": [
            {"id": 5, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 0,
             "segmentation": [[1, 2, 3, 4]]},
            {"id": 6, "image_id": 2, "category_id": 4, "bbox": [1, 2, 3, 4], "iscrowd": 1,
             "segmentation": {"counts": [1, 2], "size": [3, 4]}},
        ],
        "categories": [{"id": 1 + i, "name": name} for i, name in enumerate(COCO)],
    }  # fmt: skip
    seed = json.dumps(content).encode()
    beside = {
        "annotations/instances_train2017.json": seed,
        **{f"{split}/{i}.jpg": b"" for split in ("train2017", "val2017") for i in (1, 2)},
    }
    return _data_set("coco2017", "annotations/instances_val2017.json", beside, [seed])


def label_lists(_: Path) -> Target:
    beside = {
        "classes.txt": b"cat\ndining table\n",
        "learn.txt": b"a.jpg\n",
        **{f"images/{name}": b"" for name in ("a.jpg", "b.jpg", "c/d.png")},
    }
    seeds = [b"b.jpg 0 dining_table\nc/d.png cat\n", b"a 1\n"]
    return _data_set("lists", "test.txt", beside, seeds)


def label_tables(_: Path) -> Target:
    beside = {"a.jpg": b"", "b/c.png": b""}
    return _data_set("folder", "labels.csv", beside, [
        b"image,labels,split\na.jpg,cat;dog,test\nb/c.png,,learn\n", b'image,labels\n"a.jpg","cat"\n',
    ])  # fmt: skip


def label_lines(_: Path) -> Target:
    lines = [{"image": "a.jpg", "labels": ["cat", "dog"]}, {"image": "b/c.png", "labels": ["cat"]}]
    seed = "\n".join(map(json.dumps, lines)).encode()
    return _data_set("folder", "labels.jsonl", {"a.jpg": b"", "b/c.png": b""}, [seed])


def job_manifests(folder: Path) -> Target:
    from piaa.scale.job import open_job
    from piaa.scale.sources.files import FilePart
    from piaa.scale.units import cut

    (folder / "a.jpg").write_bytes(b"x")
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    units = cut([FilePart(str(folder / "a.jpg"))])
    options = {"command": "fit", "top_k": None, "config": Config().to_dict()}
    with open_job(folder / "job", units, options, recognizer):
        pass
    inputs = (folder / "job" / "inputs.jsonl").read_bytes()
    seeds = [(folder / "job" / "manifest.json").read_bytes().replace(b"\n", b"")]

    def accepts(data: bytes, place: Path) -> bool:
        (place / "manifest.json").write_bytes(data)
        (place / "inputs.jsonl").write_bytes(inputs)
        with open_job(place, units, options, recognizer):
            pass
        return True

    return Target(seeds, accepts, _tree_or_bytes(seeds))


def unit_results(folder: Path) -> Target:
    from piaa.scale.predict import _read, _write

    lines = [
        json.dumps({"source": "a.jpg", "size": [3, 4], "tags": [["cat", 0.5]]}).encode() + b"\n"
    ]
    _write(folder / "unit", lines, {"skipped": []})
    _, sound = _read(folder / "unit")

    def accepts(data: bytes, place: Path) -> bool:
        (place / "unit").write_bytes(data)
        assert _read(place / "unit")[1] == sound, "damaged predictions were taken for sound ones"
        return True

    return Target([(folder / "unit").read_bytes()], accepts)


TARGETS: dict[str, Callable[[Path], Target]] = {
    "images": images,
    "checkpoint-files": checkpoint_files,
    "encoders": encoders,
    "weight-indexes": weight_indexes,
    "artifacts": artifacts,
    "forged-artifacts": forged_artifacts,
    "fit-states": fit_states,
    "feature-shards": feature_shards,
    "class-lists": class_lists,
    "voc-annotations": voc_annotations,
    "voc-lists": voc_lists,
    "coco-instances": coco_instances,
    "label-lists": label_lists,
    "label-tables": label_tables,
    "label-lines": label_lines,
    "configs": configs,
    "settings-files": settings_files,
    "job-manifests": job_manifests,
    "unit-results": unit_results,
    "tar-sources": tar_sources,
}
