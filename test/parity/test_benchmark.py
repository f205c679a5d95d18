"""The benchmark measures rows whose losses agree, and says what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tools

TRAIN = Path(__file__).parents[2] / "tools/bench/train.py"


def benchmark(tmp_path, *options, code=0):
    result = tmp_path / "result.json"
    done = subprocess.run([sys.executable, TRAIN, "--bin", tools.bin(), "--work", tmp_path, "--json", result,
                           "--small", "--steps", "3", *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout.splitlines(), json.loads(result.read_text())["rows"]


# The rows and the peers of each.
KINDS = {"two-ranks": ["DDP over gloo"], "save": ["the disk alone"], "all-reduce-4": ["torch.distributed gloo"]}
OTHERS = {"forward": ["onnxruntime"], "attention-groups": ["PyTorch eager", "ours in parts"],
          "attention-bf16": ["PyTorch bf16"], "save-transposed": ["the disk alone"]}


@pytest.mark.parametrize("table, floors", [
    pytest.param(KINDS, 1, id="kinds"),
    pytest.param(OTHERS, 3, id="others", marks=pytest.mark.rest)])
def test_the_benchmark_measures_training_inference_and_the_communicator(table, floors, tmp_path):
    lines, rows = benchmark(tmp_path, "--rows", ",".join(table))
    assert [row["peer"] for row in rows] == [peer for peers in table.values() for peer in peers]
    for row in rows:
        assert row["peer_seconds"] > 0 and row["ours_seconds"] > 0
        assert any(line.startswith(f"| {row['row']} | {row['peer']} | ") for line in lines)
    assert all(row["floor"]["seconds"] > 0 for row in rows[:floors])


def test_the_benchmark_compares_two_builds(tmp_path):
    _, rows = benchmark(tmp_path, "--rows", "save", "--against", tools.bin())
    assert [row["peer"] for row in rows] == ["ours before"]
    assert rows[0]["peer_seconds"] > 0 and rows[0]["ours_seconds"] > 0


def test_the_benchmark_says_which_tool_is_missing(tmp_path):
    _, rows = benchmark(tmp_path, "--rows", "all-reduce-4", "--bin", tmp_path, code=1)
    assert "polyrank-bench-allreduce is not in" in rows[0]["error"]


def test_overlap_is_measured_over_paced_links(tmp_path):
    result = tmp_path / "result.json"
    done = subprocess.run([sys.executable, TRAIN.parent / "overlap.py", "--bin", tools.bin(), "--work", tmp_path,
                           "--json", result, "--zero", "3", "--microbatches", "1", "--rounds", "1", "--steps", "2"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    made = json.loads(result.read_text())
    assert [row["overlap"] for row in made["rows"]] == ["on", "off"]
    for row in made["rows"]:
        assert row["least"] > 0 and row["comparison"]["links"] == ["data=20:0.5"]
    assert "| 3 | 1 | " in done.stdout and len(made["traces"]) == 1


def test_pipelines_are_rehearsed_beside_their_formulas(tmp_path):
    result = tmp_path / "result.json"
    done = subprocess.run([sys.executable, TRAIN.parent / "rehearse.py", "--bin", tools.bin(), "--work", tmp_path, "--json", result,
                           "--schedules", "zero-bubble-v", "--ranks", "2", "--microbatches", "3", "--forward", "10"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    rows = json.loads(result.read_text())["rows"]
    assert [row["formula"] for row in rows] == [0.095]
    # Never shorter; how much longer depends on what else the machine does.
    assert all(row["seconds"] >= row["formula"] for row in rows)
