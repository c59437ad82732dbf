"""A Ray cluster gives the bits of one process, though actors and machines die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from shaky_encoder import OtherThreads, ShakyEncoder, save_pictures, shaky_recognizer

import piaa
from fake_encoder import pictures
from piaa import Recognizer
from piaa.cli.choosing import Choice
from piaa.cli.jobs import EngineName, KeepFeatures, make_engine
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import InputError, PiaaError
from piaa.fitting import Gathered
from piaa.scale import ray_crew
from piaa.scale.fit import FitWork, fit_units, merge_results, unfinished
from piaa.scale.fit_state import load_gathered, save_gathered
from piaa.scale.job import MANIFEST, Job
from piaa.scale.local import Here
from piaa.scale.predict import Tagged, predict_units
from piaa.scale.ray_crew import Actor
from piaa.scale.ray_engine import FAN_IN, RayCluster, actor_share
from piaa.scale.sources import find_parts
from piaa.scale.units import Unit, cut
from piaa.scale.watching import Tally

# Before ray is imported: nothing here listens on more than the loopback address, or reports to anybody.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'piaa[ray]')")
pytestmark = pytest.mark.filterwarnings(
    "ignore::piaa.recognizer.EvidenceWarning", "ignore:.*:FutureWarning", "ignore::ResourceWarning"
)

N, BATCH = 42, 2
UNITS, UNIT_SIZE = 8, 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """Two nodes of two CPUs each, in processes of their own."""
    from ray.cluster_utils import Cluster

    folders = [str(path) for path in (Path(__file__).parent, Path(__file__).parents[1])]
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join(folders))  # of this module, for actors
    node = {"num_cpus": 2, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.second = cluster.add_node(**node)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    patch.undo()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    save_pictures(tmp_path / "photos", N)
    (tmp_path / "photos" / "zzz.jpg").write_bytes(b"no picture")
    return tmp_path / "photos"


def units_of(photos: Path) -> list[Unit]:
    return cut(find_parts([photos]), UNIT_SIZE)


def fit(photos: Path, name: str, engine: object, watch: Tally | None = None) -> bytes:
    out, units = photos.parent / name, units_of(photos)
    watch = watch or Tally(N, len(units))
    fit_units(shaky_recognizer(), units, out, watch=watch, engine=engine, batch_size=BATCH)
    assert not unfinished(out).exists()
    return out.read_bytes()


class SlowEncoder(ShakyEncoder):
    """Slow enough to be found at work; and it leaves its process id in a folder."""

    def __init__(self, folder: Path, *, seconds: float = 0.1) -> None:
        super().__init__()
        self.seconds, self.pids = seconds, folder
        self.node = ray.get_runtime_context().get_node_id()

    def encode_pixels(self, pixels: torch.Tensor) -> ImageFeatures:
        (self.pids / f"pid-{os.getpid()}").write_text(self.node)
        time.sleep(self.seconds)
        return super().encode_pixels(pixels)


class Avenger(Tally):
    """Does something once in the middle: as soon as it can be done, which `act` tells."""

    def __init__(self, act: Callable[[], bool]) -> None:
        super().__init__(N + 1, UNITS)
        self._act, self.acted = act, False

    def advance(self, images: int) -> None:
        super().advance(images)
        self.acted = self.acted or self._act()


class TestLosses:
    """What was told and what comes of it is as if nothing had happened."""

    def check(self, photos: Path, engine: RayCluster, act: Callable[[], bool]) -> None:
        watch = Avenger(act)
        assert fit(photos, "ray", engine, watch) == fit(photos, "here", Here())
        assert watch.acted
        assert (watch.images, watch.finished) == (N, UNITS)
        assert [Path(name).name for name, _ in watch.skipped] == ["zzz.jpg"]
        assert list(watch.stages) == ["encode", "learn", "save"]
        assert not ray.is_initialized()

    def test_an_actor(self, cluster, photos: Path, tmp_path: Path) -> None:
        """The only one, so that another has to take its place."""
        engine = RayCluster(partial(SlowEncoder, tmp_path), address=cluster.address, actors=1)

        def kill() -> bool:
            (pid,) = tmp_path.glob("pid-*")
            os.kill(int(pid.name.removeprefix("pid-")), signal.SIGKILL)
            return True

        self.check(photos, engine, kill)
        assert len(list(tmp_path.glob("pid-*"))) == 2

    def test_a_machine(self, cluster, photos: Path, tmp_path: Path) -> None:
        """The other one has no room for another actor, and does the rest with the one it has."""
        make = partial(SlowEncoder, tmp_path, seconds=0.3)
        engine = RayCluster(make, address=cluster.address)

        def lose() -> bool:
            both = len({pid.read_text() for pid in tmp_path.glob("pid-*")}) == 2
            if both:
                cluster.remove_node(cluster.second, allow_graceful=False)
            return both

        self.check(photos, engine, lose)


def test_predictions(cluster, photos: Path, tmp_path: Path) -> None:
    fit(photos, "model", Here())
    found: list[list[Tagged]] = []
    for engine in (Here(), RayCluster(ShakyEncoder, address=cluster.address)):
        recognizer = Recognizer.load(tmp_path / "model", ShakyEncoder())
        watch = Tally(N + 1, UNITS)
        units = cut(find_parts([photos]), 16)
        with predict_units(
            recognizer, units, tmp_path / "job", watch=watch, engine=engine, batch_size=4
        ) as predictions:
            found.append(list(predictions))
        assert (watch.images, len(watch.skipped)) == (N, 1)
    assert len(found[0]) == N
    assert found[0] == found[1]


def dying() -> Encoder:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Deadly(ShakyEncoder):
    def encode_pixels(self, pixels: torch.Tensor) -> ImageFeatures:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_what_kills_every_actor_does_not_go_on_for_ever(
    cluster, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_crew, "MOST_TRIES", 2)  # starting an actor takes seconds
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    try:
        with pytest.raises(PiaaError, match="2 actors died as they began"):
            fit(photos, "model", RayCluster(dying, actors=1))
        with pytest.raises(PiaaError, match="2 actors died of unit 0"):
            fit(photos, "model", RayCluster(Deadly, actors=1))
        with pytest.raises(InputError, match="connected to a Ray cluster already"):
            fit(photos, "model", RayCluster(ShakyEncoder, address=cluster.address))
        assert ray.is_initialized(), "the connection was the caller's"
        # The next run goes on with the same job, and ends it.
        assert fit(photos, "model", RayCluster(OtherThreads)) == fit(photos, "here", Here())
    finally:
        ray.shutdown()


def failing() -> Encoder:
    raise PiaaError("There is no such encoder.")


def buggy() -> Encoder:
    raise ZeroDivisionError


class TestActor:
    """What actors say, without Ray around them."""

    def said(self, make: Callable[[], Encoder], folder: Path, cwd: Path) -> Exception:
        actor = Actor(partial(FitWork, recognizer=cwd, batch_size=None), make, 1, cwd, folder)
        actor.begin()
        ((what, error),) = actor.news()
        assert what == "error"
        return error

    def test_errors(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / MANIFEST).touch()
        assert "no such encoder" in str(self.said(failing, Path(), tmp_path))
        error = self.said(buggy, Path(), tmp_path)
        assert not isinstance(error, PiaaError)
        assert "ZeroDivisionError" in str(error)

    def test_a_machine_that_does_not_see_the_job(self, tmp_path: Path) -> None:
        for folder, cwd in ((Path("job"), Path.cwd()), (tmp_path, tmp_path / "elsewhere")):
            error = self.said(ShakyEncoder, folder, cwd)
            assert isinstance(error, PiaaError)
            assert f"does not see {cwd / folder}" in str(error)


def test_a_cluster_of_its_own(photos: Path) -> None:
    """Started for the command and ended with it; on the loopback address."""
    folder = photos.parent
    code = (
        "import sys; from pathlib import Path\n"
        "from test_ray import *\n"
        "def look():\n"
        "    seen.extend(node['NodeManagerAddress'] for node in ray.nodes())\n"
        "    return True\n"
        "seen = []; watch = Avenger(look)\n"
        "fit(Path(sys.argv[1]), 'own', RayCluster(ShakyEncoder), watch)\n"
        "assert seen == ['127.0.0.1'] and not ray.is_initialized()\n"
    )
    paths = [str(path) for path in (Path(__file__).parent, Path(__file__).parents[1])]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    subprocess.run(
        [sys.executable, "-c", code, str(photos)],
        check=True,
        timeout=120,
        env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert (folder / "own").read_bytes() == fit(photos, "here", Here())


def test_banks_merge_as_a_tree(cluster, tmp_path: Path) -> None:
    """More levels than one; the few that are left are what all of them are, to the bit."""
    encoder = ShakyEncoder()
    job = Job(tmp_path, ())
    total, results = empty_gathered(), []
    for number, features in enumerate(encoder.stream_images(pictures(FAN_IN**2 + 3), batch_size=1)):
        gathered = empty_gathered()
        gathered.add(features)
        total.merge(gathered)
        results.append(tmp_path / f"unit-{number:06d}")
        save_gathered(results[-1], gathered)
    engine = RayCluster(ShakyEncoder, address=cluster.address)
    left = engine.reduce(merge_results, job, results)
    assert 1 < len(left) <= FAN_IN
    assert {path.name.split("-")[1] for path in tmp_path.glob("merged-*")} == {"0", "1"}
    merged = empty_gathered()
    for path in left:
        merged.merge(load_gathered(path)[0])
    exact = partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True)
    exact(merged.state(), total.state())
    results[5].write_bytes(b"damaged")
    with pytest.raises(PiaaError, match="unit-000005"):
        engine.reduce(merge_results, job, results)


def empty_gathered() -> Gathered:
    recognizer = shaky_recognizer()
    return Gathered(recognizer.text, recognizer.config)


class TestShare:
    def test_cpus_are_left_for_reading(self) -> None:
        for cpus in (2, 4, 16, 64):
            request, most = actor_share([{"CPU": cpus}], threads=1, gpus=True)
            assert most * request["num_cpus"] <= cpus
            assert 1 <= most <= cpus - cpus / 5
        assert actor_share([{"CPU": 16.0}], threads=4, gpus=True) == ({"num_cpus": 4.25}, 3)

    def test_a_single_cpu_does_both(self) -> None:
        assert actor_share([{"CPU": 1.0}] * 3, threads=1, gpus=True) == ({"num_cpus": 1}, 3)

    def test_gpus(self) -> None:
        nodes = [{"CPU": 8.0}, {"CPU": 16.0, "GPU": 4.0}, {"CPU": 2.0, "GPU": 4.0}]
        assert actor_share(nodes, threads=1, gpus=True) == ({"num_cpus": 1, "num_gpus": 1}, 6)
        assert actor_share(nodes, threads=1, gpus=False) == ({"num_cpus": 1.25}, 6 + 12 + 1)

    @pytest.mark.parametrize("nodes", [[], [{"memory": 1e9}], [{"GPU": 1.0}]])
    def test_no_cpu(self, nodes: list[dict[str, float]]) -> None:
        with pytest.raises(PiaaError, match="has a CPU for an actor"):
            actor_share(nodes, threads=1, gpus=True)

    def test_numbers(self) -> None:
        for wrong in ({"actors": 0}, {"threads": None}, {"actors": True}):
            with pytest.raises(InputError, match=f"{next(iter(wrong))} of a cluster"):
                RayCluster(ShakyEncoder, **wrong)


class TestCommand:
    choice = Choice(None, None, "lite", None, None, None, None)

    def test_options(self) -> None:
        engine = make_engine(
            2, self.choice, KeepFeatures.off, engine=EngineName.ray, address="head:6379"
        )
        assert isinstance(engine, RayCluster)
        assert (engine.address, engine.actors, engine.gpus) == ("head:6379", 2, True)
        on_cpu = replace(self.choice, device="cpu")
        engine = make_engine(None, on_cpu, KeepFeatures.off, engine=EngineName.ray)
        assert isinstance(engine, RayCluster)
        assert (engine.address, engine.actors, engine.gpus) == (None, None, False)

    def test_an_address_of_nothing(self) -> None:
        with pytest.raises(InputError, match="Give --engine ray"):
            make_engine(None, self.choice, KeepFeatures.off, address="head:6379")


@pytest.mark.parametrize("address", ["nowhere:", "127.0.0.2:1"])
def test_no_such_cluster(photos: Path, address: str) -> None:
    with pytest.raises(PiaaError, match=f"No Ray cluster at '{address}'"):
        fit(photos, "model", RayCluster(ShakyEncoder, address=address))


def test_without_ray(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PiaaError, match=r"pip install 'piaa\[ray\]'"):
        fit(photos, "model", RayCluster(ShakyEncoder))


def test_the_rest_of_the_package_never_imports_ray() -> None:
    for path in Path(piaa.__file__).parent.rglob("*.py"):
        imports = re.search(r"^\s*(import|from) ray\b|import_module\(.ray", path.read_text(), re.M)
        assert (imports is not None) == (path.name == "ray_engine.py"), path
