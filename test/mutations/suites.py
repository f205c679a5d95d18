"""The suites of suites.toml: how they run, which of their tests execute a mutant, and how long these take."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path

from lists import HERE, NUMBERS, PlantingError, numbersIn

LIT = "/usr/lib/llvm-22/bin/lit"
GIB = 1 << 30
# Seconds that a command takes before its first test: a process, lit in Python, pytest with PyTorch.
STARTS = {"gtest": 0.1, "lit": 0.4, "random": 0.1, "parity": 5}


@dataclass
class Test:
    """One test of a suite, as its command names it, and the numbers of the mutants that it executes."""

    name: str
    seconds: float
    reached: frozenset


@dataclass
class Suite:
    """Some tests that run as one command."""

    name: str
    source: Path
    target: Path
    tests: list = field(default_factory=list)
    seconds: float = 0

    @property
    def kind(self):
        return self.name.split()[0]

    @property
    def words(self):
        return self.name.split()[1:]

    def command(self, temporary, tests=(), measures=False):
        """The whole suite's command, or that of these tests. If it `measures`, pytest has the plugin reaching.py."""
        names = [test.name for test in tests]
        if self.kind == "lit":
            return [LIT, "-j1", "-s", "--max-failures=1", *(self.target / "test" / name for name in names or self.words)]
        if self.kind == "gtest":
            return [self.target / "bin" / self.words[0], "--gtest_brief=1", "--gtest_fail_fast",
                    *([f"--gtest_filter={':'.join(names)}"] if names else [])]
        if self.kind == "random":
            return [self.target / "bin/random-programs-test", "--seed", self.words[0], "--programs", self.words[1],
                    "--failures", "1", "--processes", "50"]
        if self.kind == "parity":
            start = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--basetemp={temporary}/pytest",
                     *(["-p", "reaching"] if measures else [])]
            file, words = self.source / "test/parity" / self.words[0], self.words[1:]
            return [*start, *names] if names else [*start, file, *(["-k", " ".join(words)] if words else [])]
        raise PlantingError(f"suites.toml: unknown kind of suite {self.name!r}")

    def run(self, environment, limit, tests=()):
        """What went wrong, or "" where all tests pass."""
        with tempfile.TemporaryDirectory(prefix="mutation-") as temporary:
            process = subprocess.Popen(
                [str(word) for word in self.command(temporary, tests, "MUTANTS_TESTS" in environment)], cwd=self.source,
                env=os.environ | {"POLYRANK_BIN": str(self.target / "bin"), "LLVM_DISABLE_SYMBOLIZATION": "1",
                                  "TMPDIR": temporary} | environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=setLimits)
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                return f"no end after {limit:.0f} s"
            finally:
                try:  # its children too, which a killed test leaves behind
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
        if process.returncode == 0:
            return ""
        return f"exit code {process.returncode}\n{output.decode(errors='replace')[-3000:]}"

    def listed(self):
        """The names of tests that run alone; of pytest none, whose tests share what they compile."""
        if self.kind == "gtest":
            out = subprocess.run([self.target / "bin" / self.words[0], "--gtest_list_tests"], capture_output=True, text=True, check=True)
            names, group = [], ""
            for line in out.stdout.splitlines():
                line = line.split("#")[0].rstrip()
                if line.startswith("  "):
                    names.append(group + line.strip())
                elif line.endswith("."):
                    group = line
            return names
        if self.kind == "lit":
            top = self.source / "test"
            return sorted(path.relative_to(top).as_posix() for path in (top / self.words[0]).rglob("*")
                          if path.suffix in (".mlir", ".test") and path.is_file())
        return [self.name]

    def executing(self, number):
        """The tests that execute the mutant of this number."""
        return [test for test in self.tests if number in test.reached]


def setLimits():
    """A mutant may not take the machine with it. A file that is too large is an error that tests see, and not their end."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for each in (signal.SIGINT, signal.SIGHUP):  # which a shell ignores for what it runs in the background
        signal.signal(each, signal.SIG_DFL)
    for what, most in ((resource.RLIMIT_DATA, 6 * GIB), (resource.RLIMIT_FSIZE, 16 * GIB), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))


def measureOne(suite, name):
    """Runs one test without a mutant, or the whole of a suite whose tests do not run alone."""
    whole = suite.kind in ("random", "parity")
    with tempfile.NamedTemporaryFile(prefix="reached-") as reached, tempfile.NamedTemporaryFile(prefix="tests-") as tests:
        os.truncate(reached.name, NUMBERS)
        environment = {"MUTANTS_REACHED": reached.name}
        if suite.kind == "parity":  # reaching.py writes a line for each test
            environment |= {"MUTANTS_TESTS": tests.name,
                            "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", ""))))}
        start = time.monotonic()
        problem = suite.run(environment, 3600, () if whole else [Test(name, 0, frozenset())])
        seconds = time.monotonic() - start
        if problem:
            raise PlantingError(f"{suite.name}: {name} fails without a mutant: {problem}")
        if suite.kind == "parity":
            return [Test(each["name"], each["seconds"], frozenset(each["reached"]))
                    for each in map(json.loads, Path(tests.name).read_text().splitlines())]
        return [Test(name, seconds, frozenset(numbersIn(Path(reached.name).read_bytes())))]


def measure(suites, pool):
    """Runs all suites without a mutant: they must pass, and say of each test what it executes and how long it takes."""
    left = {suite.name: 0 for suite in suites}
    runs, problems = {}, []
    for suite in sorted(suites, key=lambda suite: suite.kind not in ("random", "parity")):  # the longest first
        for name in suite.listed():
            left[suite.name] += 1
            runs[pool.submit(measureOne, suite, name)] = suite
    for run in as_completed(runs):
        suite = runs[run]
        left[suite.name] -= 1
        try:
            suite.tests += run.result()
        except PlantingError as error:  # the others run on, so that one run says all that fail
            problems.append(str(error))
            print(error, flush=True)
        if not left[suite.name]:
            suite.seconds = sum(test.seconds for test in suite.tests)
            print(f"{suite.seconds:7.1f} s  {suite.name}: {len(suite.tests)} tests", flush=True)
    if problems:
        raise PlantingError("fail without a mutant: " + ", ".join(each.split(":")[0] for each in problems))
