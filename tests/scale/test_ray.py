"""A Ray cluster gives the bits of one process, though actors and machines die."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from shaky_encoder import OtherThreads, ShakyEncoder, save_pictures, shaky_recognizer

import piaa
from fake_encoder import pictures
from piaa import Recognizer
from piaa.atomic import write_whole
from piaa.cli.choosing import Choice
from piaa.cli.jobs import EngineName, KeepFeatures, make_engine
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import InputError, PiaaError
from piaa.fitting.gathered import Gathered
from piaa.scale import ray_engine
from piaa.scale.fit import FitWork, fit_units, merge_results, unfinished
from piaa.scale.fit_state import load_gathered, save_gathered
from piaa.scale.job import MANIFEST, Job
from piaa.scale.local import Here
from piaa.scale.predict import Tagged, predict_units
from piaa.scale.ray_crew import MOST_TRIES, Actor, Crew
from piaa.scale.ray_engine import RayCluster, Share, share_of
from piaa.scale.ray_reading import Place, Reading, ReadUnit
from piaa.scale.sources import find_parts
from piaa.scale.units import Unit, cut
from piaa.scale.watching import Tally

# Before ray is imported: nothing here listens on more than the loopback address, or reports to anybody.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'piaa[ray]')")
pytestmark = pytest.mark.filterwarnings(
    "ignore::piaa.fitting.fit_report.EvidenceWarning",
    "ignore:.*:FutureWarning",
    "ignore::ResourceWarning",
)

N, BATCH = 42, 2
UNITS, UNIT_SIZE = 8, 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """The cluster that piaa starts by itself, and another node in a process of its own; of two CPUs each."""
    from ray.cluster_utils import Cluster

    folders = [str(path) for path in (Path(__file__).parent, Path(__file__).parents[1])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(folders))  # of this module, for actors
        patch.delenv("RAY_ADDRESS", raising=False)
        # A machine that is lost is missed after 3 s and not after 15; no worker is started unasked.
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_timeout_ms", "1000")
        patch.setenv("RAY_enable_worker_prestart", "0")
        patch.setattr(ray, "init", partial(ray.init, num_cpus=2, log_to_driver=False))
        with ray_engine._connected(None):
            assert [node["NodeManagerAddress"] for node in ray.nodes()] == ["127.0.0.1"]
            cluster = Cluster(initialize_head=False)
            cluster.head_node = ray._private.worker._global_node
            cluster.second = cluster.add_node(
                num_cpus=2, object_store_memory=100 * 2**20, wait=False
            )
            while len(ray.nodes()) < 2:
                time.sleep(0.1)
            yield cluster
            for node in list(cluster.worker_nodes):
                node.kill_all_processes(allow_graceful=False)
        assert not ray.is_initialized()


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


class TestAddress:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
    def test_nobody_listens(self, photos: Path, host: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.check(photos, f"{host}:{port}", "refused")

    def test_something_else_listens(self, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ray_engine, "_SECONDS_TO_CONNECT", 0.3)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.check(photos, f"localhost:{server.getsockname()[1]}", "is not Ray")

    def test_no_address(self, photos: Path) -> None:
        self.check(photos, "nowhere:", "")

    def check(self, photos: Path, address: str, reason: str) -> None:
        """Ray itself would wait for minutes."""
        start = time.monotonic()
        with pytest.raises(PiaaError, match=f"No Ray cluster at '{address}'.*{reason}"):
            fit(photos, "model", RayCluster(ShakyEncoder, address=address))
        assert time.monotonic() - start < 20


def test_predictions(cluster, photos: Path, tmp_path: Path) -> None:
    fit(photos, "model", Here())
    found: list[list[Tagged]] = []
    for engine in (Here(), RayCluster(OtherThreads, actors=1)):
        recognizer = Recognizer.load(tmp_path / "model", ShakyEncoder())
        watch = Tally(N + 1, 3)
        units = cut(find_parts([photos]), 16)
        with predict_units(
            recognizer, units, tmp_path / "job", watch=watch, engine=engine, batch_size=4
        ) as predictions:
            found.append(list(predictions))
        assert (watch.images, len(watch.skipped)) == (N, 1)
    assert len(found[0]) == N
    assert found[0] == found[1]
    assert list(watch.stages) == ["read", "encode", "score", "save"]
    assert watch.stages["read"].images == N + 1


class SlowEncoder(ShakyEncoder):
    """Slow enough to be found at work; and it leaves its process id in a folder."""

    def __init__(self, folder: Path, *, seconds: float = 0.1) -> None:
        super().__init__()
        self.seconds, self.pids = seconds, folder
        self.node = ray.get_runtime_context().get_node_id()

    def encode_pixels(self, pixels: torch.Tensor) -> ImageFeatures:
        place = self.pids / f"pid-{os.getpid()}"
        if not place.exists():
            write_whole(place, self.node.encode())
        time.sleep(self.seconds)
        return super().encode_pixels(pixels)


class Avenger(Tally):
    """Does something in the middle, until it tells that it is done."""

    def __init__(self, act: Callable[[], bool]) -> None:
        super().__init__(N + 1, UNITS)
        self._act, self.acted = act, False

    def advance(self, images: int) -> None:
        super().advance(images)
        self.acted = self.acted or self._act()


def test_a_cluster(cluster, photos: Path) -> None:
    """It answers as the check expects; and whoever is connected keeps the connection."""
    ray_engine._check_reachable(cluster.head_node.gcs_address, "127.0.0.1")
    with pytest.raises(InputError, match="connected to a Ray cluster already"):
        fit(photos, "model", RayCluster(ShakyEncoder, address=cluster.head_node.gcs_address))
    with pytest.raises(InputError, match=r"5 actors were asked for, and .* has room for [12]"):
        fit(photos, "model", RayCluster(ShakyEncoder, actors=5))
    assert ray.is_initialized()


def test_losses(cluster, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor is killed, then a machine is lost, in the middle of a run: what is told, and what comes of
    it, is as if nothing had happened. The machine that is left has no room for a second actor, and does the
    rest with the one it has: an actor that took the last CPU would leave none to read with."""
    if not cluster.worker_nodes:
        pytest.skip("the other machine was lost before")
    done: list[str] = []

    def lose() -> bool:
        pids = {path.name.removeprefix("pid-"): path.read_text() for path in tmp_path.glob("pid-*")}
        if not done and len(set(pids.values())) == 2:
            done.append(next(pid for pid, node in pids.items() if node == here))
            os.kill(int(done[0]), signal.SIGKILL)
        elif len(done) == 1 and len(pids) == 3:
            done.append("machine")
            cluster.remove_node(cluster.second, allow_graceful=False)
        return len(done) == 2

    monkeypatch.setattr(ray_engine, "FAN_IN", 3)  # the results of 8 units merge on two levels
    here = ray.get_runtime_context().get_node_id()
    watch = Avenger(lose)
    engine = RayCluster(partial(SlowEncoder, tmp_path, seconds=0.3), actors=2)
    assert fit(photos, "ray", engine, watch) == fit(photos, "here", Here())
    assert watch.acted
    assert (watch.images, watch.finished) == (N, UNITS)
    assert [Path(name).name for name, _ in watch.skipped] == ["zzz.jpg"]
    assert list(watch.stages) == ["read", "encode", "learn", "save"]
    assert ray.is_initialized(), "the connection was the caller's"


