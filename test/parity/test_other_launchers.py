"""Under torchrun, mpirun and srun each task is a rank, or one starts them all; other numbers of tasks are refused."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import tools
from tools import Case

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--no-python")


def launchers():
    """Those that this machine has: a name, how to start N tasks, and variables that the call needs."""
    yield "torchrun", lambda n: (*TORCHRUN, f"--nproc-per-node={n}"), {}
    if shutil.which("mpirun"):
        yield ("mpirun", lambda n: ("mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(n)),
               {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    if shutil.which("srun") and subprocess.run(["srun", "true"], capture_output=True, timeout=tools.SECONDS).returncode == 0:
        yield "srun", lambda n: ("srun", "--overcommit", f"-n{n}"), {}


LAUNCHERS = {name: (command, variables) for name, command, variables in launchers()}


def run(launcher, tasks, *args):
    command, variables = LAUNCHERS[launcher]
    return subprocess.run([*command(tasks), str(tools.bin() / "polyrank-run"), *map(str, args)], capture_output=True, text=True,
                          timeout=tools.SECONDS, env={**os.environ, **variables})


@pytest.fixture
def plan(exported, tmp_path):
    path = tmp_path / "plan"
    Case("mlp", "data=2").compile(exported("mlp"), path, "sgd(lr=1)")
    return path


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_task_for_each_rank_trains_as_the_run_alone_does(launcher, plan, dataset, tmp_path):
    saved, alone = tmp_path / "saved.safetensors", tmp_path / "alone.safetensors"
    args = (plan, "--data", dataset("mlp", 1), "--steps", 2, "--save")
    tools.tool("run", *args, alone)
    done = run(launcher, 2, *args, saved)
    assert done.returncode == 0, done.stderr
    assert f"the tasks of {launcher} on this machine are the ranks 0 to 1" in done.stderr
    assert saved.read_bytes() == alone.read_bytes()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_other_numbers_of_tasks_are_refused_and_one_trains(launcher, plan, dataset, tmp_path):
    saved = tmp_path / "saved.safetensors"
    args = (plan, "--data", dataset("mlp", 1), "--steps", 2, "--save", saved)
    done = run(launcher, 3, *args)
    assert done.returncode != 0
    assert f"{launcher} has started 3 tasks for 2 ranks" in done.stderr
    assert not saved.exists()
    assert run(launcher, 1, *args).returncode == 0
    assert saved.exists()


def test_restarts_are_the_launchers(plan, monkeypatch):
    for name, value in (("PROCID", 0), ("LOCALID", 0), ("NODEID", 0), ("STEP_NUM_TASKS", 2), ("STEP_NUM_NODES", 1),
                        ("STEP_TASKS_PER_NODE", 2), ("JOB_ID", 7), ("STEP_ID", 0)):
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    output, error = tools.tool("run", plan, "--json", "--restarts", 1, code=1)
    assert error.count("\n") == 1 and "the ranks are tasks of srun" in error and "--requeue" in error
    assert '"status": "error"' in output
    monkeypatch.delenv("SLURM_LOCALID")
    assert "SLURM_LOCALID is not set" in tools.tool("run", plan, code=1)[1]
    assert "polyrank-run" in tools.tool("run", "--version")[0]


def test_the_error_file_of_torchrun_has_the_cause(plan, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    tools.tool("run", plan, "--data", tmp_path / "nowhere.npz", "--steps", 1, code=1)
    error = json.loads((tmp_path / "error.json").read_text())
    assert "nowhere.npz" in error["message"] and error["timestamp"] > 1e9


def test_torchrun_shows_the_cause(plan, tmp_path):
    done = run("torchrun", 1, plan, "--data", tmp_path / "nowhere.npz", "--steps", 1)
    assert done.returncode != 0 and "nowhere.npz" in done.stderr[done.stderr.index("Root Cause"):]
