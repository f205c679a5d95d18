"""Seconds and memory of imports: Llama 7B and graphs of 10,000 nodes in each format.

    .venv/bin/python tools/bench/imports.py --bin build/release/bin

The models are made by test/models/export_large.py where they are not there yet, which takes some minutes and no more
than a hundred megabytes of disk. A row is the least processor time and elapsed time of `polyrank-compile MODEL
--stop-after import`, whose output (text, up to some megabytes) is thrown away, the import's own part of it, and the
most memory that a process held.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Name: what export_large.py makes, and further options of polyrank-compile.
ROWS = {
    "llama.onnx": (("llama",), ()), "llama.pt": (("llama",), ()), "llama.pt2": (("llama",), ()),
    "small.onnx": (("small",), ()), "small.pt": (("small",), ()), "small.pt2": (("small",), ()),
    "chain.onnx": (("chain", "--length", "10000"), ()), "chain.pt": (("chain", "--length", "10000"), ()),
    "chain.pt2": (("chain", "--length", "10000"), ()), "loop.pt": (("loop", "--length", "5000"), ("--input", "x=float32[8,4]")),
    "function.pt": (("function", "--length", "10000"), ()),
}


def make(path, kind):
    print(f"making {path}", file=sys.stderr)
    kind, *options = kind
    subprocess.run([sys.executable, "-W", "ignore", ROOT / "test/models/export_large.py", kind, path, *options], check=True)


def measure(command):
    """Processor time, elapsed time and peak of memory of a process, and what it said."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {said}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss * 1024, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=Path, help="folder of our tools")
    parser.add_argument("--work", default=ROOT / "build/bench/imports", type=Path, help="folder for files")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="NAME", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default 5)")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    print(f"{'':12}{'processor s':>12}{'elapsed s':>12}{'import s':>12}{'memory MB':>12}")
    for name in args.rows:
        kind, options = ROWS[name]
        path = args.work / name
        if not path.exists():
            make(path, kind)
        command = [args.bin / "polyrank-compile", path, *options, "--stop-after", "import", "--timing"]
        turns = [measure(command) for _ in range(args.rounds)]
        imports = [float(line.split()[0]) for *_, said in turns for line in said.splitlines() if line.endswith("  import")]
        print(f"{name:12}{min(t[0] for t in turns):12.2f}{min(t[1] for t in turns):12.2f}{min(imports):12.2f}"
              f"{max(t[2] for t in turns) / 1e6:12.0f}", flush=True)


if __name__ == "__main__":
    main()
