"""Steps of GPT-2 on two machines of one rank each, beside torch's DistributedDataParallel over gloo on the same two machines.

    .venv/bin/python tools/bench/two_machines.py --bin build/release/bin                  as fast as it goes
    .venv/bin/python tools/bench/two_machines.py --bin build/release/bin --rate 1gbit     as over such a network

The machines are network namespaces with a bridge between them (test/cluster/machines.py), which takes root or a kernel that lets
everybody make them; with --rate a token bucket of tc holds back what each sends. Both sides train the same weights on the same
batches with AdamW in fp32, each rank with one thread, and their losses must agree. DDP is at its best: gradients that are views
of its buckets, buckets of the usual size, the fused AdamW, gloo on the interface of its machine. Ours is what the compiler makes
of --machines 2 and --link machine=.., without other options.

All contenders take turns in each round. The time of a turn is the mean of its steps without the first; a table has the least of
the rounds, and the ratio of the medians beside that of the least. Bytes are those that left a machine's interface in a turn, by its
counter, for each step. Two floors are measured in the same rounds: the raw exchange (tools/bench/wire.py) of four bytes a
parameter each way, which no sum of fp32 gradients can do without, and a step of one rank alone, with its half of the batch.
"""

import argparse
import contextlib
import json
import re
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import contenders
import numpy as np
import rows
import train
import workload
from contenders import Failed

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cluster"))
import machines  # noqa: E402

MODELS = {"gpt2": dict(layers=12, heads=12, width=768, vocab=50257, context=1024, length=64, batch=8),
          "small": dict(layers=2, heads=4, width=128, vocab=512, context=64, length=32, batch=4)}
OURS, DDP, RAW, ALONE = "ours", "DDP over gloo", "raw exchange", "one rank alone"
MICROSECONDS = 50  # of a message between the two, for --link
WHOLE = 1.0  # GB/s without --rate, for --link
UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}


def bytesPerSecond(rate):
    """Of a rate as tc has it: 10mbit, 1gbit."""
    found = re.fullmatch(r"([\d.]+)([kmg])bit", rate)
    if not found:
        raise argparse.ArgumentTypeError(f"'{rate}' is not a rate such as 100mbit or 1gbit")
    return float(found[1]) * UNITS[found[2]] / 8


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path, help="folder of our tools")
    parser.add_argument("--work", default=ROOT / "build/bench", type=Path, help="folder for files, some GB")
    parser.add_argument("--rate", help="of what each machine sends, as tc has it: 1gbit (default: as fast as it goes)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender (default 3)")
    parser.add_argument("--steps", type=int, default=6, help="of a turn; the first is not counted (default 6)")
    parser.add_argument("--model", choices=MODELS, default="gpt2", help="gpt2 is the one of 124 M parameters; small tries whether it works")
    parser.add_argument("--batch", type=int, help="of both ranks together (default 8)")
    parser.add_argument("--sequence", type=int, help="tokens of a sample (default 64)")
    parser.add_argument("--link", help="MICROSECONDS:GB_PER_S that the compiler reckons with (default: 50 and --rate, or 1 GB/s)")
    parser.add_argument("--compile", default="", help="further options of polyrank-compile, as one text")
    parser.add_argument("--run", default="", help="further options of polyrank-run, as one text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to this file")
    args = parser.parse_args()
    if args.steps < 2 or args.rounds < 1:
        parser.error("--steps must be 2 or more and --rounds 1 or more")
    if args.batch is not None and (args.batch < 2 or args.batch % 2):
        parser.error(f"--batch {args.batch} cannot be shared by two ranks; give an even number")
    try:
        args.link = args.link or f"{MICROSECONDS}:{bytesPerSecond(args.rate) / 1e9 if args.rate else WHOLE:g}"
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return args


def workOf(args, folder):
    """The workload (workload.py)."""
    work = SimpleNamespace(model="gpt2", mode="train", shards=(), ranks=2, threads=1, steps=args.steps, zero=1, microbatches=0,
                           precision="fp32", folder=str(folder), onnx=str(folder / "gpt2.onnx"), **MODELS[args.model])
    work.batch = args.batch or work.batch
    work.length = args.sequence or work.length
    work.context = max(work.context, work.length)
    return work


def writeFiles(work):
    """The model, with an open batch, and the samples. Returns the number of its parameters."""
    model = workload.build(work)
    workload.export(work, model, work.onnx, dynamic=True)
    np.savez(Path(work.folder) / "data.npz", **workload.draw(work))
    return sum(parameter.numel() for parameter in model.parameters())


