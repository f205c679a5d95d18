"""How much of communication is hidden, over links that one machine can hold back to, and what a trace costs.

    .venv/bin/python tools/bench/overlap.py --bin build/release/bin

Two ranks train a GPT-2 with ZeRO 1 and 3, in one and in four microbatches, with --overlap on and off; collectives are
held back to --link. The rates by which the compiler schedules are those that the same model reaches here
(polyrank-run --profile). All plans take turns; a time is the least of a step over all turns, and what was hidden is
read from the trace of the fastest step (polyrank-inspect --compare). The last rows are the same plans with and
without --trace, at full speed.
"""

import argparse
import json
import sys
from pathlib import Path

import contenders
import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path, help="folder of our tools")
    parser.add_argument("--work", default=ROOT / "build/bench", type=Path, help="folder for files")
    parser.add_argument("--model", default=ROOT / "test/models/gpt2-bytes.onnx", type=Path, help="a GPT-2 in ONNX")
    parser.add_argument("--vocab", type=int, default=256, help="of its tokens (default 256)")
    parser.add_argument("--batch", type=int, default=8, help="of a microbatch, over all ranks (default 8)")
    parser.add_argument("--length", type=int, default=128, help="of a sequence (default 128)")
    parser.add_argument("--ranks", type=int, default=2, help="default 2")
    parser.add_argument("--link", default="20:0.5", help="MICROSECONDS:GB_PER_S (default 20:0.5)")
    parser.add_argument("--zero", type=int, nargs="+", default=[1, 3], help="stages of ZeRO (default 1 3)")
    parser.add_argument("--microbatches", type=int, nargs="+", default=[1, 4], help="default 1 4")
    parser.add_argument("--compile", default="", help="further options of polyrank-compile, as one text")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each plan (default 5)")
    parser.add_argument("--steps", type=int, default=8, help="of a turn; the first is not counted (default 8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to this file")
    return parser.parse_args()


class Bench:
    def __init__(self, args):
        self.args = args
        self.folder = args.work.resolve() / "overlap"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "tokens.u32"
        tokens = np.random.default_rng(0).integers(args.vocab, size=1 << 20, dtype=np.uint32)
        tokens.tofile(self.data)
        self.link = f"data={args.link}"

    def compile(self, plan, zero, microbatches, *options):
        args = self.args
        contenders.run([args.bin / "polyrank-compile", args.model, "-o", plan, "--mesh", f"data={args.ranks}",
                        "--input", f"input_ids=int64[{args.batch},{args.length}]",
                        "--loss", "cross_entropy(logits,labels)", "--optimizer", "adamw(lr=1e-4)", "--zero", zero,
                        "--microbatches", microbatches, *args.compile.split(), *options])

    def run(self, plan, *options):
        return json.loads(contenders.run([self.args.bin / "polyrank-run", plan, "--data", self.data, "--steps",
                                          self.args.steps, "--json", *options]))

    def rates(self):
        """GFLOPS:GB_PER_S that this model's products and its other kernels reach."""
        plan, profile = self.folder / "rates.plan", self.folder / "profile.json"
        self.compile(plan, 1, 1)
        best = {"flops_per_second": 0, "bytes_per_second": 0}
        for _ in range(self.args.rounds):
            self.run(plan, "--profile", profile)
            reached = json.loads(profile.read_text())["reached"]
            best = {name: max(best[name], reached[name]) for name in best}
        return f"{best['flops_per_second'] * 1e-9:.4g}:{best['bytes_per_second'] * 1e-9:.4g}"

    def compare(self, plan, trace):
        return json.loads(contenders.run([self.args.bin / "polyrank-inspect", plan, "--compare", trace, "--json"]))


def hidden(comparison, which):
    """Seconds of a step in which collectives ran and the rank computed, and of all collectives."""
    lines = comparison["collectives"]
    return (sum(line["seconds"][which] - line["stood"][which] for line in lines),
            sum(line["seconds"][which] for line in lines))