class DeadError(Exception):
    pass


class FakeRay:
    """What `Crew` needs of Ray: a reference is what gives its value."""

    exceptions = SimpleNamespace(RayActorError=DeadError, OutOfMemoryError=DeadError)

    def __init__(self) -> None:
        self.killed: list[object] = []

    def wait(self, refs: list[object]) -> tuple[list[object], list[object]]:
        return refs[:1], refs[1:]

    def get(self, ref: Callable[[], object] | list[Callable[[], object]]) -> object:
        return [one() for one in ref] if isinstance(ref, list) else ref()

    def kill(self, actor: object) -> None:
        self.killed.append(actor)

    def remote(self, function: Callable[..., object]) -> SimpleNamespace:
        return SimpleNamespace(
            options=lambda **_: SimpleNamespace(remote=partial(partial, function))
        )


class FakeActor:
    """Says one thing at a time; dies when it is to do a unit that is deadly, or as it begins."""

    def __init__(self, deadly: set[int], *, stillborn: bool = False) -> None:
        self.deadly, self.stillborn = deadly, stillborn
        self.given: list[int] = []
        self.most_at_once = 0
        self._says: list[tuple[str, object]] = [("ready", ())]
        self._at: list[int] = []
        self.news = SimpleNamespace(remote=lambda: self._news)
        self.do = SimpleNamespace(remote=self._do)

    def _do(self, unit: Unit, target: Path) -> None:
        self.given.append(unit.number)
        self._at.append(unit.number)
        self.most_at_once = max(self.most_at_once, len(self._at))

    def _news(self) -> list[tuple[str, object]]:
        if self.stillborn:
            raise DeadError("as it began")
        if not self._says and self._at:
            number = self._at[0]
            self._says = [("advance", (2,)), ("skip", (f"{number}.jpg", "bad"))]
            self._says += [("dead", ())] if number in self.deadly else [("finish", (2,))]
        said = [self._says.pop(0)] if self._says else []
        if said == [("dead", ())]:
            raise DeadError(f"of unit {self._at[0]}")
        if said and said[0][0] == "finish":
            self._at.pop(0)
        return said


