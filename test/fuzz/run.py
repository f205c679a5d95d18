"""Runs the fuzzers: run.py BUILD [TARGET...] [--seconds N] [--seed N] [--filter TEXT] [--junit FILE].

Each target first replays the inputs that once made it fail (test/fuzz/regressions/TARGET), then mutates its
seeds for N seconds, as many targets at once as there are cores. To look longer, give an hour:

    test/fuzz/run.py build/dev --seconds 3600

What a run learns stays in BUILD/fuzz/corpus and is where the next one begins; what fails is left in
BUILD/fuzz/failures, and belongs into test/fuzz/regressions once it is mended.

With --seed a run repeats: it begins from the seeds alone and tries the same inputs in the same order (nearly so
where the program itself depends on addresses). CI does that, so that a change is judged by what it changed; what is
new is looked for without.
"""

import argparse
import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

import seeds

HERE = Path(__file__).resolve().parent
TARGETS = ["onnx-reader", "onnx-import", "plan", "run-files", "safetensors", "npz", "samples", "feed", "megatron-index", "languages", "zip",
           "schedules", "pickle", "torchscript-code", "torchscript-reader", "torchscript-import",
           "exported-program", "exported-program-import", "checkpoint", "config", "wire", "handshake", "nodelist"]
# An input may take no longer and no more: what a file claims must not be believed before it is there.
LIMITS = ["-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=256"]
MAX_LENGTH = {"plan": 1 << 17, "languages": 256, "onnx-reader": 1 << 15, "onnx-import": 1 << 15,
              "torchscript-reader": 1 << 15, "exported-program": 1 << 15,
              "exported-program-import": 1 << 14, "checkpoint": 1 << 13, "config": 512, "wire": 4096, "handshake": 256, "nodelist": 256}


@dataclass
class Case:
    """A test case of the report."""

    name: str
    seconds: float = 0
    problem: str = ""
    skipped: str = ""

    def toXml(self, suite):
        case = xml.SubElement(suite, "testcase", classname="fuzz", name=self.name, time=f"{self.seconds:.1f}")
        if self.problem:
            xml.SubElement(case, "failure", message="see BUILD/fuzz/failures").text = printable(self.problem)
        if self.skipped:
            xml.SubElement(case, "skipped", message=self.skipped)


def printable(text):
    """Without the characters that XML forbids."""
    return re.sub(r"[^\t\n\x20-\ud7ff]", "?", text)


def writeSeeds(build, target, folder):
    """One file each in `folder`; their paths, in the same order every time."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with tempfile.TemporaryDirectory() as temporary:
        for seed in seeds.seeds(target, build / "bin", Path(temporary)):
            paths.append(folder / hashlib.sha1(seed).hexdigest())
            paths[-1].write_bytes(seed)
    return paths


def withFixedAddresses():
    """Compared pointers become part of inputs, so where they lie must not change from run to run."""
    call = ["setarch", "-R"]
    works = shutil.which(call[0]) and subprocess.run([*call, "true"], capture_output=True).returncode == 0
    return call if works else []


def run(build, target, seconds, seed):
    """One target; returns its test cases."""
    failures = build / "fuzz/failures"
    failures.mkdir(parents=True, exist_ok=True)
    program = build / f"fuzz/fuzz-{target}"
    if not program.exists():
        return [Case(f"{target} fuzzing", skipped="not built: needs clang and libclang-rt-22-dev")]
    call = [*([] if seed is None else withFixedAddresses()), program, *LIMITS, f"-artifact_prefix={failures}/{target}-"]
    cases = []

    def execute(name, *arguments):
        start = time.monotonic()
        # Each input is a file for a moment: in memory, where there is a place, and removed after a crash too.
        with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
            done = subprocess.run([*call, *arguments], capture_output=True, text=True, errors="replace",
                                  env=os.environ | {"TMPDIR": folder})
        log = done.stdout + done.stderr
        runs = re.search(r"Done (\d+) runs", log)
        print(f"fuzz {target} {name}: {'ok' if done.returncode == 0 else 'FAILED'}"
              f"{', ' + runs[1] + ' inputs' if runs else ''}", flush=True)
        cases.append(Case(f"{target} {name}", time.monotonic() - start,
                          log[-8000:] if done.returncode else ""))

    known = sorted((HERE / "regressions" / target).glob("*"))
    if known:
        execute("regressions", *known)
    if seconds > 0:
        arguments = [f"-max_total_time={seconds}", f"-max_len={MAX_LENGTH.get(target, 4096)}", "-use_value_profile=1",
                     *[f"-dict={d}" for d in [HERE / f"{target}.dict"] if d.exists()]]
        if seed is None:
            folder = build / "fuzz/corpus" / target
            writeSeeds(build, target, folder)
            execute("fuzzing", *arguments, folder)
        else:
            with tempfile.TemporaryDirectory() as folder:
                paths = writeSeeds(build, target, Path(folder) / "seeds")
                (names := Path(folder) / "names").write_text(",".join(map(str, paths)))
                execute("fuzzing", *arguments, f"-seed={seed}", f"-seed_inputs=@{names}", "-reload=0")
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, help="repeat: the same inputs in the same order")
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--filter", default="", help="only targets whose name contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"unknown targets {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    build = options.build.resolve()
    chosen = [target for target in options.targets or TARGETS if options.filter in f"fuzz {target}"]
    suite = xml.Element("testsuite", name="fuzz")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(run, build, target, options.seconds, options.seed) for target in chosen]
        for cases in runs:
            for case in cases.result():
                case.toXml(suite)
                if case.problem:
                    failed = True
                    print(f"--- {case.name}\n{case.problem}", file=sys.stderr)
    if options.junit:
        options.junit.parent.mkdir(parents=True, exist_ok=True)
        xml.ElementTree(suite).write(options.junit)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
