"""Runs the command-line tools as a user does: processes, files, exit codes."""

import json
import math
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from models import MODELS

SECONDS = 120  # more than any run here takes; a hang is a failure, not a wait


def bin():
    return Path(os.environ.get("POLYRANK_BIN", Path(__file__).parents[2] / "build/dev/bin"))


def tool(name, *args, code=0):
    """Runs polyrank-NAME; its exit code must be `code`. Returns standard output and error."""
    command = [str(bin() / f"polyrank-{name}"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == code, (
        f"exit code {done.returncode}, not {code}: {' '.join(command)}\n"
        f"{done.stdout[-4000:]}{done.stderr[-8000:]}")
    return done.stdout, done.stderr


# It runs in a process of its own: what one starts begins with the memory of who starts it, and PyTorch's is large. The limit
# ends what would compute on after a timeout has ended that process.
_MEASURE = """
import json, resource, subprocess, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
done = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024]))
"""


def spent(name, *args):
    """Runs polyrank-NAME. Returns its exit code, standard error, processor seconds, of which other programs of the machine
    take none, and the most bytes of memory."""
    command = [sys.executable, "-S", "-c", _MEASURE, SECONDS, bin() / f"polyrank-{name}", *args]
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=SECONDS, errors="replace")
    code, seconds, most = json.loads(done.stdout)
    return code, done.stderr, seconds, most


def script(path, *args, cwd=None, fresh=False):
    """Runs a Python script as a process of its own. Returns its exit code, standard output and error. It is forked from this
    one, which has imported PyTorch already; a `fresh` one is started as users do."""
    if fresh:
        done = subprocess.run([sys.executable, str(path), *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
        return done.returncode, done.stdout, done.stderr
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os._exit(_runScript(path, args, cwd or ".", out.fileno(), err.fileno()))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0), err.seek(0)
        return code, out.read().decode(errors="replace"), err.read().decode(errors="replace")


def _runScript(path, args, cwd, out, err):
    """The exit code, in the child."""
    code = 1
    try:
        signal.alarm(SECONDS)
        os.chdir(cwd)
        os.dup2(out, 1), os.dup2(err, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        sys.argv = [str(path), *map(str, args)]
        sys.path.insert(0, str(Path(path).parent))
        torch.set_num_threads(1)  # others do not survive a fork
        runpy.run_path(str(path), run_name="__main__")
        code = 0
    except SystemExit as end:  # as the interpreter does
        code = end.code if isinstance(end.code, int) else end.code is not None
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush(), sys.stderr.flush()
    return int(code)


@dataclass(frozen=True)
class Case:
    """One row of the table: a model on a mesh."""

    model: str
    mesh: str
    shard: tuple = ()
    microbatches: int = 1
    zero: int = 1
    zeroAxis: str = ""
    # Of a mesh with an axis `pipe`.
    schedule: str = ""
    chunks: int = 1
    recompute: str = ""
    clip: float = 0

    def __str__(self):
        mesh = self.mesh.replace("=", "").replace(",", "-")  # pytest -k takes no "=" and ","
        sequence = "-sequence" if any(s.startswith("out(") for s in self.shard) else ""
        zero = {0: "-whole", 1: ""}.get(self.zero, f"-zero{self.zero}")
        over = f"-over-{self.zeroAxis}" if self.zeroAxis else ""
        words = [self.schedule, f"chunks{self.chunks}" if self.chunks > 1 else "", self.recompute, "clip" if self.clip else ""]
        more = "".join(f"-{word}" for word in words if word)
        return f"{self.model}-{mesh}{sequence}-m{self.microbatches}{zero}{over}{more}"

    @property
    def spec(self):
        return MODELS[self.model]

    @property
    def ranks(self):
        return math.prod(int(entry.split("=")[1]) for entry in self.mesh.split(","))

    def size(self, axis):
        return dict((name, int(size)) for name, size in
                    (entry.split("=") for entry in self.mesh.split(","))).get(axis, 1)

    def notes(self, onnx, plan, optimizer, *more):
        """Compiles, and returns what the compiler says. However small a parameter, its update is split where it can be."""
        shard = [arg for s in self.shard for arg in ("--shard", s)]
        axis = ("--zero-axis", self.zeroAxis) if self.zeroAxis else ()
        pipe = [word for name, value in (("schedule", self.schedule), ("recompute", self.recompute), ("clip-norm", self.clip),
                                         ("chunks", self.chunks if self.chunks > 1 else 0)) if value
                for word in (f"--{name}", value)]
        return tool("compile", onnx, "-o", plan, "--mesh", self.mesh, *self.spec.inputOptions, *shard,
                    "--loss", self.spec.lossOption, "--optimizer", optimizer,
                    "--microbatches", self.microbatches, "--threads", 1, "--zero", self.zero, "--zero-threshold", 1,
                    *axis, *pipe, *self.spec.options, *more)[1]

    def compile(self, onnx, plan, optimizer, *more):
        """The plan, whose arena is within 1.5 % of its lower bound, which may be out of reach, on every row."""
        self.notes(onnx, plan, optimizer, *more)
        memory = inspect(plan)["memory_per_rank"]
        assert memory["total"] <= 1.015 * memory["lower_bound"]
        return plan


def stepsOf(log):
    """The records of steps in a log."""
    return [record for record in recordsOf(log) if "step" in record]


def recordsOf(log):
    return [json.loads(line) for line in Path(log).read_text().splitlines()]


def saveData(path, tensors):
    np.savez(path, **{name: t.numpy() for name, t in tensors.items()})


@dataclass
class Run:
    """What a training run left: its log and its weights."""

    log: list
    weights: Path

    @property
    def losses(self):
        return [entry["loss"] for entry in self.log]

    @property
    def tensors(self):
        return load_file(self.weights)


def train(plan, data, steps, out, *more):
    log, weights = Path(f"{out}.jsonl"), Path(f"{out}.safetensors")
    tool("run", plan, "--data", data, "--steps", steps, "--order", "sequential",
         "--log", log, "--save", weights, *more)
    return Run([e for e in stepsOf(log) if "loss" in e], weights)


def inspect(plan):
    return json.loads(tool("inspect", plan, "--json")[0])