def test_banks_merge_as_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More levels than one; the few that are left are what all of them are, to the bit. (With Ray itself:
    see `test_losses`.)"""
    monkeypatch.setattr(ray_engine, "FAN_IN", 3)
    monkeypatch.setattr(ray_engine, "_connected", lambda _: nullcontext(FakeRay()))
    total, results = empty_gathered(), []
    stream = ShakyEncoder().stream_images(pictures(12), batch_size=1)
    for number, features in enumerate(stream):
        gathered = empty_gathered()
        gathered.add(features)
        total.merge(gathered)
        results.append(tmp_path / f"unit-{number:06d}")
        save_gathered(results[-1], gathered)
    engine, job = RayCluster(ShakyEncoder), Job(tmp_path, ())
    left = engine.reduce(merge_results, job, results)
    assert len(left) == 2
    assert {path.name.split("-")[1] for path in tmp_path.glob("merged-*")} == {"0", "1"}
    merged = empty_gathered()
    for path in left:
        merged.merge(load_gathered(path)[0])
    exact = partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True)
    exact(merged.state(), total.state())
    assert engine.reduce(merge_results, job, left) == left
    results[5].write_bytes(b"damaged")
    with pytest.raises(PiaaError, match="unit-000005"):
        engine.reduce(merge_results, job, results)


def empty_gathered() -> Gathered:
    recognizer = shaky_recognizer()
    return Gathered(recognizer.text, recognizer.config)


class TestCrew:
    """Who does what, without Ray."""

    def crew(self, actors: list[FakeActor], units: int = 6) -> tuple[Crew, Tally, FakeRay]:
        watch, fake = Tally(None, units), FakeRay()
        todo = [Unit(number, ()) for number in range(units)]
        waiting = iter(actors)
        return Crew(fake, lambda: next(waiting), Job(Path("job"), ()), todo, watch), watch, fake

    def test_a_unit_is_read_ahead(self) -> None:
        actors = [FakeActor(set()), FakeActor(set())]
        crew, watch, fake = self.crew(actors)
        crew.work_off(2)
        assert sorted(actors[0].given + actors[1].given) == list(range(6))
        assert [actor.most_at_once for actor in actors] == [2, 2]
        assert min(len(actor.given) for actor in actors) >= 2, "the last ones are shared"
        assert (watch.images, watch.finished, len(watch.skipped)) == (12, 6, 6)
        assert fake.killed == actors

    def test_losses_are_made_up_for(self) -> None:
        """Its unit, and the one it had read ahead, are done by others; nothing is told twice."""
        first, *others = FakeActor({0}), FakeActor({2}), FakeActor(set())
        crew, watch, _ = self.crew([first, *others])
        crew.work_off(1)
        assert [actor.given for actor in (first, *others)] == [[0, 1], [0, 1, 2, 3], [2, 3, 4, 5]]
        assert (watch.images, watch.finished) == (12, 6)
        assert [name for name, _ in watch.skipped] == [f"{number}.jpg" for number in range(6)]

    @pytest.mark.parametrize("stillborn", [True, False])
    def test_what_kills_every_actor_does_not_go_on_for_ever(self, stillborn: bool) -> None:
        actors = [FakeActor({1}, stillborn=stillborn) for _ in range(MOST_TRIES)]
        crew, watch, fake = self.crew(actors)
        when = "as they began" if stillborn else "of unit 1"
        with pytest.raises(PiaaError, match=f"{MOST_TRIES} actors died {when}.*run the same again"):
            crew.work_off(1)
        assert watch.finished == (0 if stillborn else 1)
        assert set(fake.killed) == set(actors)


def failing() -> Encoder:
    raise PiaaError("There is no such encoder.")


def buggy() -> Encoder:
    raise ZeroDivisionError


class TestActor:
    """What actors say, without Ray around them."""

    def said(self, make: Callable[[], Encoder], folder: Path, cwd: Path) -> Exception:
        reading = Reading(Place(cwd, folder), 1, 0)
        actor = Actor(partial(FitWork, recognizer=cwd, batch_size=None), make, 1, reading)
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

    def test_errors_of_reading(self) -> None:
        def tables() -> Iterator[object]:
            yield from ()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            list(ReadUnit(tables, Tally(None, 1)).images(print))

    def test_a_machine_that_does_not_see_the_job(self, tmp_path: Path) -> None:
        for folder, cwd in ((Path("job"), Path.cwd()), (tmp_path, tmp_path / "elsewhere")):
            error = self.said(ShakyEncoder, folder, cwd)
            assert isinstance(error, PiaaError)
            assert f"does not see {cwd / folder}" in str(error)


class TestShare:
    def test_cpus_are_left_for_reading(self) -> None:
        for cpus in (2, 4, 16, 64):
            share = share_of([{"CPU": cpus}], threads=1, gpus=True)
            assert share.actors * share.request["num_cpus"] <= cpus
            assert 1 <= share.actors <= cpus - cpus / 5
            assert share.reader_cpus == 0, "a reader must never wait for an actor to end"
        share = share_of([{"CPU": 16.0}], threads=4, gpus=True)
        assert share == Share({"num_cpus": 4.25}, 3, 1, 0)

    def test_a_single_cpu_does_both(self) -> None:
        share = share_of([{"CPU": 1.0}] * 3, threads=1, gpus=True)
        assert share == Share({"num_cpus": 1}, 3, 1, 0)

    def test_gpus(self) -> None:
        nodes = [{"CPU": 8.0}, {"CPU": 16.0, "GPU": 4.0}, {"CPU": 2.0, "GPU": 4.0}]
        on_gpus = {"num_cpus": 1, "num_gpus": 1}
        # 26 CPUs, of which 6 belong to the actors: 20 read, of the machine without a GPU too.
        assert share_of(nodes, threads=1, gpus=True) == Share(on_gpus, 6, 3, 1)
        share = share_of(nodes, threads=1, gpus=False)
        assert share == Share({"num_cpus": 1.25}, 6 + 12 + 1, 1, 0)
        share = share_of([{"CPU": 4.0, "GPU": 8.0}], threads=1, gpus=True)
        assert share == Share(on_gpus, 4, 1, 0), "no CPU is left to ask for"

    @pytest.mark.parametrize("nodes", [[], [{"memory": 1e9}], [{"GPU": 1.0}]])
    def test_no_cpu(self, nodes: list[dict[str, float]]) -> None:
        with pytest.raises(PiaaError, match="has a CPU for an actor"):
            share_of(nodes, threads=1, gpus=True)

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


def test_without_ray(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PiaaError, match=r"pip install 'piaa\[ray\]'"):
        fit(photos, "model", RayCluster(ShakyEncoder))


def test_the_rest_of_the_package_never_imports_ray() -> None:
    for path in Path(piaa.__file__).parent.rglob("*.py"):
        imports = re.search(r"^\s*(import|from) ray\b|import_module\(.ray", path.read_text(), re.M)
        assert (imports is not None) == (path.name in ("ray_engine.py", "ray_reading.py")), path
