"""Fuzz targets: saved recognizers, states of a fit, kept features."""

from __future__ import annotations

from pathlib import Path
from random import Random

import torch
from mutations import mutate_tree
from target import Target

from fake_encoder import CLASSES, SMALL_BANKS, ColorEncoder, features_of, pictures
from piaa import Recognizer
from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.features.store import FeatureStore
from piaa.fitting.gathered import Gathered
from piaa.saving import as_artifact
from piaa.scale.cache import FeatureCache
from piaa.scale.fit_state import load_gathered, save_gathered
from worlds import patch_world


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
