"""Kills a random rank, or the launcher, of a run with checkpoints at random moments; the final weights must be bit for bit the same.

    soak.py [--times N] [--seed S] [--kind data|four|pipe]

A rank that is killed is restarted by its launcher (--restarts); of a launcher that is killed the same command line starts again, with
--resume auto. POLYRANK_BIN names the tools. Prints a line for every tenth kill and ends with 1 at the first run whose weights differ.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "parity")]

import faults  # noqa: E402
import tools  # noqa: E402
from models import MODELS  # noqa: E402

STEPS = 400


def makeTraining(folder, kind):
    model, plan = folder / "model.onnx", folder / "plan"
    MODELS["mlp"].export(model)
    tools.saveData(folder / "data.npz", MODELS["mlp"].data(2))
    mesh = {"data": "data=2", "four": "data=4", "pipe": "pipe=2"}[kind]
    tools.tool("compile", model, "-o", plan, "--mesh", mesh, *MODELS["mlp"].inputOptions, "--loss", MODELS["mlp"].lossOption,
               "--optimizer", "adamw(lr=0.01)", "--microbatches", 2, "--threads", 1)
    training = faults.Training(plan, folder / "data.npz")
    before = time.monotonic()
    done = faults.Run(training, folder / "undisturbed", "--steps", STEPS).end()
    assert done.code == faults.DONE, done.error
    training.weights = done.saved
    return training, time.monotonic() - before


def soak(training, seconds, folder, times, chance):
    """Runs until the weights are there, again and again; kills at random until it has killed so often."""
    kills, runs, ofLaunchers = 0, 0, 0
    while kills < times:
        runs += 1
        place = folder / f"run{runs}"
        while True:
            run = faults.Run(training, place, "--steps", STEPS, "--restarts", 1000, "--resume", "auto", "--keep", 3, every=7)
            wantsKill = kills < times
            while wantsKill and run.process.poll() is None:
                # Now and then in the middle of loading, or of a pause before a restart.
                time.sleep(chance.uniform(0, seconds))
                if run.process.poll() is not None:
                    break
                victims = [*run.ranks(), run.process.pid]
                victim = chance.choice(victims)
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:  # it has ended meanwhile
                    continue
                kills += 1
                ofLaunchers += victim == run.process.pid
                if kills % 10 == 0:
                    print(f"{kills} kills, {ofLaunchers} of them of launchers, in {runs} runs", flush=True)
                wantsKill = kills < times and victim != run.process.pid
            outcome = run.end(300)
            if outcome.code == faults.DONE:
                break
            # Killed in the same step twice by chance, or before the first one: started again by whoever watches.
            assert outcome.code in (-signal.SIGKILL, faults.RANK), outcome.error
        if outcome.saved != training.weights:
            sys.exit(f"run {runs}: other weights after {kills} kills\n{outcome.error[-4000:]}")
    print(f"{times} kills, {ofLaunchers} of them of launchers, in {runs} runs: the weights are always the same")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=["data", "four", "pipe"], default="data")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        training, seconds = makeTraining(folder, options.kind)
        soak(training, seconds, folder, options.times, random.Random(options.seed))


if __name__ == "__main__":
    main()
