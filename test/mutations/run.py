"""Puts each mutant of the lists into the code and demands that a test fails: run.py [FILTER...] [options].

All mutants are built at once into a copy of the sources (build/mutations), each behind a switch that the environment
turns on, so that trying one more costs a run of tests and no build. Each test of its area's suites (suites.toml) runs once
without a mutant, which says how long it takes and which mutants it executes; then each mutant runs against the tests that
execute it, the quickest suites first, until one fails. A test that does not end, or crashes, has failed.

    test/mutations/run.py                          every mutant: some hours on two cores
    test/mutations/run.py 'plan:'                  those whose "area: name" contains this
    test/mutations/run.py --check                  only whether the lists fit the sources
    test/mutations/run.py --repair                 rewrites entries whose code was renamed or moved
    test/mutations/run.py --continue               leaves out those whose outcome report.json has as it should be, after a
                                                   run that was ended: the report then has both
    test/mutations/run.py --everywhere             a survivor goes on to all other areas' tests
    test/mutations/run.py --gtest runtime-data-test runtime/data/
                                                   those of these files, against this GoogleTest alone, and no more is
                                                   built than it needs, in a folder of its own: a minute

Ends with "N caught, N survived, N equivalent", and 0 only where nothing survived and nothing that is called equivalent
was caught. What came out stays in build/mutations/report.json.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from lists import HERE, PlantingError, listsOf, readLists
from places import readTree
from planting import locate, writeCopy
from repair import Repairs, writeRepairs
from suites import STARTS, Suite, measure


@dataclass
class Outcome:
    mutation: object
    caughtBy: str = ""
    how: str = ""
    seconds: float = 0
    tried: list = field(default_factory=list)

    @property
    def word(self):
        return "caught" if self.caughtBy else "equivalent" if self.mutation.equivalent else \
            "survived" if self.tried else "not reached"

    @property
    def isExpected(self):
        return bool(self.caughtBy) != bool(self.mutation.equivalent)


def build(root, spans, jobs, targets):
    """The copy and its build of these targets (none: of all); returns both folders."""
    folder = root / ("build/mutations-quick" if targets else "build/mutations")
    source, target = folder / "source", folder / "build"
    files = set(subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                               capture_output=True, text=True).stdout.split("\n")) - {""}
    writeCopy(root, {f for f in files if (root / f).is_file()}, spans, source)
    # Files without a mutant come from the cache of other builds, where there is one (.ci/run says what these are for).
    environment = os.environ | {
        "CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime"}
    launchers = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX") if shutil.which("ccache")]
    if not (target / "build.ninja").exists():
        # The fuzzers are not run here; a mutant may compute what nobody uses.
        subprocess.run(["cmake", "--preset", "dev", "-B", target, "-DPOLYRANK_HAS_LIBFUZZER=OFF",
                        "-DPOLYRANK_WERROR=OFF", *launchers], cwd=source,
                       env=environment, stdout=subprocess.DEVNULL, check=True)
    subprocess.run(["ninja", "-j", str(jobs), "-C", target, "--quiet", *targets], env=environment, check=True)
    return source, target


def tryOut(mutation, suites):
    """Runs `mutation` against the tests of `suites` that execute it, the quickest suite first, until one fails. Then, as a test
    of pytest may use what another one compiled, against whole suites of pytest."""
    outcome = Outcome(mutation)
    start = time.monotonic()
    executing = {suite.name: suite.executing(mutation.number) for suite in suites}
    suites = [suite for suite in suites if executing[suite.name]]

    def secondsOf(suite):
        return STARTS[suite.kind] + sum(test.seconds for test in executing[suite.name])

    tries = [(suite, executing[suite.name]) for suite in sorted(suites, key=secondsOf)]
    tries += [(suite, ()) for suite in suites if suite.kind == "parity" and len(executing[suite.name]) < len(suite.tests)]
    for suite, tests in tries:
        outcome.tried.append(suite.name)
        seconds = secondsOf(suite) if tests else suite.seconds
        problem = suite.run({"MUTANT": str(mutation.number)}, 30 + 5 * seconds, tests if len(tests) < len(suite.tests) else ())
        if problem:
            outcome.caughtBy, outcome.how = suite.name, problem
            break
    outcome.seconds = time.monotonic() - start
    return outcome


def check(tree, mutations):
    """Says of each entry that does not fit the sources why, and what it may mean; 0 where all fit."""
    repairs = Repairs(tree, mutations)
    if not repairs.broken:
        locate(tree, mutations)
        print(f"{len(mutations)} mutants fit the sources")
        return 0
    for mutation in repairs.broken:
        try:
            tree.find(mutation)
        except PlantingError as error:
            print(f"{error}\n    {repairs.explain(mutation)}")
    print(f"{len(repairs.broken)} of {len(mutations)} mutants do not fit the sources; "
          f"--repair finds {sum(m.number in repairs.changes for m in repairs.broken)}")
    return 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="part of 'area: name', or of the file's path")
    parser.add_argument("--gtest", action="append", default=[], metavar="NAME",
                        help="only this GoogleTest, of those of the areas; repeatable")
    parser.add_argument("--check", action="store_true", help="only look whether the lists fit the sources")
    parser.add_argument("--repair", action="store_true", help="rewrite the entries whose code was renamed or moved")
    parser.add_argument("--everywhere", action="store_true", help="survivors go on to all other areas' tests")
    parser.add_argument("--continue", action="store_true", dest="goesOn", help="leave out what the last report has as it should be")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--root", type=Path, default=HERE.parents[1], metavar="FOLDER", help="another checkout to look at")
    options = parser.parse_args()
    lists = options.root / "test/mutations"
    areas = tomllib.loads((lists / "suites.toml").read_text())["areas"]
    try:
        mutations = readLists(lists)
        if unknown := {m.area for m in mutations} - set(areas):
            raise PlantingError(f"suites.toml has no area {', '.join(sorted(unknown))}")
        tree = readTree(options.root)
        if options.repair:
            for line in writeRepairs(Repairs(tree, mutations), listsOf(lists)):
                print(line)
            mutations = readLists(lists)
        if options.check or options.repair:
            return check(tree, mutations)
        spans = locate(tree, mutations)
        files = {m.number: path for path, inFile in spans.items() for ms in inFile.values() for m in ms}
        chosen = [m for m in mutations
                  if not options.filters or any(f in str(m) or f in files[m.number] for f in options.filters)]
        if options.gtest:
            areas = {area: [name for name in names if name.removeprefix("gtest ") in options.gtest] for area, names in areas.items()}
        report = options.root / ("build/mutations-quick" if options.gtest else "build/mutations") / "report.json"
        before = json.loads(report.read_text()) if options.goesOn and report.exists() else []
        before = [each for each in before if each["isExpected"]]
        done = {(each["area"], each["name"], each["file"]) for each in before}
        chosen = [m for m in chosen if (m.area, m.name, files[m.number]) not in done]
        source, target = build(options.root, locate(tree, chosen) if options.gtest else spans, options.jobs, options.gtest)
        needed = areas if options.everywhere else {m.area for m in chosen}
        suites = {name: Suite(name, source, target) for area in sorted(needed) for name in areas[area]}
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            measure(suites.values(), pool)
    except (PlantingError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2

    def suitesFor(mutation):
        return [suites[name] for name in {*areas[mutation.area], *(suites if options.everywhere else ())}]

    def write(outcomes):
        entries = [dict(area=o.mutation.area, name=o.mutation.name, file=files[o.mutation.number], outcome=o.word, isExpected=o.isExpected,
                       seconds=round(o.seconds, 1), suite=o.caughtBy, how=o.how, tried=o.tried) for o in outcomes]
        report.write_text(json.dumps(before + entries, indent=1))

    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(tryOut, mutation, suitesFor(mutation)) for mutation in chosen]
        for run in concurrent.futures.as_completed(runs):
            outcomes.append(outcome := run.result())
            by = f"  ({outcome.caughtBy})" if outcome.caughtBy else ""
            print(f"{outcome.word:11} {outcome.seconds:7.1f} s  {outcome.mutation}{by}", flush=True)
            if len(outcomes) % 10 == 0:  # what a run that is ended had found
                write(outcomes)
    write(outcomes)
    words = [o.word for o in outcomes] + [each["outcome"] for each in before]
    caught, equivalent = words.count("caught"), words.count("equivalent")
    for outcome in outcomes:
        if not outcome.isExpected:
            print(f"{'called equivalent, but caught' if outcome.caughtBy else outcome.word}: {outcome.mutation}")
    print(f"{caught} caught, {len(words) - caught - equivalent} survived, {equivalent} equivalent")
    return 0 if all(o.isExpected for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