def polyrank(work, args, cluster):
    """Compiles for both machines; a turn is one job of them."""
    folder = Path(work.folder)
    plan, log, key = folder / "plan", folder / "log.jsonl", folder / "job.key"
    contenders.compilePlan(work, args.bin, plan, "data=2", "--dim", f"batch={work.batch}", "--machines", 2, "--link", f"machine={args.link}",
                           *args.compile.split())
    contenders.run([args.bin / "polyrank-run", "--new-key", key])

    def turn(steps):
        log.unlink(missing_ok=True)
        said = [folder / f"ours-{machine.name}.log" for machine in cluster]
        started = []
        for machine, errors in zip(cluster, said):
            with open(errors, "wb") as file:
                started.append(machine.start(
                    args.bin / "polyrank-run", plan, "--data", folder / "data.npz", "--steps", steps, "--order", "sequential", "--log", log,
                    "--key", key, "--machines", 2, "--machine", machine.number, "--rendezvous", cluster[0].four, "--bind-to", "none",
                    *args.run.split(), folder=folder, stdout=file, stderr=file))
        codes = [process.wait() for process in started]
        for machine, errors, code in zip(cluster, said, codes):
            machine.started.clear()
            if code:
                raise Failed(f"polyrank-run on machine {machine.name} ended with {code}: {contenders.lastLine(errors.read_text())}")
        return contenders.logged(log)

    return turn


def contendersOf(work, args, parameters, cluster, stack):
    """name -> turn."""
    peer = contenders.peer(DDP, work, cluster.machines)  # it starts while we compile
    stack.callback(peer.close)
    raw = contenders.Worker(RAW, "exchange", SimpleNamespace(**vars(work), bytes=4 * parameters, address=cluster[0].four), 2, cluster.machines)
    stack.callback(raw.close)
    alone = SimpleNamespace(**{**vars(work), "ranks": 1, "batch": work.batch // 2})
    turns = {OURS: polyrank(work, args, cluster), DDP: peer.turn, RAW: raw.turn,
             ALONE: contenders.polyrank(alone, args.bin, label="alone-", options=("--dim", f"batch={alone.batch}"))}
    peer.awaitReady()
    raw.awaitReady()
    return turns


def takeTurns(turns, args, cluster, say):
    """name -> of each round seconds and bytes of a step, and the turn's answer."""
    results = {name: [] for name in turns}
    for number in range(1, args.rounds + 1):
        for name, turn in turns.items():
            before = [machine.sent() for machine in cluster]
            answer = turn(args.steps)
            sent = max(machine.sent() - count for machine, count in zip(cluster, before)) / args.steps
            results[name].append({**answer, "mean": statistics.mean(answer["seconds"][1:]), "bytes": sent})
        if difference := rows.disagreement(DDP, results[OURS][-1]["losses"], results[DDP][-1]["losses"], "fp32"):
            raise Failed(difference)
        say(f"round {number}: " + ", ".join(f"{name} {results[name][-1]['mean']:.3f} s" for name in turns))
    return results


def summary(args, work, results):
    """What a line of the table has."""
    least = {name: min(turn["mean"] for turn in turns) for name, turns in results.items()}
    median = {name: statistics.median(turn["mean"] for turn in turns) for name, turns in results.items()}
    sent = {name: statistics.median(turn["bytes"] for turn in turns) for name, turns in results.items()}
    return {"network": args.rate or "whole", "batch": work.batch, "length": work.length, "least": least, "median": median,
            "ratio": least[DDP] / least[OURS], "median_ratio": median[DDP] / median[OURS], "bytes": sent}


def printTable(row):
    print("| network | DDP over gloo, s | ours, s | DDP / ours | of medians | raw exchange, s | one rank alone, s | DDP sends, MB "
          "| ours sends, MB | raw, MB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    seconds = [row["least"][name] for name in (DDP, OURS, RAW, ALONE)]
    cells = [*seconds[:2], row["ratio"], row["median_ratio"], *seconds[2:], *(row["bytes"][name] / 1e6 for name in (DDP, OURS, RAW))]
    print(f"| {row['network']} | " + " | ".join(map(train.number, cells)) + " |")


def measure(args, say):
    if reason := machines.whyNot():
        raise Failed(reason)
    if not contenders.isInstalled(DDP):
        raise Failed("torch is not installed")
    for tool in ("polyrank-compile", "polyrank-run"):
        if not (args.bin / tool).exists():
            raise Failed(f"{tool} is not in {args.bin}")
    (folder := args.work.resolve() / "two-machines").mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.rendezvous"):
        stale.unlink()
    (folder / "job.key").unlink(missing_ok=True)
    work = workOf(args, folder)
    parameters = writeFiles(work)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        cluster = stack.enter_context(machines.Cluster(own, folder))
        if args.rate:
            for machine in cluster:
                machine.limit(args.rate, burst="1mb", latency="100ms")
        turns = contendersOf(work, args, parameters, cluster, stack)
        results = takeTurns(turns, args, cluster, say)
    return {**summary(args, work, results), "link": args.link, "parameters": parameters, "turns": results}


def main():
    args = arguments()

    def say(text):
        print(text, file=sys.stderr, flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the machines are removed
    machine = train.machine()
    try:
        row = measure(args, say)
    except Failed as error:
        sys.exit(f"two_machines.py: {error}")
    print(train.describe(machine))
    print(f"GPT-2 of {row['parameters'] / 1e6:.1f} M parameters, batch {row['batch']} x {row['length']}, --link machine={row['link']}; "
          f"{args.rounds} rounds of {args.steps} steps.\n")
    printTable(row)
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, **row}, indent=1) + "\n")


if __name__ == "__main__":
    main()
