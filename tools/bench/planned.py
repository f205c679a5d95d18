"""The planned step against the measured one, for twelve plans on the machine that this runs on.

    .venv/bin/python tools/bench/planned.py --bin build/release/bin

Measures the machine (polyrank-run --calibrate), unless --machine names a file, and compiles all plans with the file.
The plans take turns; a step is the median of all its steps, but for the first two of each turn, and beside it stands
the least. "paced" plans have links that are slower than this machine's, to which the run holds collectives back.
Errors are (planned - measured) / measured, so a minus says that the model is too fast.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace

import contenders
import numpy as np
import workload

ROOT = Path(__file__).resolve().parents[2]
PACED = "20:0.5"  # microseconds and GB/s
LENGTH, CLASSES = 128, 1024

GPT2_TENSOR = ("*.c_attn.weight=[-,tensor]", "*.c_fc.weight=[-,tensor]", "*wte.weight=[tensor,-]")
LLAMA_TENSOR = tuple(f"*.{name}.weight=[tensor,-]" for name in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"))
PIPE = ("--microbatches", 4)


def plan(model, mesh, *options, shards=(), paced=False):
    axis = mesh.split("=")[0]
    link = ("--link", f"{axis}={PACED}") if paced else ()
    name = " ".join(map(str, (model, mesh, *options, *(("paced",) if paced else ()))))
    return SimpleNamespace(name=name, model=model, mesh=mesh, options=options, shards=shards, link=link)


PLANS = [
    plan("gpt2", "data=2", "--zero", 1),
    plan("gpt2", "data=2", "--zero", 3),
    plan("gpt2", "data=2", "--zero", 1, paced=True),
    plan("gpt2", "tensor=2", shards=GPT2_TENSOR),
    plan("gpt2", "pipe=2", *PIPE),
    plan("llama", "data=2", "--zero", 3, paced=True),
    plan("llama", "tensor=2", shards=LLAMA_TENSOR),
    plan("llama", "pipe=2", *PIPE, paced=True),
    plan("resnet", "data=2", "--zero", 1),
    plan("resnet", "pipe=2", *PIPE),
    plan("experts", "data=2", "--zero", 1),
    plan("lstm", "data=2", "--zero", 1),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path, help="folder of our tools")
    parser.add_argument("--work", default=ROOT / "build/bench", type=Path, help="folder for files")
    parser.add_argument("--machine", type=Path, help="a machine file (default: calibrate now)")
    parser.add_argument("--calibrate-seconds", type=float, default=60, help="default 60")
    parser.add_argument("--models", nargs="+", default=["gpt2", "llama", "resnet", "experts", "lstm"], help="default all")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each plan (default 5)")
    parser.add_argument("--steps", type=int, default=8, help="of a turn; the first two are not counted (default 8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to this file")
    return parser.parse_args()


def work(model):
    """What workload.py knows of a model."""
    return SimpleNamespace(model=model, batch=8, microbatches=0, width=256, classes=CLASSES, length=LENGTH, heads=4,
                           image=64, depths=(3, 4, 6, 3), ranks=2, threads=1)


def samplesOf(model, count):
    random = np.random.default_rng(1)
    if model == "resnet":
        return {"x": random.standard_normal((count, 3, 64, 64), dtype=np.float32), "labels": random.integers(100, size=count)}
    tokens = random.integers(CLASSES, size=(count, LENGTH + 1))
    return {"ids" if model in workload.LANGUAGES else "input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}


class Model:
    """The exported file, its samples, and what the compiler needs to know of it."""

    def __init__(self, model, folder, steps):
        families = workload.families()
        folder.mkdir(parents=True, exist_ok=True)
        self.data, self.options = folder / "data.npz", ["--dim", "batch=8"]
        self.loss = "cross_entropy(logits,labels)"
        if model in workload.LANGUAGES:
            self.path, self.options, self.loss = folder / "model.pt2", [], "cross_entropy(output,labels,axis=2)"
            if not self.path.exists():
                workload.export(work(model), workload.build(work(model)), str(self.path))
        else:
            self.path = folder / "model.onnx"
            family, sizes = {
                "gpt2": (families.Gpt2, (4, 4, 256, CLASSES, LENGTH)),
                "llama": (families.Llama, (4, 4, 2, 256, CLASSES, LENGTH)),
                "resnet": (families.ResNet, (16, (64, 64), 100, (3, 4, 6, 3))),
            }[model]
            if model == "resnet":
                self.options += ["--batch-norm", "batch"]
            if not self.path.exists():
                family.export(family.build(*sizes), str(self.path), dynamic=True)
        np.savez(self.data, **samplesOf(model, 4 * 8 * steps))


class Row:
    def __init__(self, plan, model, folder, number, machine, bin):
        self.plan, self.model, self.bin, self.steps = plan, model, bin, []
        self.file, self.log = folder / f"{number}.plan", folder / f"{number}.jsonl"
        contenders.run([bin / "polyrank-compile", model.path, "-o", self.file, "--mesh", plan.mesh, "--threads", 1,
                        "--machine", machine, "--loss", model.loss, "--optimizer", "adamw(lr=1e-4)",
                        *contenders.shardOptions(plan.shards), *model.options, *plan.options, *plan.link])
        report = json.loads(contenders.run([bin / "polyrank-inspect", self.file, "--json"]))
        self.planned = report["seconds_per_step"]

    def turn(self, steps):
        self.log.unlink(missing_ok=True)
        contenders.run([self.bin / "polyrank-run", self.file, "--data", self.model.data, "--steps", steps, "--log", self.log,
                        "-q", *self.plan.link])
        entries = [entry for entry in map(json.loads, self.log.read_text().splitlines()) if "step" in entry]
        self.steps += [entry["seconds"] for entry in entries][2:]

    @property
    def measured(self):
        return statistics.median(self.steps)

    @property
    def error(self):
        return self.planned / self.measured - 1


def printTable(rows):
    print("| plan | planned, ms | measured, ms | error | least, ms |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(f"| `{row.plan.name}` | {1e3 * row.planned:.1f} | {1e3 * row.measured:.1f} | {100 * row.error:+.0f} % "
              f"| {1e3 * min(row.steps):.1f} |")
    errors = [abs(row.error) for row in rows]
    print(f"\nmedian error {100 * statistics.median(errors):.1f} %, at worst {100 * max(errors):.1f} %, of {len(rows)} plans")


def main():
    args = arguments()
    folder = args.work.resolve() / "planned"
    folder.mkdir(parents=True, exist_ok=True)
    machine = args.machine
    try:
        if not machine:
            machine = folder / "machine.toml"
            print(contenders.run([args.bin / "polyrank-run", "--calibrate", "-o", machine, "--calibrate-seconds",
                                  args.calibrate_seconds]), file=sys.stderr)
        models = {name: Model(name, folder / name, args.steps) for name in args.models}
        rows = [Row(each, models[each.model], folder, number, machine, args.bin)
                for number, each in enumerate(PLANS) if each.model in models]
        for number in range(1, args.rounds + 1):
            for row in rows:
                row.turn(args.steps)
            print(f"round {number}: " + ", ".join(f"{100 * row.error:+.0f} %" for row in rows), file=sys.stderr)
    except contenders.Failed as failed:
        sys.exit(f"planned.py: {failed}")
    printTable(rows)
    if args.json:
        args.json.write_text(json.dumps([{"plan": row.plan.name, "planned": row.planned, "steps": row.steps} for row in rows], indent=1))


if __name__ == "__main__":
    main()
