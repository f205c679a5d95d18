"""--target cuda: the plans of the table for GPUs. None runs here; their kernels assemble, and registers suffice."""

import shutil

import pytest
import sampling

import tools
from cases import CASES
from tools import Case

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "sm_120")
CUDA = ("--target", "cuda", "--gpu-arch", ",".join(ARCHITECTURES))
MOST_REGISTERS = 80  # so that an SM holds three warps of four in flight that it has room for

hasAssembler = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
needsAssembler = pytest.mark.skipif(not hasAssembler, reason="there is no ptxas of CUDA's toolkit")


def kernelsOf(plan):
    found = tools.inspect(plan)
    return found["images"], found["kernels"]


# A usual run has a row with products that are split, and one with windows; all have the same kinds of kernels.
@needsAssembler
@pytest.mark.parametrize("case", sampling.rows(CASES, lambda case: (), always=("gpt2-data2-tensor2-m1", "resnet-data2-m1")))
def test_kernels_assemble_for_each_architecture(case, exported, tmp_path):
    case.notes(exported(case.model), tmp_path / "plan", "adamw(lr=1e-3)", *CUDA)
    images, kernels = kernelsOf(tmp_path / "plan")
    assert [(image["format"], image["machine"]) for image in images] == [
        *(("cubin", each) for each in ARCHITECTURES), ("ptx", "sm_80")]
    assert kernels
    for kernel in kernels:
        assert kernel["kind"] in ("map", "row", "column", "scatter")
        assert 0 < kernel["threads"] <= 1024 and kernel["blocks"] > 0
        for code in kernel["code"][:-1]:
            what = (kernel["symbol"], code)
            assert 0 < code["registers"] <= MOST_REGISTERS and not code["spilled_bytes"] and not code["stack_bytes"], what
            assert code["resident_blocks"] > 0, what


def test_two_compilations_give_one_file(exported, tmp_path):
    for name in ("a", "b"):
        Case("mlp", "data=2").notes(exported("mlp"), tmp_path / name, "adamw(lr=1e-3)", "--target", "cuda")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_plan_for_gpus_does_not_run_on_cpus(exported, dataset, tmp_path):
    Case("mlp", "data=1").notes(exported("mlp"), tmp_path / "plan", "sgd(lr=1)", "--target", "cuda", "--ptxas", "none")
    (image,), _ = kernelsOf(tmp_path / "plan")
    assert (image["format"], image["machine"]) == ("ptx", "sm_80")
    _, said = tools.tool("run", tmp_path / "plan", "--data", dataset("mlp", 1), "--steps", 1, code=1)
    assert "is for cuda; this polyrank-run has cpu" in said
