"""Parts of a batch over the cores: the same features on any number of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from piaa.encoders.cores import in_parts


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_parts_come_back_in_order() -> None:
    batch = torch.arange(14).view(7, 2)
    parts = in_parts(lambda part: part * 10, batch, each=2)
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    assert torch.equal(torch.cat(parts), batch * 10)


def test_they_run_at_the_same_time_and_share_the_threads(threads: int) -> None:
    together = threading.Barrier(threads)

    def run(part: Tensor) -> int:
        together.wait(30)
        return torch.get_num_threads()

    assert in_parts(run, torch.zeros(10, 1), each=1) == [1] * 10
    # One part alone has all of them, and so has whoever asks later, in this thread or in a new one.
    together = threading.Barrier(1)
    assert in_parts(run, torch.zeros(3, 1), each=3) == [threads]
    found: list[int] = []
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert [torch.get_num_threads(), *found] == [threads, threads]


def test_parts_that_are_fewer_than_the_threads_have_them_all_in_turn(threads: int) -> None:
    here = threading.current_thread()

    def run(part: Tensor) -> tuple[bool, int]:
        return threading.current_thread() is here, torch.get_num_threads()

    for n_parts in range(1, threads):
        found = in_parts(run, torch.zeros(n_parts, 1), each=1)
        assert found == [(True, threads)] * n_parts


@pytest.mark.usefixtures("threads")
def test_no_gradients_in_any_thread() -> None:
    weight = torch.ones(3, requires_grad=True)
    parts = in_parts(lambda part: part * weight, torch.ones(4, 3), each=1)
    assert not any(part.requires_grad for part in parts)


@pytest.mark.usefixtures("threads")
def test_an_error_reaches_the_caller() -> None:
    def run(part: Tensor) -> None:
        if part.item() == 2:
            raise ValueError("the third")

    with pytest.raises(ValueError, match="the third"):
        in_parts(run, torch.arange(4)[:, None], each=1)


def test_a_forked_process_has_workers_of_its_own() -> None:
    script = """
import os, torch
from piaa.encoders.cores import in_parts
torch.set_num_threads(2)
total = lambda: sum(in_parts(lambda part: int(part.sum()), torch.arange(6)[:, None], each=1))
assert total() == 15
child = os.fork()
if not child:
    os._exit(total())
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 15
