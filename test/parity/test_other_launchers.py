"""Under torchrun, mpirun and srun several tasks are refused, all alike and at once; one task trains."""

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
def test_several_tasks_are_refused_and_one_trains(launcher, plan, dataset, tmp_path):
    saved = tmp_path / "saved.safetensors"
    args = (plan, "--data", dataset("mlp", 1), "--steps", 2, "--save", saved)
    for more in ((), ("--check",)):
        done = run(launcher, 2, *args, *more)
        assert done.returncode != 0
        lines = [line for line in done.stderr.splitlines() if "polyrank-run:" in line and "has started" in line]
        assert lines and {line[line.index("polyrank-run:"):] for line in lines} == {lines[0][lines[0].index("polyrank-run:"):]}
        assert f"{launcher} has started 2 tasks" in lines[0] and "Start it once" in lines[0]
        assert not saved.exists()
    assert run(launcher, 1, *args).returncode == 0
    assert saved.exists()


def test_a_task_ends_with_status_1_and_its_report_says_so(plan, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    output, error = tools.tool("run", plan, "--json", code=1)
    assert error.count("\n") == 1 and "srun has started 2 tasks" in error
    assert '"status": "error"' in output and "srun has started 2 tasks" in output
    assert "polyrank-run" in tools.tool("run", "--version")[0]