def overPacedLinks(bench, rates, say):
    args, trace = bench.args, bench.folder / "trace.json"
    rows = [{"zero": zero, "microbatches": microbatches, "overlap": overlap, "least": None}
            for zero in args.zero for microbatches in args.microbatches for overlap in ("on", "off")]
    for row in rows:
        row["plan"] = bench.folder / "zero{zero}-{microbatches}-{overlap}.plan".format(**row)
        bench.compile(row["plan"], row["zero"], row["microbatches"], "--overlap", row["overlap"], "--link", bench.link,
                      "--rates", rates)
    for number in range(1, args.rounds + 1):
        for row in rows:
            least = bench.run(row["plan"], "--link", bench.link, "--trace", trace)["least_seconds_per_step"]
            if row["least"] is None or least < row["least"]:
                row["least"], row["comparison"] = least, bench.compare(row["plan"], trace)
        say(f"round {number}: " + ", ".join(f"{1e3 * row['least']:.1f}" for row in rows) + " ms")
    return rows


def printPaced(rows):
    print("| ZeRO | microbatches | step, ms | by the model, ms | ratio | communication, ms | hidden, ms | as planned, ms "
          "| share | synchronous, ms | by the model, ms |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for on, off in zip(rows[::2], rows[1::2], strict=True):
        planned, measured = on["comparison"]["seconds"]["planned"], on["least"]
        done, total = hidden(on["comparison"], "measured")
        wanted, _ = hidden(on["comparison"], "planned")
        print(f"| {on['zero']} | {on['microbatches']} | {1e3 * measured:.1f} | {1e3 * planned:.1f} | "
              f"{measured / planned:.2f} | {1e3 * total:.1f} | {1e3 * done:.1f} | {1e3 * wanted:.1f} | "
              f"{done / wanted if wanted > 0 else 1:.0%} | {1e3 * off['least']:.1f} | "
              f"{1e3 * off['comparison']['seconds']['planned']:.1f} |")


def costOfTraces(bench, rows, say):
    """The least of a step with and without a trace, in turns."""
    costs = []
    for row in rows[::2]:
        least = {"without": [], "with": []}
        for number in range(1, bench.args.rounds + 1):
            # Who comes first changes from round to round.
            for name in sorted(least, reverse=number % 2 == 0):
                options = ["--trace", bench.folder / "trace.json"] if name == "with" else []
                least[name].append(bench.run(row["plan"], *options)["least_seconds_per_step"])
        costs.append({"zero": row["zero"], "microbatches": row["microbatches"], **least})
        say(f"trace of ZeRO {row['zero']}: {1e3 * min(least['without']):.2f}, {1e3 * min(least['with']):.2f} ms")
    return costs


def printCosts(costs):
    print("| ZeRO | microbatches | step, ms | with --trace, ms | more |")
    print("|---|---|---|---|---|")
    for cost in costs:
        without, traced = min(cost["without"]), min(cost["with"])
        print(f"| {cost['zero']} | {cost['microbatches']} | {1e3 * without:.2f} | {1e3 * traced:.2f} | "
              f"{traced / without - 1:+.2%} |")


def main():
    args = arguments()

    def say(text):
        print(text, file=sys.stderr, flush=True)

    try:
        bench = Bench(args)
        rates = bench.rates()
        say(f"--rates {rates}")
        rows = overPacedLinks(bench, rates, say)
        print(f"{args.ranks} ranks, {args.batch} x {args.length} tokens in a microbatch, --link {bench.link}, "
              f"--rates {rates}; {args.rounds} rounds of {args.steps} steps.\n")
        printPaced(rows)
        costs = costOfTraces(bench, rows, say)
        print()
        printCosts(costs)
    except contenders.Failed as error:
        sys.exit(f"overlap.py: {error}")
    if args.json:
        result = {"options": {name: str(value) for name, value in vars(args).items()}, "rates": rates,
                  "rows": [{**row, "plan": str(row["plan"])} for row in rows], "traces": costs}
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
