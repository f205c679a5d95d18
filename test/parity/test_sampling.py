"""What a run without --all leaves out is said, never what somebody names, and no bug of test/mutations needs it."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sampling

TESTS = Path(__file__).parents[1]

TABLE = '''
import pytest, sampling
TABLE = [("small", 1), ("small", 2), ("large", 1), ("large", 2)]

@pytest.mark.parametrize("size, count", sampling.rows(TABLE, set, always=["large-2"], name=lambda row: f"{row[0]}-{row[1]}"))
def test_row(size, count):
    pass

def test_alone():
    pass
'''


@pytest.fixture
def run(tmp_path):
    """Names that a run of pytest passes, in a suite of its own with the table above, and what it says at its end."""
    for name in ("conftest.py", "sampling.py", "pytest.ini"):
        shutil.copy(TESTS / name, tmp_path)
    (tmp_path / "test_table.py").write_text(TABLE)

    def get(*arguments, code=0):
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--junitxml", "out.xml", *arguments], cwd=tmp_path,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        root = ElementTree.parse(tmp_path / "out.xml").getroot()
        left = [int(each.get("value")) for each in root.iter("property") if each.get("name") == "left out"]
        return {case.get("name") for case in root.iter("testcase")}, done.stdout, sum(left)

    return get


SAMPLE = {"test_row[small-1]", "test_row[large-2]", "test_alone"}
ALL = SAMPLE | {"test_row[small-2]", "test_row[large-1]"}


def test_a_row_is_left_out_where_others_have_its_values():
    assert sampling.cover("ab cd ad cb abcd".split(), set) == {"abcd"}
    assert sampling.cover("ab cd ad cb".split(), set) == {"ab", "cd"}
    assert sampling.cover("ab cd ad cb".split(), set, always=["ad"]) == {"ad", "cb"}
    with pytest.raises(AssertionError, match="no row's name: {'ba'}"):
        sampling.cover(["ab"], set, always=["ba"])


@pytest.mark.parametrize("more", [(), ("-n", "2"), ("test_table.py",)], ids=["alone", "workers", "file"])
def test_what_is_left_out_is_said(more, run):
    names, said, left = run(*more)
    assert names == SAMPLE and left == 2
    assert "3 of 5 tests, for of large tables a sample was run; --all runs the other 2" in said


def test_all_runs_all(run):
    names, said, left = run("--all")
    assert names == ALL and left == 0 and "--all" not in said


def test_the_environment_may_ask_for_all(run, monkeypatch):
    monkeypatch.setenv("POLYRANK_ALL", "1")
    assert run()[0] == ALL


def test_what_is_named_runs(run):
    assert run("-k", "small")[0] == {"test_row[small-1]", "test_row[small-2]"}
    assert run("test_table.py::test_row[large-1]", "-n", "2")[0] == {"test_row[large-1]"}
    assert run("test_table.py::test_row")[0] == ALL - {"test_alone"}
    assert run("-m", "rest")[0] == ALL - SAMPLE


# A plugin of pytest: for each suite the number of its tests, and the ids of those that are not in a sample.
LISTING = """
import json
from _pytest.mark import KeywordMatcher
from _pytest.mark.expression import Expression

def pytest_collection_finish(session):
    suites = json.load(open(session.config.getoption("--suites")))
    out = []
    for suite, file, text in suites:
        items = [i for i in session.items if str(i.path) == file]
        if text:
            items = [i for i in items if Expression.compile(text).evaluate(KeywordMatcher.from_item(i))]
        out.append([suite, len(items), [i.nodeid for i in items if i.get_closest_marker("rest")]])
    json.dump(out, open(session.config.getoption("--suites"), "w"))

def pytest_addoption(parser):
    parser.addoption("--suites")
"""


# Suites of mutants that are a file with rows that a sample leaves out, and why these bugs do not need them.
SAMPLED = {"parity test_recurrent.py": "its bugs are in readers of files, which know no mesh; each file is read on one rank"}


def test_no_suite_of_a_mutant_needs_a_row_that_is_left_out(tmp_path):
    """What test/mutations runs, a usual run runs too: what it proves of the one it proves of the other."""
    areas = tomllib.loads((TESTS / "mutations/suites.toml").read_text())["areas"]
    suites = sorted({name for names in areas.values() for name in names if name.startswith("parity ")})
    chosen = []
    for name in suites:
        _, file, *words = name.split(maxsplit=2)
        chosen.append((name, str((TESTS / "parity" / file).resolve()), *(words or [""])))
    (tmp_path / "listing.py").write_text(LISTING)
    (tmp_path / "suites.json").write_text(json.dumps(chosen))
    files = sorted({file for _, file, _ in chosen})
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--collect-only", "--all", "-p", "listing", "--suites",
                           tmp_path / "suites.json", *files], cwd=TESTS, capture_output=True, text=True, timeout=300,
                          env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for suite, count, left in json.loads((tmp_path / "suites.json").read_text()):
        assert count, f"{suite}: no test has this name"
        assert bool(left) == (suite in SAMPLED), f"{suite}: only with --all run {', '.join(left) or 'none'}"
