"""ZeRO stages 0 to 3: the same bits, as much less memory as each promises, and the bytes of its definition."""

import dataclasses
import re

import pytest
import torch
from safetensors.torch import save_file

import tools
from cases import BERT_SEQUENCE, CASES, GPT2_TENSOR, HEIGHT, LLAMA_SEQUENCE, STAGES, rows
from tools import Case

ADAMW = "adamw(lr=1e-2,weight_decay=0.1)"
CLIP = ("--clip-norm", 0.5)
FULL = ("--zero-accumulate", "full")
STEP = ("--zero-gather", "step")
# What two stages do, and whether their bits are the same: they are where gradients are added in the same order.
SAME_BITS = [
    (Case("gpt2", "data=2"), (2, CLIP), (3, CLIP)),
    (Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4), (2, FULL), (3, FULL)),
    (Case("gpt2-six-heads", "data=2", microbatches=2), (3, FULL + STEP), (3, FULL + ("--zero-gather", "keep=*.ln_*"))),
    (Case("llama", "data=4"), (2, ()), (3, STEP)),
    (Case("llama-tied", "data=2", microbatches=2), (2, FULL), (3, FULL + CLIP[:0])),
    (Case("mlp", "data=8"), (2, ()), (3, ())),
    (Case("bert", "data=2,tensor=2", BERT_SEQUENCE), (2, ()), (3, ())),
    (Case("resnet", "data=2,space=2", HEIGHT), (2, ()), (3, ())),
]


def weights(case, options, exported, dataset, folder):
    plan = case.compile(exported(case.model), folder / "plan", ADAMW, *options)
    return tools.train(plan, dataset(case.model, case.microbatches), 4, folder / "run").tensors


