"""Steps of GPT-2, ResNet-50 and an LSTM side by side with other frameworks, on the same machine in the same minutes.

    .venv/bin/python tools/bench/train.py --bin build/release/bin --rows all --json build/bench.json

Each row runs our tools and its peers turn by turn, in fp32 or as its title says, on the same weights and batches; the losses must
agree, or there is nothing to compare. A time is the least of a step over all turns. The floor is what the
machine allows in the same run: the layers' products at the best rate that torch reaches for their shapes, the
optimizer's memory traffic, and the gradients' all-reduce at our rate. Packages that the peers need
besides test/parity/requirements.txt are in tools/bench/requirements.txt; a peer that is missing is said so.
"""

import argparse
import importlib.metadata
import json
import math
import os
import platform
import sys
from pathlib import Path

import rows

ROOT = Path(__file__).resolve().parents[2]

# Seconds for a row instead of minutes.
SMALL = dict(layers=2, heads=4, width=128, vocab=512, context=64, length=32, lstm_width=32, lstm_batch=4,
             experts_width=64, experts_batch=4, resnet_width=8, depths=[1, 1, 1, 1], image=32, classes=10, rounds=1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="all", help=f"comma-separated, or all: {', '.join(rows.ROWS)}")
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path, help="folder of our tools")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="compare with our tools of another build instead")
    parser.add_argument("--work", default=ROOT / "build/bench", type=Path, help="folder for files, some GB")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to this file")
    parser.add_argument("--small", action="store_true", help="small models, one round: does it work?")
    for name, default, text in (
            ("rounds", 3, "turns of each contender"), ("steps", 6, "of a turn; the first is not counted"),
            ("layers", 12, "of GPT-2"), ("heads", 12, ""), ("width", 768, ""), ("vocab", 50257, ""),
            ("context", 1024, ""), ("length", 64, "of a sequence"), ("batch", 4, "of GPT-2"),
            ("lstm-batch", 16, ""), ("lstm-width", 512, ""), ("experts-batch", 8, ""),
            ("experts-width", 512, ""), ("resnet-batch", 8, ""), ("resnet-width", 64, ""), ("image", 64, ""), ("classes", 1000, "")):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default})")
    parser.add_argument("--depths", type=lambda text: list(map(int, text.split(","))), default=[3, 4, 6, 3],
                        help="of ResNet's stages (default 3,4,6,3)")
    if parser.parse_args().small:
        parser.set_defaults(**SMALL)
    args = parser.parse_args()
    args.rows = list(rows.ROWS) if args.rows == "all" else args.rows.split(",")
    for name in args.rows:
        if name not in rows.ROWS:
            parser.error(f"no row '{name}'; there are {', '.join(rows.ROWS)}")
    if args.steps < 2 or args.rounds < 1:
        parser.error("--steps must be 2 or more and --rounds 1 or more")
    return args


def machine():
    """Cores, memory, what the processor can do, and the packages that took part."""
    info = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    info = {key.strip(): value.strip() for key, value in info.items()}
    wanted = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
    versions = {}
    for package in ("torch", "jax", "onnxruntime", "transformers", "numpy"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {"processor": info.get("model name", platform.processor()), "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "flags": [flag for flag in wanted if flag in info.get("flags", "").split()],
            "python": platform.python_version(), "packages": versions, "load": os.getloadavg()[0]}


def describe(machine):
    packages = ", ".join(f"{name} {version or 'not installed'}" for name, version in machine["packages"].items())
    return (f"{machine['cores']} cores of {machine['processor']} ({', '.join(machine['flags'])}), "
            f"{machine['memory_bytes'] / 2**30:.0f} GiB; Python {machine['python']}, {packages}; "
            f"load before the run {machine['load']:.1f}.")


def number(value):
    """Three digits, never in powers of ten; seconds need as many for an all-reduce as for a step."""
    if value is None:
        return ""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{max(0, digits)}f}"


def line(entry):
    cells = [entry["row"], entry["peer"]]
    if "error" in entry:
        cells.append(entry["error"] if entry["error"] == "not installed" else f"error: {entry['error']}")
    else:
        cells.append(number(entry["peer_seconds"]))
    cells += [number(entry.get("ours_seconds")), entry.get("floor_error") or number(entry.get("floor_seconds")),
              number(entry.get("ratio")), f"{number(entry['rate'])} {entry['unit']}" if "rate" in entry else ""]
    return "| " + " | ".join(cells) + " |"


def main():
    args = arguments()
    folder = args.work.resolve() / "files"
    folder.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "options": {name: str(value) if isinstance(value, Path) else value
                                                for name, value in vars(args).items()}, "rows": []}
    for name in args.rows:
        def say(text, name=name):
            print(f"{name}: {text}", file=sys.stderr, flush=True)

        result["rows"] += rows.measure(rows.ROWS[name], args, folder, say)
        if args.json:
            args.json.write_text(json.dumps(result, indent=1) + "\n")
    print(describe(result["machine"]))
    print(f"Rounds: {args.rounds}, steps of a turn: {args.steps}.\n")
    print("| row | peer | peer, s | ours, s | floor, s | peer / ours | ours |")
    print("|---|---|---|---|---|---|---|")
    for entry in result["rows"]:
        print(line(entry))
    failed = any(entry.get("error", "not installed") != "not installed" or "floor_error" in entry
                 for entry in result["rows"])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
