"""Kills ranks and the launcher of a run with checkpoints and evaluations at random, in each of its moments; the final weights and losses must be
bit for bit those of a run to which nothing has happened.

    soak.py [--times N] [--seed S] [--kind data|four|pipe] [--feeds N]

The moments take turns: ranks load, run steps, evaluate, a checkpoint is written and committed, the launcher pauses before a restart. A rank that
is killed is restarted by its launcher (--restarts); of a launcher that is killed, or ended by SIGTERM as a scheduler does, the same command line
starts again, with --resume auto. With --feeds the samples come from so many commands, which are killed too. The exit code of each must be the one that docs/operating.md says. POLYRANK_BIN names the tools: of a build with
failpoints (preset dev), which make the short moments longer. Prints a line for every tenth kill and ends with 1 at the first run that is wrong.
"""

import argparse
import json
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "parity")]

import faults  # noqa: E402
import tools  # noqa: E402
from models import MODELS  # noqa: E402

PYTHON = Path(__file__).parents[2] / "python"
STEPS, EVERY, EVALUATED = 400, 7, 20
MOMENTS = ("load", "step", "evaluation", "commit", "pause")
# Pauses before a restart double with each.
RESTARTS_OF_ONE = 2
# Each start begins with the sample that the run needs next.
LOADER = """
import sys
import numpy as np
import polyrank
data = {name: array[int(sys.argv[2])::int(sys.argv[3])] for name, array in np.load(sys.argv[1]).items()}
def batches(first, size=7):
    while True:
        yield {name: array[np.arange(first, first + size) % len(array)] for name, array in data.items()}
        first += size
polyrank.feed(batches)
"""
SLOWER = "load.before:hit=0:attempt=0:action=delay=100;checkpoint.before_rename:rank=launcher:hit=0:action=delay=10"


def commandsOf(folder, feeds):
    """Commands that have a part of the samples each; several have weights 1, 2, 3 .."""
    (folder / "loader.py").write_text(LOADER)
    for number in range(feeds):
        words = sys.executable, folder / "loader.py", folder / "data.npz", number, feeds
        command = f"command:PYTHONPATH={shlex.quote(str(PYTHON))} exec {shlex.join(map(str, words))}"
        yield command if feeds == 1 else f"{command}:{number + 1}"


def makeTraining(folder, kind, feeds):
    model, plan = folder / "model.onnx", folder / "plan"
    MODELS["mlp"].export(model)
    data = MODELS["mlp"].data(2)
    tools.saveData(folder / "data.npz", data)
    # An evaluation takes longer than some steps.
    tools.saveData(folder / "eval.npz", {name: each.repeat(100, *[1] * (each.dim() - 1)) for name, each in data.items()})
    mesh = {"data": "data=2", "four": "data=4", "pipe": "pipe=2"}[kind]
    tools.tool("compile", model, "-o", plan, "--mesh", mesh, *MODELS["mlp"].inputOptions, "--loss", MODELS["mlp"].lossOption,
               "--optimizer", "adamw(lr=0.01)", "--microbatches", 2, "--threads", 1)
    first, *others = commandsOf(folder, feeds) if feeds else [folder / "data.npz"]
    training = faults.Training(plan, first)
    training.options = (*options(folder), *(word for command in others for word in ("--data", command)))
    done = faults.Run(training, folder / "undisturbed", *training.options).end()
    assert done.code == faults.DONE, done.error
    training.weights, training.losses = done.saved, lossesOf(done.log)
    return training


def options(folder):
    return "--steps", STEPS, "--eval-every", EVALUATED, "--eval-data", folder / "eval.npz"


def lossesOf(log):
    return tuple(entry["loss"] for entry in log if "loss" in entry)


def latest(run):
    """What the last records of the log are of, the newest first."""
    text = run.logFile.read_bytes() if run.logFile.exists() else b""
    return [json.loads(line) for line in reversed(text.split(b"\n")[-9:-1]) if line.startswith(b"{")]


def isIn(moment, run):
    """Whether a run is in this moment, as far as that is seen from outside."""
    if not run.said():  # it has not begun, and what there is was left by the run before it
        return False
    records = latest(run)
    kind = next(iter(records[0]), "") if records else ""
    if moment == "load":
        return kind in ("run", "restart") and bool(run.ranks())
    if moment == "evaluation":
        newest = next((record for record in records if "step" in record or "eval" in record), {})
        return newest.get("step", 1) % EVALUATED == 0 and newest["step"] < STEPS
    if moment == "commit":
        return any(run.checkpoints.glob(".tmp-*"))
    if moment == "pause":
        return not run.ranks() and "start again in" in run.said() and kind != "restart"
    return kind == "step"


