"""The benchmark of two machines measures what it says, and refuses what it cannot measure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tools

BENCH = Path(__file__).parents[2] / "tools/bench/two_machines.py"


def bench(folder, *options):
    return subprocess.run([sys.executable, BENCH, "--bin", tools.bin().resolve(), "--work", folder, *map(str, options)], capture_output=True,
                          text=True, timeout=600)


@pytest.mark.rest  # a minute where other tests run
def test_two_machines_are_measured_beside_gloo_and_their_network(tmp_path):
    result = tmp_path / "result.json"
    done = bench(tmp_path, "--model", "small", "--rounds", 1, "--steps", 2, "--rate", "1gbit", "--json", result)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    row = json.loads(result.read_text())
    names = ["ours", "DDP over gloo", "raw exchange", "one rank alone"]
    assert list(row["least"]) == names and all(row["least"][name] > 0 for name in names)
    assert row["link"] == "50:0.125" and row["ratio"] == row["least"]["DDP over gloo"] / row["least"]["ours"]
    # Both sides send the gradients' bytes once, besides headers and heartbeats; who is alone sends nothing.
    assert all(0.9 < row["bytes"][name] / (4 * row["parameters"]) < 1.5 for name in names[:3]), row["bytes"]
    assert row["bytes"]["one rank alone"] < 0.1 * row["parameters"]
    assert "\n| 1gbit | " in done.stdout


@pytest.mark.parametrize("options, words", [
    (("--batch", 3), "--batch 3 cannot be shared by two ranks"),
    (("--rate", "fast"), "'fast' is not a rate such as 100mbit or 1gbit"),
    (("--steps", 1), "--steps must be 2 or more")])
def test_what_cannot_be_measured_is_refused(options, words, tmp_path):
    done = bench(tmp_path, *options)
    assert done.returncode == 2 and words in done.stderr


def test_a_tool_that_is_missing_is_named(tmp_path):
    done = subprocess.run([sys.executable, BENCH, "--bin", tmp_path, "--work", tmp_path, "--model", "small"], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 1 and "polyrank-compile is not in" in done.stderr
