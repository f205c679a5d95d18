"""What a rank has in memory is what the plan says, and a constant."""

import json

import pytest

import tools
from cases import GPT2_TENSOR
from tools import Case

@pytest.mark.parametrize("case", [Case("gpt2", "data=1"), Case("gpt2", "data=2,tensor=2", GPT2_TENSOR),
                                  Case("gpt2-wide", "data=1"), Case("gpt2-wide", "data=2,tensor=2", GPT2_TENSOR)], ids=str)
def test_peak_memory_is_the_arena_and_a_constant(case, exported, dataset, tmp_path):
    plan = case.compile(exported(case.model), tmp_path / "plan", "adamw(lr=1e-3)")
    report = tools.inspect(plan)["memory_per_rank"]
    done = json.loads(tools.tool("run", plan, "--data", dataset(case.model, 1), "--steps", 3, "--json")[0])
    ranks = done["ranks"]
    assert len(ranks) == case.size("data") * case.size("tensor")
    for rank in ranks:
        assert rank["planned_bytes"] == report["total"]
        # Each rank also sees what its peers share with it.
        mapped = report["total"] + (len(ranks) - 1) * report["shared"]
        assert rank["peak_resident_bytes"] <= mapped + report["library"] + report["program"]
        # Without that, it is comparable.
        assert report["total"] < rank["peak_own_bytes"] <= report["total"] + report["library"] + report["program"]
