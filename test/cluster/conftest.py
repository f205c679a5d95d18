"""Plans, a key and machines for the tests on several machines."""

import itertools
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "parity")]

import launchers  # noqa: E402
import machines  # noqa: E402
import plans  # noqa: E402
import tools  # noqa: E402
from models import MODELS  # noqa: E402

WHY_NOT = machines.whyNot()
NUMBERS = itertools.count()
OPTIONS = {"srun": (), "srun-pmix": ("--mpi=pmix",)}


def pytest_collection_modifyitems(items):
    for item in items:
        if WHY_NOT and Path(item.fspath).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skip(reason=WHY_NOT))


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """What all machines see: `job.key`, `data.npz`, and the plans `1.plan` and `2.plan` of as many ranks."""
    folder = tmp_path_factory.mktemp("cluster")
    tools.tool("run", "--new-key", folder / "job.key")
    model = MODELS["mlp"]
    model.export(folder / "model.onnx")
    tools.saveData(folder / "data.npz", model.data(2))
    for ranks in (1, 2):
        tools.tool("compile", folder / "model.onnx", "-o", folder / f"{ranks}.plan", "--mesh", f"data={ranks}", *model.inputOptions, "--loss",
                   model.lossOption, "--optimizer", "adamw(lr=0.01)", "--microbatches", 2, "--threads", 1)
    return folder


@pytest.fixture(scope="session")
def planOf(shared):
    """Name -> the plan's file and that of its data, in the folder that all machines see."""
    return lambda name: plans.makePlan(shared, name)


@pytest.fixture
def tmp_path(shared):
    """In place of pytest's own, which is below a /tmp that machines do not see."""
    folder = shared / f"test-{next(NUMBERS)}"
    folder.mkdir()
    return folder


@pytest.fixture
def make(shared):
    """Makes clusters, which are gone after the test."""
    made = []

    def get(**parameters):
        folder = shared / f"machines-{next(NUMBERS)}"
        folder.mkdir()
        cluster = machines.Cluster(folder, shared, **parameters)
        made.append(cluster)
        return cluster.__enter__()

    yield get
    for cluster in made:
        cluster.close()


@pytest.fixture(scope="session")
def standing(shared):
    """Two machines that all tests of a worker have in turn."""
    (folder := shared / "standing").mkdir()
    with machines.Cluster(folder, shared) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm(shared):
    """A Slurm on two machines of its own."""
    if reason := launchers.whyNot("srun"):
        pytest.skip(reason)
    (folder := shared / "slurm").mkdir()
    with machines.Cluster(folder, shared) as cluster:
        yield launchers.Slurm(cluster)


@pytest.fixture
def startBy(request):
    """Launcher -> two machines, and what starts a command on them (launchers.py)."""
    def get(launcher):
        if launcher.startswith("srun"):
            slurm = request.getfixturevalue("slurm")
            return slurm.cluster, lambda _, *command, **more: slurm.srun(*command, options=OPTIONS[launcher], **more)
        if reason := launchers.whyNot(launcher):
            pytest.skip(reason)
        return request.getfixturevalue("pair"), getattr(launchers, launcher)

    return get


@pytest.fixture
def pair(standing):
    """Two machines with whole links, on which nothing runs."""
    yield standing
    for machine in standing:
        machine.mend()
        machine.clear()
