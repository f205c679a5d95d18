"""Runs in bf16 and fp16: the same bits on any number of threads and stages of ZeRO, and the bytes of their types."""

import dataclasses

import pytest
import torch

import tools
from cases import GPT2_TENSOR, LLAMA_TENSOR
from tools import Case

ADAMW = "adamw(lr=1e-2,weight_decay=0.1)"
BF16 = ("--precision", "bf16")
REDUCED = BF16 + ("--reduce-dtype", "bf16")
FULL = ("--zero-accumulate", "full")


def compiled(case, exported, plan, *options):
    """Without what Case.compile says of threads and the threshold."""
    tools.tool("compile", exported(case.model), "-o", plan, "--mesh", case.mesh, *case.spec.inputOptions, "--loss",
               case.spec.lossOption, "--optimizer", ADAMW, "--zero", case.zero, *options)
    return plan


def weights(case, options, exported, dataset, folder):
    plan = folder / "plan"
    case.notes(exported(case.model), plan, ADAMW, *options)
    memory = tools.inspect(plan)["memory_per_rank"]
    # A CPU without products in narrow types widens their operands first, in buffers of up to a tenth of such a small arena:
    # no order of placing was found in which these leave gaps of less than 1.1 %.
    assert memory["total"] <= 1.02 * memory["lower_bound"]
    return tools.train(plan, dataset(case.model, case.microbatches), 4, folder / "run").tensors


def same(case, options, others, exported, dataset, folder):
    first = weights(case, options, exported, dataset, folder)
    for other, more in others:
        found = weights(other, options + more, exported, dataset, folder)
        assert found.keys() == first.keys()
        for name, tensor in first.items():
            assert torch.equal(found[name], tensor), (other, more, name)


def stages(case, more=()):
    return [(dataclasses.replace(case, zero=stage), more) for stage in (0, 2, 3)]


@pytest.mark.parametrize("options", [BF16, REDUCED, ("--precision", "fp16")], ids=["bf16", "bf16-reduced", "fp16"])
@pytest.mark.parametrize("case", [Case("gpt2", "data=2"), Case("llama", "data=2"), Case("mlp", "data=4")], ids=str)
def test_stages_of_zero_train_the_same_bits(case, options, exported, dataset, tmp_path):
    same(case, options, stages(case), exported, dataset, tmp_path)


def test_sums_of_microbatches_are_the_same_bits_where_they_are_reduced_once(exported, dataset, tmp_path):
    case = Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4)
    same(case, REDUCED, stages(case, FULL)[1:], exported, dataset, tmp_path)


@pytest.mark.parametrize("case", [Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=2), Case("resnet", "data=2")], ids=str)
def test_recompute_and_overlap_change_no_bit(case, exported, dataset, tmp_path, monkeypatch):
    same(case, BF16, [(case, ("--overlap", "off"))], exported, dataset, tmp_path)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")  # see test_recompute.py
    same(case, BF16, [(dataclasses.replace(case, recompute="full"), ())] if case.model != "resnet" else [],
         exported, dataset, tmp_path)


def test_threads_change_no_bit(exported, dataset, tmp_path):
    case = Case("gpt2", "data=2")
    runs = [tools.train(compiled(case, exported, tmp_path / "plan", *BF16, "--threads", threads), dataset("gpt2", 1), 4,
                        tmp_path / "run").tensors for threads in (1, 2)]
    for name, tensor in runs[0].items():
        assert torch.equal(tensor, runs[1][name]), name


def kinds(plan):
    return {entry["kind"]: entry["most"] for entry in tools.inspect(plan)["memory_per_rank"]["by_kind"]}


def matrices(spec):
    """The elements of the parameters that products read: those with two dims, but the embedding of positions."""
    return sum(p.numel() for name, p in spec.fresh().named_parameters() if p.dim() > 1 and "wpe" not in name)


@pytest.mark.parametrize("model", ["mlp", "gpt2"])
def test_a_copy_of_the_parameters_takes_two_bytes_each(model, exported, tmp_path):
    case = Case(model, "data=2")
    elements = matrices(case.spec)
    for zero, copies in ((1, elements), (3, elements // 2)):
        plan = dataclasses.replace(case, zero=zero).compile(exported(model), tmp_path / "plan", ADAMW, *BF16)
        wide = dataclasses.replace(case, zero=zero).compile(exported(model), tmp_path / "wide", ADAMW)
        found, before = kinds(plan), kinds(wide)
        assert found["converted parameters"] == 2 * copies
        assert found["parameters"] == before["parameters"] and found["optimizer state"] == before["optimizer state"]


def moved(plan, *kinds):
    return sum(entry["bytes"] * entry["executions"] for entry in tools.inspect(plan)["collectives"]
               if entry["kind"] in kinds and entry["bytes"] > 64)


def test_gathers_of_parameters_and_reductions_take_half_the_bytes(exported, tmp_path):
    """Biases are added in f32, so the gathers of the matrices alone are halved; no bias is split here."""
    case = Case("mlp", "data=2", zero=3)
    wide, low, reduced = (compiled(case, exported, tmp_path / f"plan{len(options)}", "--zero-threshold", 65, *options)
                          for options in ((), BF16, REDUCED))
    gathers, reductions = ("AllGather",), ("ReduceScatter",)
    assert 2 * moved(low, *gathers) == moved(wide, *gathers) > 0
    assert moved(low, *reductions) == moved(wide, *reductions) == 2 * moved(reduced, *reductions) > 0


def test_activations_are_kept_in_their_own_type(exported, tmp_path):
    saved = [kinds(Case("gpt2", "data=1").compile(exported("gpt2"), tmp_path / "plan", ADAMW, *more))["saved activations"]
             for more in ((), BF16)]
    assert saved[1] < 0.65 * saved[0]


def test_a_checkpoint_of_one_precision_is_resumed_in_another(exported, dataset, tmp_path):
    case, data = Case("llama", "data=2", zero=3), dataset("llama", 1)
    low = case.compile(exported("llama"), tmp_path / "low", ADAMW, *BF16)
    wide = dataclasses.replace(case, mesh="tensor=2", shard=LLAMA_TENSOR, zero=1).compile(exported("llama"), tmp_path / "wide", ADAMW)
    tools.tool("run", low, "--data", data, "--steps", 2, "--checkpoint", tmp_path / "kept", "--order", "sequential")
    run = tools.train(wide, data, 4, tmp_path / "run", "--resume", tmp_path / "kept")
    assert len(run.losses) == 2
