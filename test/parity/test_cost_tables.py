"""The steps that the published tables have: their commands, their times, and how far these are from the measured ones."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tools

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "tools" / "bench"
sys.path.insert(0, str(BENCH))

import cost_fit  # noqa: E402
import cost_rows  # noqa: E402
import cost_tables  # noqa: E402

# A few rows of vTrain's tables (github.com/VIA-Research/vTrain, MIT), with the error that docs/cost.md allows them.
HEAD = ("# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,"
        "data parallelism,pipeline parallelism,iteration time (ms)\n")
SINGLE = HEAD + """\
2,16,8,1024,16,24,1024,1,1,2,372.160408
8,32,4,1024,16,24,1024,2,2,2,219.732754
4,16,2,2048,16,24,1024,1,4,1,304.165703
2,8,1,1024,16,12,1024,1,2,1,178.043799
8,8,1,1024,16,24,1024,4,2,1,345.817031
4,8,1,1024,16,16,1024,1,1,4,185.736453
"""
MULTI = "Parameters (billion)," + HEAD + """\
3.6,64,512,8,3072,32,30,2048,1,64,1,3566.5
3.6,64,512,8,3072,32,30,2048,8,8,1,5178
3.6,64,512,4,3072,32,30,2048,16,4,1,11960.1
18.4,256,1024,8,6144,48,40,2048,8,4,8,11026.1
39.1,512,1536,2,8192,64,48,2048,8,16,4,14713.4
39.1,512,1536,12,8192,64,48,2048,8,8,8,17999.5
175,512,1536,2,12288,96,96,2048,8,4,16,56315.8
"""


def run(*args):
    command = [sys.executable, BENCH / "cost_tables.py", "--tool", tools.bin() / "polyrank-bench-cost", *args]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=tools.SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def secondsOf(rows, machine, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"rows": rows}))
    done = subprocess.run([tools.bin() / "polyrank-bench-cost", path, machine], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("text, most", [(SINGLE, 8), (MULTI, 4)], ids=["single", "multi"])
def test_sampled_rows_take_what_was_measured(text, most, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    said = run("--rows", path)
    mean = float(re.search(r"mean ([\d.]+) %", said)[1])
    assert f"{text.count(chr(10)) - 1} rows" in said
    assert mean <= most, said


def test_a_fit_finds_numbers_that_lead_to_the_steps(tmp_path):
    """Steps by known numbers, from which the fit begins far away."""
    path = tmp_path / "rows.csv"
    path.write_text(SINGLE)
    rows = cost_rows.readRows(path)
    template = cost_tables.Template(cost_tables.MACHINES / "vtrain-single.toml")
    rowsPath = tmp_path / "rows.json"
    rowsPath.write_text(json.dumps({"rows": [cost_rows.Megatron(row).make() for row in rows]}))
    known = np.array([200e3, 1500, 8, 50, 10, 200, 5, 150])
    with cost_fit.Model(tools.bin() / "polyrank-bench-cost", rowsPath, template, cost_fit.NODE) as model:
        measured = model.seconds(known)
        found = cost_fit.fit(model, measured, np.arange(len(rows)))
        assert np.abs(model.seconds(found) / measured - 1).max() < 0.01
        # A row counts by the sum that is near the others, not by its own error.
        measured[0] *= 2
        found = cost_fit.fit(model, measured, np.arange(len(rows)))
        assert np.abs(model.seconds(found) / measured - 1)[1:].max() < 0.1


def test_a_row_without_sense_is_refused_by_number(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('{"rows": [{"lists": {}, "microbatches": 1, "stages": []}, {"lists": {}}]}')
    done = subprocess.run([tools.bin() / "polyrank-bench-cost", path, BENCH / "machines/vtrain-single.toml"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "error: row 2: " in done.stderr and "microbatches" in done.stderr


def product(command):
    """Batch, rows and columns in any order, and depth."""
    sizes = re.match(r"gemm (\d+)x(\d+)x(\d+)(.*)", command)
    rows, columns, depth = map(int, sizes.groups()[:3])
    batch = int(np.prod([int(count) for count in re.findall(r"\*(\d+)", sizes[4])]))
    return batch, *sorted((rows, columns)), depth


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """A GPT of the first table, of two layers."""
    path = tmp_path_factory.mktemp("gpt") / "gpt.onnx"
    code, _, err = tools.script(
        ROOT / "test/models/export_gpt2.py", path, "--layers", 2, "--width", 1024, "--heads", 16, "--vocab", 51200, "--context", 1024, "--dynamic",
        "--batch", 2, "--meta")
    assert code == 0, err
    return path


@pytest.mark.parametrize("tensor, micro", [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (2, 8), (4, 2), (4, 4), (8, 2), (8, 4)])
def test_commands_are_those_of_the_same_compiled_shapes(tensor, micro, shapes, tmp_path):
    """Equal products, FLOPs and all-reduces. (A microbatch of one sample is laid out otherwise: it splits the heads' depth.)"""
    plan, layers, hidden, heads, sequence = tmp_path / "plan", 2, 1024, 16, 1024
    patterns = ("*.c_attn.weight=[-,tensor]", "*.attn.c_proj.weight=[tensor,-]", "*.c_fc.weight=[-,tensor]",
                "*wte.weight=[tensor,-]", "lm_head.weight=[tensor,-]")
    shard = [word for pattern in patterns for word in ("--shard", pattern)]
    tools.tool("compile", shapes, "--abstract-weights", "-o", plan, "--mesh", f"tensor={tensor}", "--dim", f"batch={micro}",
               "--cpu", "x86-64-v3", *shard, "--loss", "cross_entropy(logits,labels)", "--attention", "parts")
    tools.tool("inspect", plan, "--times", tmp_path / "times.json")
    compiled = Counter(product(command["command"])
                       for segment in json.loads((tmp_path / "times.json").read_text())["segments"]
                       for command in segment["commands"] if command["command"].startswith("gemm "))
    row = cost_rows.Row("single", micro, micro, hidden, heads, layers, sequence, tensor, 1, 1, seconds=1)
    lists = cost_rows.Megatron(row)
    listed, reduced = Counter(), Counter()
    for name, times in (("layerForward", layers), ("layerBackward", layers), ("headForward", 1), ("headBackward", 1),
                        ("embeddingForward", 1)):
        for command in getattr(lists, name)():
            if "product" in command:
                batch, rows, columns, depth = command["product"]
                listed[batch, *sorted((rows, columns)), depth] += times
            elif "collective" in command:
                reduced[command["bytes"]] += times
    # Attention by parts computes the scores again for their gradient, once a layer; Megatron keeps them.
    scores = (micro * heads // tensor, sequence, sequence, hidden // heads)
    assert compiled - listed == {scores: layers}
    assert not listed - compiled

    def flops(products):
        return sum(2 * np.prod(sizes, dtype=float) * count for sizes, count in products.items())

    report = tools.inspect(plan)
    assert report["commands_per_step"]["gemm_flops"] == flops(listed) + flops({scores: layers})
    # Activations are in 16 bits there, and in 32 here.
    large = 2 * micro * sequence * hidden
    sent = Counter(entry["bytes"] // 2 for entry in report["collectives"]
                   for _ in range(entry["executions"]) if entry["kind"] == "AllReduce")
    assert sent[large] == reduced[large] == (4 * layers + 2 if tensor > 1 else 0)


EXAMPLE = ROOT / "test/docs/cost-example.toml"


def test_the_example_of_the_docs_is_what_the_functions_say(tmp_path):
    """docs/cost.md, "By hand, on two nodes": the numbers there, by the formulas there, by the compiler's functions."""
    page = (ROOT / "docs/cost.md").read_text()
    assert EXAMPLE.read_text().strip() in page
    tiles, size = (1024 // 128) * (1024 // 128), 1024
    productTime = 2 * size**3 / 200e12 * (tiles + 32) * 128**2 / size**2 * (size + 128) / size
    kernel = 5e-6 + 8e6 / 1e12
    payload = 64e6
    scatters = 7 * 2e-6 + payload * 7 / 8 / 200e9
    between = 2 * 1 * 10e-6 + 2 * payload / 8 * 1 / 2 / 20e9
    reduces = 2 * scatters + between
    commands = {"product": [{"product": [1, size, size, size], "bytes": 6 * size**2}],
                "kernel": [{"bytes": 8e6}],
                "all-reduce": [{"collective": "all_reduce", "bytes": payload, "group": [[16, 1]]}],
                "ten kernels": [{"bytes": 8e6, "count": 10}]}
    row = {"lists": commands, "microbatches": 1,
           "stages": [{"count": 1, "forward": [["product", 1], ["kernel", 1]], "backward": [["all-reduce", 1]], "end": []}]}
    times = secondsOf([row], EXAMPLE, tmp_path)
    expected = {"product": max(20e-6, productTime), "kernel": 20e-6, "all-reduce": reduces, "ten kernels": 200e-6}
    for name, seconds in expected.items():
        assert times["lists"][0][name] == pytest.approx(seconds, rel=1e-9), name
    assert times["seconds"][0] == pytest.approx(max(20e-6, productTime) + 20e-6 + reduces, rel=1e-6)
    for number in (f"{productTime * 1e6:.2f}", f"{kernel * 1e6:.2f}", f"{scatters * 1e6:.1f}", f"{between * 1e6:.1f}",
                   f"{reduces * 1e6:.1f}"):
        assert number in page, number
