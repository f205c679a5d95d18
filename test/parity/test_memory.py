"""What a rank has in memory is what the plan says, and a constant."""

import re

import pytest

import tools
from cases import GPT2_TENSOR
from tools import Case

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytesOf(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


@pytest.mark.parametrize("case", [Case("gpt2", "data=1"), Case("gpt2", "data=2,tensor=2", GPT2_TENSOR),
                                  Case("gpt2-wide", "data=1"), Case("gpt2-wide", "data=2,tensor=2", GPT2_TENSOR)], ids=str)
def test_peak_memory_is_the_arena_and_a_constant(case, exported, dataset, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", "adamw(lr=1e-3)")
    report = tools.inspect(plan)["memory_per_rank"]
    output, errors = tools.tool("run", plan, "--data", dataset(case.model, 1), "--steps", 3)
    ranks = re.findall(r"^rank \d+ .*", output + errors, re.MULTILINE)
    assert len(ranks) == case.size("data") * case.size("tensor")
    for line in ranks:
        _, _, planned, peak, *_ = re.findall(r"[\d.]+ (?:[KMG]i)?B", line)
        assert bytesOf(planned) == pytest.approx(report["total"], rel=0.05)
        # Each rank also sees what its peers share with it.
        mapped = report["total"] + (len(ranks) - 1) * report["shared"]
        assert bytesOf(peak) <= mapped + report["library"] + report["program"]
