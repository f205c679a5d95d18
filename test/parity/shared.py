"""What the workers of a run make once between them, under a lock: exports of models, and PyTorch's side of the tables."""

import fcntl
import functools
import hashlib
import os

import pytest
import torch

folder = None  # of this run; without one each process makes its own


def begin(factory):
    """Takes the run's folder, which is above those of the workers."""
    global folder
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)


def made(name, make):
    """The folder of this name, which `make` has filled, here or in another worker."""
    path, done = folder / name, folder / f"{name}.done"
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            path.mkdir(exist_ok=True)
            make(path)
            done.touch()
    return path


def perName(make):
    """A fixture that gives what make(name, folder) has made of each name, once in a module."""
    @pytest.fixture(scope="module")
    def subject(tmp_path_factory):
        return functools.lru_cache(maxsize=None)(lambda name: make(name, tmp_path_factory.mktemp(name)))
    return subject


def remembered(function):
    """As lru_cache, for a function of the tests' own tables: what a worker computed, others read."""
    @functools.lru_cache(maxsize=None)
    def get(*arguments, **named):
        if folder is None:
            return function(*arguments, **named)
        what = repr((function.__module__, function.__name__, arguments, sorted(named.items())))
        path = made(hashlib.sha1(what.encode()).hexdigest(),
                    lambda path: torch.save(function(*arguments, **named), path / "value"))
        return torch.load(path / "value", weights_only=False)

    return functools.wraps(function)(get)