@pytest.mark.parametrize("case, second, third", SAME_BITS, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_stages_train_the_same_bits(case, second, third, exported, dataset, tmp_path):
    clip = second[1] if second[1] == CLIP else ()
    first = weights(case, clip, exported, dataset, tmp_path)
    for stage, options in (second, third):
        other = weights(dataclasses.replace(case, zero=stage), options, exported, dataset, tmp_path)
        assert other.keys() == first.keys()
        for name, tensor in first.items():
            assert torch.equal(other[name], tensor), (stage, name)


def memory(plan):
    return tools.inspect(plan)["memory_per_rank"]


@pytest.mark.parametrize("case", rows([c for c in CASES + STAGES if c.zero and c.size("data") > 1]))
def test_no_row_loses_a_stage_silently(case, exported, tmp_path):
    """What a stage promises to divide is divided, but for the bytes that are said to be whole, and padding to pages."""
    onnx = exported(case.model)
    all_ = memory(dataclasses.replace(case, zero=0).compile(onnx, tmp_path / "whole", "adamw"))
    notes = case.notes(onnx, tmp_path / "plan", "adamw")
    whole = sum(int(n) for n in re.findall(r"keeps (\d+) bytes of", notes))
    kept = memory(tmp_path / "plan")
    parts = case.size("data")
    count = len(case.spec.fresh().state_dict())
    round = 64 * 3 * count  # each tensor begins at a multiple of 64 bytes
    kinds = ("state", "parameters") if case.zero == 3 else ("state",)
    before, after = sum(all_[kind] for kind in kinds), sum(kept[kind] for kind in kinds)
    assert after <= (before - whole) / parts + whole + round, notes
    assert after < before
    if case.zero < 3:
        assert kept["parameters"] == all_["parameters"]
    if case.zero >= 2 and case.microbatches > 1:
        assert "adds up the gradients" not in notes
    assert kept["total"] < all_["total"]


def kinds(plan):
    """kind -> the most bytes that a rank holds of it at any time."""
    return {entry["kind"]: entry["most"] for entry in memory(plan)["by_kind"]}


@pytest.mark.parametrize("model", ["gpt2", "llama", "mlp"])
def test_each_stage_holds_the_bytes_of_its_formula(model, exported, tmp_path):
    """Rajbhandari et al., ZeRO (2020), 5: of P bytes of parameters, with Adam in fp32, P, P and 2P; to the byte, where no dim
    is padded. The step's number has 8 more."""
    case = Case(model, "data=2", microbatches=4)
    sizes = [4 * p.numel() for p in case.spec.fresh().parameters()]
    p, largest = sum(sizes), max(sizes)
    expected = {(0, ()): (p, p, 2 * p), (1, ()): (p, p, p), (2, ()): (p, p // 2, p), (2, FULL): (p, p, p),
                (3, ()): (p // 2, p // 2, p), (3, FULL): (p // 2, p, p), (3, STEP): (p // 2, p // 2, p)}
    for (stage, options), (parameters, gradients, state) in expected.items():
        plan = dataclasses.replace(case, zero=stage).compile(exported(model), tmp_path / "plan", ADAMW, *options)
        found = kinds(plan)
        assert found["parameters"] == parameters, (stage, options)
        assert found["gradients"] == gradients, (stage, options)
        assert found["optimizer state"] == state + 8, (stage, options)
        gathered = found["gathered parameters"]
        if stage < 3:
            assert gathered == 0
        elif options == STEP:
            assert gathered == p
        else:  # a bucket, which is no larger than the largest of them, the one before it and the one ahead
            assert largest <= gathered <= 3 * largest
            plan = dataclasses.replace(case, zero=stage).compile(exported(model), tmp_path / "plan", ADAMW, *options,
                                                                 "--prefetch", 0, "--bucket-mb", 25)
            assert largest <= kinds(plan)["gathered parameters"] <= 2 * largest
        assert found["saved activations"] > 0


def moved(plan, axis="data"):
    """kind -> bytes in a step over an axis, without single numbers."""
    lines = {}
    for entry in tools.inspect(plan)["collectives"]:
        if entry["axes"] == axis and entry["bytes"] > 64:
            lines[entry["kind"]] = lines.get(entry["kind"], 0) + entry["bytes"] * entry["executions"]
    return lines


@pytest.mark.parametrize("microbatches", [1, 4])
@pytest.mark.parametrize("model", ["gpt2", "llama", "mlp"])
def test_each_stage_moves_the_bytes_of_its_definition(model, microbatches, exported, tmp_path):
    """Rajbhandari et al., ZeRO (2020), 7: gradients are reduced once a step, or once a microbatch where their sum is in
    parts; parameters are gathered once, or with stage 3 once for the forward of each microbatch and once more for its
    backward, if that reads them."""
    case = Case(model, "data=2", microbatches=microbatches)
    state = case.spec.fresh()
    sizes = {name: 4 * p.numel() for name, p in state.named_parameters()}
    everything = sum(sizes.values())
    # The backward reads no bias, and no table of positions or of words (but where it is the head's matrix too).
    forwardAlone = {"gpt2": lambda n: n.endswith("bias") or "wpe" in n, "llama": lambda n: "embed_tokens" in n,
                    "mlp": lambda n: n.endswith("bias") or n == "fc1.weight"}[model]
    twice = sum(size for name, size in sizes.items() if not forwardAlone(name))
    expected = {(0, ()): {"AllReduce": everything}, (1, ()): {"ReduceScatter": everything, "AllGather": everything},
                (2, ()): {"ReduceScatter": microbatches * everything, "AllGather": everything},
                (2, FULL): {"ReduceScatter": everything, "AllGather": everything},
                (3, ()): {"ReduceScatter": microbatches * everything, "AllGather": microbatches * (everything + twice)},
                (3, FULL): {"ReduceScatter": everything, "AllGather": microbatches * (everything + twice)},
                (3, STEP): {"ReduceScatter": microbatches * everything, "AllGather": everything},
                (3, ("--zero-gather", "keep=*")): {"ReduceScatter": microbatches * everything,
                                                   "AllGather": microbatches * everything}}
    for (stage, options), bytes_ in expected.items():
        plan = dataclasses.replace(case, zero=stage).compile(exported(model), tmp_path / "plan", ADAMW, *options)
        assert moved(plan) == bytes_, (stage, options)


def test_hybrid_sharding_gathers_inside_of_a_group(exported, tmp_path):
    """Parts over `data`: gathers stay there, and `replica` adds up parts alone. By default the batch is split over both."""
    case = Case("mlp", "replica=2,data=2", zero=3, zeroAxis="data")
    notes = case.notes(exported("mlp"), tmp_path / "plan", ADAMW)
    assert "the axes replica=2 and data=2 together split the batch of" in notes
    everything = sum(4 * p.numel() for p in case.spec.fresh().parameters())
    # As many bytes as a gather of each for the forward, and of some for the backward.
    assert everything < moved(tmp_path / "plan", "data")["AllGather"] < 2 * everything
    # Of gradients that are reduced, none of parameters.
    assert moved(tmp_path / "plan", "replica").get("AllGather", 0) <= everything // 2
    assert "AllGather" not in moved(tmp_path / "plan", "replica,data")
    assert memory(tmp_path / "plan")["parameters"] == everything // 2
    alone = case.notes(exported("mlp"), tmp_path / "plan", ADAMW, "--batch-axes", "data", "--shard", "fc1.weight=[replica,-]")
    assert "the axis data=2 splits the batch of" in alone


def test_neighbours_are_gathered_and_reduced_together(exported, tmp_path):
    """Gradients of a microbatch in one bucket; parameters in buckets of at most the largest one's bytes."""
    case, lines = Case("gpt2", "data=2", microbatches=4, zero=3), {}
    for size in (0, 0.02, 25):
        plan = case.compile(exported("gpt2"), tmp_path / "plan", ADAMW, "--bucket-mb", size)
        lines[size] = [entry for entry in tools.inspect(plan)["collectives"] if entry["bytes"] > 64]

    def count(size, kind):
        return sum(entry["executions"] for entry in lines[size] if entry["kind"] == kind)

    assert count(25, "ReduceScatter") == 4 < count(0.02, "ReduceScatter") < count(0, "ReduceScatter")
    assert count(25, "AllGather") <= count(0, "AllGather") / 2
    largest = max(4 * p.numel() for p in case.spec.fresh().parameters())
    assert max(entry["bytes"] for entry in lines[25] if entry["kind"] == "AllGather") == largest


def test_weights_pass_between_stages(exported, dataset, tmp_path):
    case, data = Case("llama", "data=2", zero=3), dataset("llama", 1)
    trained = tools.train(case.compile(exported("llama"), tmp_path / "three", ADAMW), data, 3, tmp_path / "a")
    for stage in range(4):
        plan = dataclasses.replace(case, mesh="data=4", zero=stage).compile(exported("llama"), tmp_path / "plan", "sgd(lr=0)")
        idle = tools.train(plan, data, 1, tmp_path / "b", "--init", trained.weights)
        for name, tensor in trained.tensors.items():
            assert torch.equal(idle.tensors[name], tensor), (stage, name)


def test_a_forward_keeps_parameters_in_parts(exported, dataset, tmp_path):
    spec = Case("gpt2", "data=2").spec
    outputs, kept = {}, {}
    for stage in (0, 3):
        tools.tool("compile", exported("gpt2"), "-o", tmp_path / "plan", "--mesh", "data=2", *spec.inputOptions, "--mode",
                   "forward", "--zero", stage, "--zero-threshold", 1)
        kept[stage] = memory(tmp_path / "plan")["parameters"]
        ids = tmp_path / "ids.npz"
        tools.saveData(ids, {"input_ids": spec.data(1)["input_ids"][:16]})
        tools.tool("run", tmp_path / "plan", "--inputs", ids, "--outputs", tmp_path / f"out{stage}.npz")
        outputs[stage] = tools.np.load(tmp_path / f"out{stage}.npz")
    assert kept[3] <= kept[0] / 2 + 64 * 64
    for name in outputs[0].files:
        assert (outputs[0][name] == outputs[3][name]).all()


def test_frozen_parameters_are_in_parts_too(exported, dataset, tmp_path):
    case, kept, after = Case("gpt2", "data=2"), {}, {}
    for stage in (0, 1, 3):
        plan = dataclasses.replace(case, zero=stage).compile(exported("gpt2"), tmp_path / "plan", ADAMW,
                                                             "--train-only", "*.ln_*")
        kept[stage] = memory(plan)["parameters"]
        after[stage] = tools.train(plan, dataset("gpt2", 1), 3, tmp_path / "run").tensors
    assert kept[0] == kept[1] and kept[3] <= kept[0] / 2 + 64 * 64
    before = case.spec.fresh().state_dict()
    for name, tensor in after[0].items():
        assert torch.equal(tensor, after[3][name]), name
        assert torch.equal(tensor, before[name]) or ".ln_" in name


@pytest.mark.parametrize("options, message", [
    (("--zero", 4), "--zero"), (("--zero", 1, "--zero-accumulate", "full"), "--zero-accumulate"),
    (("--zero", 2, "--zero-gather", "step"), "--zero-gather"), (("--zero", 3, "--zero-gather", "sometimes"), "sometimes"),
    (("--zero", 3, "--zero-gather", "keep=nothing.*"), "nothing.*: no parameter of this name is kept in parts"),
    (("--zero", 3, "--zero-gather", "keep="), "keep="), (("--zero", 2, "--zero-accumulate", "half"), "half"),
    (("--zero", 3, "--zero-axis", "tensor"), "--zero-axis: the mesh has no axis 'tensor'; it has data"),
    (("--batch-axes", "data+date"), "--batch-axes: the mesh has no axis 'date'; it has data"),
    (("--batch-axes", "data+data"), "--batch-axes: 'data' is there twice")],
    ids=lambda value: "" if isinstance(value, str) else "-".join(str(v) for v in value).replace("-", ""))
def test_what_cannot_be_meant_is_refused(options, message, exported, tmp_path):
    _, errors = tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", "data=2", "--loss",
                           "cross_entropy(logits,labels)", *options, code=1)
    assert message in errors
    assert not (tmp_path / "plan").exists()
