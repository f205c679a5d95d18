"""The steps of pipelines and their bubbles, rehearsed on time-shared ranks, beside the formulas of docs/schedules.md.

    chrt -f 50 .venv/bin/python tools/bench/rehearse.py --bin build/release/bin

Each plan is rehearsed with times by which all stages are equal: a forward of a rank takes --forward, a backward twice
that, half of it for what the stage got and half for its weights, and nothing else takes any time. Then a step takes
what the schedule's formula says, and the rest of it than what a rank computes is its bubble. The real-time priority
of chrt (root) lets many ranks sleep and wake on few cores as if each had its own.
"""

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import contenders
import workload

ROOT = Path(__file__).resolve().parents[2]

# name: (chunks, time of a step in forwards with P stages on ranks and m microbatches, m >= 2 P - 1)
SCHEDULES = {
    "gpipe": (1, lambda P, m: 3 * (m + P - 1)),
    "1f1b": (1, lambda P, m: 3 * (m + P - 1)),
    "interleaved": (2, lambda P, m: 3 * m + 3 * (P - 1) / 2),
    "zero-bubble": (1, lambda P, m: max(3 * m + P - 1, 2 * m + 2 * P - 1)),
    "zero-bubble-v": (2, lambda P, m: max(6 * m + P - 1, 4 * m + 4 * P - 2) / 2),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path, help="folder of our tools")
    parser.add_argument("--work", default=ROOT / "build/bench", type=Path, help="folder for files")
    parser.add_argument("--schedules", nargs="+", default=list(SCHEDULES), choices=list(SCHEDULES))
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8], help="of the pipe axis (default 4 8)")
    parser.add_argument("--microbatches", type=int, nargs="+", default=[8, 16, 32, 64], help="default 8 16 32 64")
    parser.add_argument("--forward", type=float, default=20, help="milliseconds of a rank's forward (default 20)")
    parser.add_argument("--steps", type=int, default=2, help="of a run; the least counts (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to this file")
    return parser.parse_args()


def withEqualStages(times, chunks, microseconds):
    """Each segment takes its share of a rank's forward, all of it in the command in its middle: what is sent is sent
    behind that, what is received comes before it. What `last` has besides the last microbatch's backward, or
    gradients of weights where they are apart, is the update, which takes no time here."""
    apart = any(segment["name"].startswith("weights") for segment in times["segments"])
    final = "weights" if apart else "backward"
    shares = {"forward": 1, "backward": 1 if apart else 2, "weights": 1}
    shares["last"] = shares[final]

    def what(command):
        return command["command"], command["op"]

    ofMicrobatches = {}  # of each program, what its last segment may have of a microbatch
    for segment in times["segments"]:
        if segment["name"].startswith(final):
            ofMicrobatches.setdefault(segment["at"], set()).update(map(what, segment["commands"]))
    for segment in times["segments"]:
        kind, commands = segment["name"].split()[0], segment["commands"]
        for command in commands:
            command["microseconds"] = 0
        if kind == "last":
            commands = [command for command in commands if what(command) in ofMicrobatches[segment["at"]]]
        if kind in shares:
            if not commands:
                raise contenders.Failed(f"segment '{segment['name']}' of {segment['at']} computes nothing")
            commands[len(commands) // 2]["microseconds"] = shares[kind] * microseconds / chunks
    return times


def rehearse(args, folder, model, schedule, ranks, microbatches):
    """The least of a step in seconds, and what the formula says."""
    chunks, formula = SCHEDULES[schedule]
    plan, times = folder / "rehearse.plan", folder / "times.json"
    contenders.run([args.bin / "polyrank-compile", model, "-o", plan,
                    "--loss", "cross_entropy(logits,labels)", "--mesh", f"pipe={ranks}", "--chunks", chunks,
                    "--schedule", schedule, "--microbatches", microbatches, "--zero", 0])
    times.unlink(missing_ok=True)
    contenders.run([args.bin / "polyrank-inspect", plan, "--times", times])
    times.write_text(json.dumps(withEqualStages(json.loads(times.read_text()), chunks, 1e3 * args.forward)))
    ran = json.loads(contenders.run([args.bin / "polyrank-run", plan, "--rehearse", times, "--steps", args.steps, "--json"]))
    return ran["least_seconds_per_step"], formula(ranks, microbatches) * 1e-3 * args.forward


def main():
    args = arguments()
    folder = args.work.resolve() / "rehearse"
    folder.mkdir(parents=True, exist_ok=True)
    # Of so many layers that each of 16 stages has weights.
    work = SimpleNamespace(model="gpt2", layers=32, heads=2, width=32, vocab=256, context=32, length=32, batch=1,
                           microbatches=1)
    model = folder / "gpt2.onnx"
    workload.export(work, workload.build(work), model)
    rows = []
    print("| schedule | ranks | microbatches | step, ms | by formula, ms | more | ranks stand | by formula |")
    print("|---|---|---|---|---|---|---|---|")
    try:
        for schedule in args.schedules:
            for ranks in args.ranks:
                for microbatches in args.microbatches:
                    if microbatches < ranks:
                        continue
                    step, wanted = rehearse(args, folder, model, schedule, ranks, microbatches)
                    work = 3e-3 * args.forward * microbatches
                    rows.append({"schedule": schedule, "ranks": ranks, "microbatches": microbatches, "seconds": step,
                                 "formula": wanted, "bubble": 1 - work / step, "bubble_formula": 1 - work / wanted})
                    print(f"| `{schedule}` | {ranks} | {microbatches} | {1e3 * step:.1f} | {1e3 * wanted:.1f} | "
                          f"{step / wanted - 1:+.2%} | {1 - work / step:.2%} | {1 - work / wanted:.2%} |", flush=True)
    except contenders.Failed as error:
        sys.exit(f"rehearse.py: {error}")
    if args.json:
        args.json.write_text(json.dumps({"forward_ms": args.forward, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