def awaitMoment(moment, run, seconds=20):
    """False where it does not come before the run ends."""
    limit = time.monotonic() + seconds
    while run.process.poll() is None and time.monotonic() < limit:
        try:
            if isIn(moment, run):
                return True
        except FileNotFoundError:  # the launcher has just ended
            return False
        time.sleep(0.001)
    return False


def feedsOf(run):
    """The processes that give the samples."""
    ranks = run.ranks()
    return [child for child in run.children() if child not in ranks]


def send(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:  # it has ended meanwhile
        return False
    return True


class Soak:
    def __init__(self, training, folder, times, chance):
        self.training, self.folder, self.times, self.chance = training, folder, times, chance
        self.kills, self.runs = Counter(), 0

    def total(self):
        return sum(self.kills.values())

    def strike(self, run, moment):
        """Sends one signal, and returns what it sent to the launcher; 0: none."""
        if not awaitMoment(moment, run):
            return 0
        time.sleep(self.chance.uniform(0, 0.02))
        ranks = run.ranks()
        feeds = feedsOf(run)
        whom = "launcher" if moment == "pause" or not ranks else self.chance.choice(
            ["rank", "rank", "launcher", "scheduler", *["feed"] * bool(feeds)])
        number = signal.SIGTERM if whom == "scheduler" or (whom == "launcher" and self.chance.random() < 0.5) else signal.SIGKILL
        victim = {"rank": self.chance.choice(ranks or [0]), "feed": self.chance.choice(feeds or [0])}.get(whom, run.process.pid)
        if not send(victim, number):
            return 0
        self.kills[moment, whom if whom in ("rank", "feed") else "launcher"] += 1
        if self.total() % 10 == 0:
            print(f"{self.total()} kills in {self.runs} runs", flush=True)
        return 0 if whom in ("rank", "feed") else number

    def once(self, place):
        """One launcher, until its end."""
        run = faults.Run(self.training, place, *self.training.options, "--restarts", 1000, "--resume", "auto", "--keep", 3, every=EVERY, fail=SLOWER)
        sent, restarts = 0, 0
        while not sent and self.total() < self.times and run.process.poll() is None:
            moment = MOMENTS[self.total() % len(MOMENTS)]
            if moment == "pause" and restarts <= RESTARTS_OF_ONE:
                # There is one when a rank has died.
                if awaitMoment("step", run) and (ranks := run.ranks()):
                    restarts += send(self.chance.choice(ranks), signal.SIGKILL)
            before = self.total()
            sent = self.strike(run, moment)
            restarts += self.total() > before
            if restarts > RESTARTS_OF_ONE:
                break
        outcome = run.end(300)
        self.checkCode(outcome, sent)
        return outcome

    def checkCode(self, outcome, sent):
        """Whether the exit code is right after this signal to the launcher."""
        allowed = {faults.DONE}
        if sent == signal.SIGKILL:
            allowed.add(-signal.SIGKILL)
        elif sent:
            # Before the first checkpoint there may be nothing to save.
            allowed |= {faults.PREEMPTED} | ({faults.RANK} if "interrupted by" in outcome.error and "going on from" not in outcome.error else set())
        if "attempts in a row have come no step further" in outcome.error:
            allowed.add(faults.RANK)
        if outcome.code not in allowed:
            sys.exit(f"run {self.runs}: exit code {outcome.code} after {self.total()} kills\n{outcome.error[-4000:]}")

    def go(self):
        while self.total() < self.times:
            self.runs += 1
            place = self.folder / f"run{self.runs}"
            while (outcome := self.once(place)).code != faults.DONE:
                pass
            if outcome.saved != self.training.weights or lossesOf(outcome.log) != self.training.losses:
                sys.exit(f"run {self.runs}: other weights or losses after {self.total()} kills\n{outcome.error[-4000:]}")
        said = ", ".join(f"{count} of a {whom} ({moment})" for (moment, whom), count in sorted(self.kills.items()))
        print(f"{said}, in {self.runs} runs: the weights are always the same")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=["data", "four", "pipe"], default="data")
    parser.add_argument("--feeds", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Soak(makeTraining(folder, chosen.kind, chosen.feeds), folder, chosen.times, random.Random(chosen.seed)).go()


if __name__ == "__main__":
    main()
