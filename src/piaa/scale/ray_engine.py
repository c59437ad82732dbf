"""Units of work done by the machines of a Ray cluster.

Actors are the workers, each with an encoder of its own; the driver hands out units and hears what they say.
Pictures are read and decoded by Ray Data, see `piaa.scale.ray_reading`. No other module of piaa imports ray.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from piaa.encoders.base import Encoder
from piaa.errors import InputError, PiaaError
from piaa.scale.job import Job
from piaa.scale.local import Combine, WorkOf
from piaa.scale.ray_crew import MOST_TRIES, Actor, Crew
from piaa.scale.ray_reading import Place, Reading
from piaa.scale.units import Unit
from piaa.scale.watching import Watch

FAN_IN: Final = 8
"""Results that are merged into one at a time."""
READING: Final = 0.25
"""CPUs that an actor leaves to the task that reads for it: an eighth of what encoding takes for photographs
of 500 x 375 pixels (`lite`, measured), and more for larger ones."""
_SECONDS_TO_CONNECT: Final = 5.0
_OBJECT_STORE_BYTES: Final = 2**29
"""For pictures that wait for an actor, see `ray_reading`; by default Ray takes a third of the memory."""


@dataclass(frozen=True)
class RayCluster:
    """Actors on a Ray cluster; what they share is a file system with the job's folder and the pictures.

    An actor that is lost, with its machine or without, is replaced, and its unit done again.

    Attributes:
        make_encoder: called in each actor, as that of `piaa.scale.local.Processes`.
        address: of a cluster, as `ray.init` takes it. Default: what RAY_ADDRESS says, else a cluster is
            started on this machine, and ended with the job. It listens on the loopback address only if ray
            was not imported before.
        actors: how many. Default: one for each GPU; without GPUs as many as leave CPUs for reading.
        threads: torch's threads in each.
        gpus: whether each actor takes a GPU, if the cluster has any.
    """

    make_encoder: Callable[[], Encoder]
    address: str | None = None
    actors: int | None = None
    threads: int = 1
    gpus: bool = True

    def __post_init__(self) -> None:
        for name, value in (("actors", self.actors), ("threads", self.threads)):
            if not (value is None and name == "actors") and (type(value) is not int or value < 1):
                raise InputError(
                    f"{name} of a cluster must be a whole number of at least 1, not {value!r}."
                )

    def run(
        self, work_of: WorkOf, encoder: Encoder, job: Job, units: Sequence[Unit], watch: Watch
    ) -> None:
        del encoder  # of this process; the actors make their own
        if not units:
            return
        with _connected(self.address) as ray:
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            share = share_of(nodes, threads=self.threads, gpus=self.gpus)
            if self.actors is not None and self.actors > share.actors:
                raise InputError(
                    f"{self.actors} actors were asked for, and the Ray cluster has room for {share.actors} "
                    f"beside the tasks that read for them; what its nodes have: {nodes}."
                )
            actor = ray.remote(Actor).options(**share.request, max_concurrency=2, max_restarts=0)
            reading = Reading(Place(Path.cwd(), job.folder), share.readers, share.reader_cpus)
            begin = (work_of, self.make_encoder, self.threads, reading)
            crew = Crew(ray, lambda: actor.remote(*begin), job, units, watch)
            crew.work_off(min(self.actors or share.actors, len(units)))

    def reduce(self, combine: Combine, job: Job, results: Sequence[Path]) -> Sequence[Path]:
        """Combine results as a tree, all over the cluster, until few are left."""
        if len(results) <= FAN_IN:
            return results
        level = 0
        with _connected(self.address) as ray:
            # A task that is lost with its machine is run again, and its file is whole or not there.
            task = ray.remote(_combine).options(num_cpus=1, max_retries=MOST_TRIES)
            while len(results) > FAN_IN:
                groups = [results[i : i + FAN_IN] for i in range(0, len(results), FAN_IN)]
                targets = [job.part_of_tree(level, number) for number in range(len(groups))]
                refs = [
                    task.remote(combine, [path.resolve() for path in group], target.resolve())
                    for group, target in zip(groups, targets, strict=True)
                ]
                for error in ray.get(refs):
                    if error is not None:
                        raise error
                results, level = targets, level + 1
        return results


@dataclass(frozen=True)
class Share:
    """How the CPUs and GPUs of a cluster are shared.

    Attributes:
        request: what an actor asks of its node, as options of Ray.
        actors: that find that in the cluster.
        readers: tasks that read for one actor at a time.
        reader_cpus: that each of them asks for. Without GPUs none: an actor asks for as much more than it
            uses, so that no actor, however it came to its place, can leave another without a reader.
    """

    request: Mapping[str, float]
    actors: int
    readers: int
    reader_cpus: float


def share_of(nodes: Sequence[Mapping[str, float]], *, threads: int, gpus: bool) -> Share:
    """Actors, and room for what reads for them.

    Args:
        nodes: the resources of each, as Ray names them.

    >>> share_of([{"CPU": 2.0}, {"CPU": 16.0}], threads=1, gpus=True)
    Share(request={'num_cpus': 1.25}, actors=13, readers=1, reader_cpus=0)
    >>> share_of([{"CPU": 8.0}, {"CPU": 64.0, "GPU": 8.0}], threads=1, gpus=True)
    Share(request={'num_cpus': 1, 'num_gpus': 1}, actors=8, readers=8, reader_cpus=1)
    """
    cpus = sum(node.get("CPU", 0) for node in nodes)
    readers, reader_cpus = 1, 0
    if gpus and any(node.get("GPU", 0) >= 1 for node in nodes):
        request: dict[str, float] = {"num_cpus": 1, "num_gpus": 1}
        most = sum(int(min(node.get("GPU", 0), node.get("CPU", 0))) for node in nodes)
        if (spare := int(cpus - most)) >= 1:
            # All CPUs of the cluster, of machines without a GPU too: a GPU waits for its pictures.
            readers, reader_cpus = max(1, spare // max(1, most)), 1
    else:
        # Machines with a single CPU have to do both with it.
        largest = max((node.get("CPU", 0) for node in nodes), default=0)
        request = {"num_cpus": min(threads + READING, largest)}
        most = (
            sum(int(node.get("CPU", 0) / request["num_cpus"]) for node in nodes) if largest else 0
        )
    if most == 0:
        raise PiaaError(
            f"No node of the Ray cluster has a CPU for an actor; what they have: {list(nodes)}. Add nodes, "
            "or start them with --num-cpus."
        )
    return Share(request, most, readers, reader_cpus)


def _combine(combine: Combine, results: Sequence[Path], target: Path) -> PiaaError | None:
    try:
        combine(results, target)
    except PiaaError as error:
        return PiaaError(str(error))
    return None


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected; what was connected or started here is left or ended."""
    given, address = address, address or os.environ.get("RAY_ADDRESS")
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # In spite of its name, on every system: "0" is a cluster of this machine, on the loopback address.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        # By name, for type checkers would follow an import through all of Ray.
        ray: Any = import_module("ray")
    except ImportError as error:
        raise PiaaError(
            "The ray engine needs Ray, which is not installed: pip install 'piaa[ray]'."
        ) from error
    if ray.is_initialized():
        if given is not None:
            raise InputError(
                f"This process is connected to a Ray cluster already; leave out the address {given!r}, or "
                "call ray.shutdown() before."
            )
        yield ray
        return
    own: dict[str, Any] = {"object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    options = {"address": "local", **own} if address is None else {"address": address}
    try:
        if address is not None:
            _check_reachable(address, ray.util.get_node_ip_address())
        ray.init(**options, logging_level="warning")
    except (OSError, ValueError, RuntimeError) as error:
        where = (
            "No Ray cluster could be started"
            if address is None
            else f"No Ray cluster at {address!r}"
        )
        raise PiaaError(f"{where}: {str(error).strip()}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str, own_host: str) -> None:
    """Raise an OSError within seconds for what Ray would wait minutes for.

    Args:
        own_host: what Ray takes the names of this machine for.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return  # Ray knows other forms: auto, ray://...
    hosts = (own_host, host) if host in ("localhost", "127.0.0.1") else (host.strip("[]"),)
    for number, name in enumerate(hosts, start=1):
        try:
            _greet(name, int(port))
            return
        except OSError:
            if number == len(hosts):
                raise


def _greet(host: str, port: int) -> None:
    """Begin to speak HTTP/2, as gRPC does, and hear whether that is answered (RFC 9113, section 3.4)."""
    with socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        try:
            answer = connection.recv(9)
        except TimeoutError:
            answer = b""
        settings = 4
        if len(answer) < 9 or answer[3] != settings:
            raise OSError(f"what listens on {host}:{port} is not Ray")
