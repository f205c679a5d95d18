"""Runs a training to which something happens, and looks at what is left of it.

The one oracle of all these tests: the weights are those of the undisturbed training, bit for bit, or the run ended with a
documented exit code and a message that names what happened; in both cases no process and no file is left behind.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import tools

DONE, INPUT, RANK, HANG, PREEMPTED, DISK, DIVERGED = range(7)
STEPS = 12
# What a busy machine may add to any time.
PATIENCE = 60


def processesOf(folder):
    """Ids of the processes of runs in this folder, launchers and ranks."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if words[0].endswith(b"polyrank-run") and any(str(folder).encode() in word for word in words):
            found.append(int(entry.name))
    return found


def eventually(condition, seconds=PATIENCE):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.002)


@dataclass
class Outcome:
    code: int  # minus the signal, of a launcher that was killed
    error: str
    saved: bytes | None
    log: list


def _hearSignals():
    """What a shell starts in the background, or with nohup, ignores these, and so would the run."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _programOf(process):
    try:
        return os.readlink(f"/proc/{process}/exe")
    except OSError:  # it has ended
        return ""


class Run:
    """A run of a training in a folder of its own, which it owns."""

    def __init__(self, training, folder, *options, fail="", saves=True, log=True, every=0):
        self.training, self.folder = training, folder
        self.checkpoints = folder / "checkpoints"
        folder.mkdir(exist_ok=True)
        self.weights, self.logFile, self.errors = folder / "w.safetensors", folder / "log.jsonl", folder / "errors.txt"
        command = [tools.bin() / "polyrank-run", training.plan, "--data", training.data, "--seed", 3, "--bind-to", "none"]
        if "--steps" not in options:
            command += ["--steps", STEPS]
        if every:
            command += ["--checkpoint", self.checkpoints, "--every", every]
        if saves:
            command += ["--save", self.weights]
        if log:
            command += ["--log", self.logFile]
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in [*command, *options]], stdout=errors, stderr=errors,
                env={**os.environ, "POLYRANK_FAIL": fail}, cwd=folder, preexec_fn=_hearSignals)

    def children(self):
        number = self.process.pid
        return sorted(int(child) for child in Path(f"/proc/{number}/task/{number}/children").read_text().split())

    def ranks(self):
        """The children that run the launcher's own program, and not the command of a feed."""
        return [child for child in self.children() if _programOf(child) in ("", _programOf(self.process.pid))]

    def logged(self):
        """Steps in the log, of which the last line may not be whole."""
        lines = self.logFile.read_bytes().split(b"\n")[:-1] if self.logFile.exists() else []
        return sum(line.startswith(b'{"step"') for line in lines)

    def records(self):
        """Of the log, without what each start writes first."""
        return [record for record in tools.recordsOf(self.logFile) if "run" not in record] if self.logFile.exists() else []

    def said(self):
        return self.errors.read_text(errors="replace")

    def end(self, seconds=PATIENCE):
        """Waits for the end, and asserts that nothing is left."""
        try:
            code = self.process.wait(seconds)
        finally:
            self.process.kill()
            self.process.wait()
        # Ranks die with their launcher, but a moment later.
        eventually(lambda: not processesOf(self.folder), 5)
        kept = {self.weights.name, self.logFile.name, self.errors.name, "checkpoints", "old"}
        left = {path.name for path in self.folder.iterdir()} - kept
        assert not left, left
        # What a killed run has left is taken away by the next one that comes so far.
        untouched = code < 0 or "interrupted by a signal before the ranks were started\n" in self.said()
        for path in self.checkpoints.glob("*"):
            assert path.name.startswith("step-") or untouched, f"exit code {code}, and {path} is left\n{self.said()}"
        saved = self.weights.read_bytes() if self.weights.exists() else None
        return Outcome(code, self.said(), saved, self.records())


@dataclass
class Training:
    plan: Path
    data: Path
    weights: bytes = b""
    losses: tuple = ()
    options: tuple = ()  # of each of its runs, where a test gives them

    @classmethod
    def undisturbed(cls, plan, data, folder):
        training = cls(plan, data)
        done = Run(training, folder).end()
        assert done.code == DONE, done.error
        training.weights, training.losses = done.saved, tuple(entry["loss"] for entry in done.log)
        return training

    def check(self, outcome):
        """The first half of the oracle."""
        assert outcome.code == DONE, outcome.error
        assert outcome.saved == self.weights
        losses = [entry["loss"] for entry in outcome.log if "loss" in entry]
        assert tuple(losses) == self.losses


def checkEnded(outcome, code, *parts):
    """The other half."""
    assert outcome.code == code, outcome.error
    for part in parts:
        assert part in outcome.error, outcome.error
    assert outcome.saved is None
