"""What a plan moves, computes and holds is what theory says, per step and rank.

Megatron's counts for a decoder of L blocks over `tensor`: in each microbatch two
reductions per block forward and two backward, one for the embedding, one for
the gradient of the head's input (all of one activation), and at most three
small ones for the loss. Over `data`: the gradients once a step. Where updates
are split (ZeRO stage 1), the gradients are scattered and the new parameters
gathered, which is as much.
"""

from collections import defaultdict

import numpy as np
import onnx
import pytest

import tools
from cases import CASES, GPT2_TENSOR
from models import BATCH
from tools import Case

GPT2 = [case for case in CASES if case.model.startswith("gpt2")]
DECODERS = GPT2 + [case for case in CASES if case.model.startswith("llama")]
FLOAT = 4
ADAMW = "adamw(lr=1e-3)"


def sequenceParallel(case):
    return any(pattern.startswith("out(") for pattern in case.shard)


def sharesHeads(case):
    """Whether there are fewer heads of keys and values than ranks of `tensor`."""
    return case.spec.build.get("groups", case.spec.build["heads"]) < case.size("tensor")


def paddedHeads(case):
    heads, tensor = case.spec.build["heads"], case.size("tensor")
    return -(-heads // tensor) * tensor


def paddedVocab(case):
    vocab, tensor = case.spec.build["vocab"], case.size("tensor")
    return -(-vocab // tensor) * tensor


def sent(kind, payload, group):
    """Bytes that each rank of a group sends; an all-reduce is the two others in one."""
    return payload * (group - 1) * (2 if kind == "AllReduce" else 1) / group


def parameterBytes(case):
    """Held by one rank: what tensor splits, padded, and what it does not."""
    build, tensor = case.spec.build, case.size("tensor")
    width, layers = build["width"], build["layers"]
    attention = width // build["heads"] * paddedHeads(case) // tensor  # local width of all heads
    hidden = 4 * width // tensor
    block = (3 * attention * (width + 1) + attention * width + width  # attention
             + hidden * (width + 1) + hidden * width + width          # MLP
             + 4 * width)                                             # two norms
    positions = build["context"] // (tensor if sequenceParallel(case) else 1)  # split with the sequence
    embeddings = paddedVocab(case) // tensor * width + positions * width
    return FLOAT * (layers * block + embeddings + 2 * width)


def matmulFlops(case, padded):
    """Forward and backward of all ranks without recomputation, for one step."""
    build = case.spec.build
    width, context = build["width"], build["context"]
    heads = paddedHeads(case) if padded else build["heads"]
    vocab = paddedVocab(case) if padded else build["vocab"]
    attention = width // build["heads"] * heads
    weights = build["layers"] * (4 * width * attention + 8 * width * width) + vocab * width
    scores = build["layers"] * 2 * context * attention
    return 3 * 2 * BATCH * context * case.microbatches * (weights + scores)


def activationBytes(case):
    build = case.spec.build
    return FLOAT * BATCH // case.size("data") * build["context"] * build["width"]


def moved(report):
    """axes -> list of (kind, executions in a step, bytes of one).

    A plan lists a collective once per segment: with microbatches the first of
    them and the rest are apart.
    """
    times = defaultdict(int)
    for entry in report["collectives"]:
        times[frozenset(entry["axes"].split(",")), entry["kind"], entry["bytes"]] += entry["executions"]
    lines = defaultdict(list)
    for (axes, kind, size), executions in times.items():
        lines[axes].append((kind, executions, size))
    return lines


def total(lines, kind):
    return sum(n * size for each, n, size in lines if each == kind)


def gathered(lines):
    return total(lines, "AllGather")


def scattered(lines):
    return total(lines, "ReduceScatter")


@pytest.fixture(scope="session")
def report(exported, tmp_path_factory):
    made = {}

    def get(case):
        if case not in made:
            plan = tmp_path_factory.mktemp("plan") / "plan"
            # What one bucket holds is counted: the clock may prefer several.
            made[case] = tools.inspect(case.compile(exported(case.model), plan, ADAMW, "--bucket-mb", "25,first=25"))
        return made[case]

    return get


@pytest.mark.parametrize("case", [c for c in DECODERS if c.size("tensor") > 1], ids=str)
def test_tensor_axis_moves_what_megatron_moves(case, report):
    activation, group = activationBytes(case), case.size("tensor")
    blocks, times = case.spec.build["layers"], case.microbatches
    sets = moved(report(case))
    lines = sets[frozenset({"tensor"})]
    small = FLOAT * BATCH // case.size("data") * case.spec.build["context"]  # one number per token
    loss = [line for line in lines if line[2] <= small]
    assert sum(n for _, n, _ in loss) <= 3 * times
    assert all(n % times == 0 for _, n, _ in loss)
    large = [line for line in lines if line[2] == activation]
    reductions = sum(n for kind, n, _ in large if kind in ("AllReduce", "ReduceScatter"))
    assert reductions == times * (4 * blocks + 2)
    # All-reduces, or pairs of a reduce-scatter and an all-gather: the bytes are the same.
    assert sum(n * sent(kind, size, group) for kind, n, size in large) == \
        pytest.approx(times * (4 * blocks + 2) * sent("AllReduce", activation, group))
    # What is left is once a step: with sequence parallelism, one bucket of the
    # norms' gradients, which are sums over `data` too where there is one; and
    # the gradients of heads of keys and values that several ranks hold.
    rest = [line for axes in sets if any(axis.startswith("tensor") for axis in axes)
            for line in sets[axes] if line not in large and line not in loss]
    assert sum(n for kind, n, _ in rest if kind != "AllGather") == sequenceParallel(case) + sharesHeads(case)
    assert gathered(rest) == scattered(rest)


def scramble(path, out):
    """The same model without a word of GPT-2: other names, another order of nodes.

    Returns the new names of the initializers.
    """
    model = onnx.load(path)
    random = np.random.default_rng(3)
    kept = {value.name for value in [*model.graph.input, *model.graph.output]}
    names, nodes = {"": ""}, list(model.graph.node)

    def rename(name):
        return name if name in kept else names.setdefault(name, f"v{len(names)}")

    weights = {w.name: f"w{random.integers(10**9)}" for w in model.graph.initializer}
    names.update(weights)
    for weight in model.graph.initializer:
        weight.name = weights[weight.name]
    del model.graph.value_info[:]
    for i, node in enumerate(nodes):
        node.name = f"n{i}"
        del node.metadata_props[:]  # the modules' paths
        node.doc_string = ""
        node.input[:] = [rename(name) for name in node.input]
        node.output[:] = [rename(name) for name in node.output]
    # Another topological order: any node whose inputs are there.
    there = kept | set(weights.values()) | {""}
    order = []
    while nodes:
        ready = [node for node in nodes if there.issuperset(node.input)]
        node = ready[random.integers(len(ready))]
        nodes.remove(node)
        order.append(node)
        there.update(node.output)
    del model.graph.node[:]
    model.graph.node.extend(order)
    onnx.save(model, out)
    return weights


@pytest.mark.parametrize("mesh", ["tensor=2", "data=2,tensor=2"])
def test_counts_hold_for_scrambled_names_and_order(mesh, exported, tmp_path):
    """Nothing recognises GPT-2."""
    plain = Case("gpt2", mesh, GPT2_TENSOR)
    weights = scramble(exported("gpt2"), tmp_path / "scrambled.onnx")
    head = [name for name in weights if name.endswith(("wte.weight", "lm_head.weight"))]
    renamed = tuple(f"{weights[name]}=[-,tensor]" for name in weights
                    if name.endswith(("c_attn.weight", "c_fc.weight")))
    renamed += (f"{weights[head[0]]}=[tensor,-]",)
    scrambled = Case("gpt2", mesh, renamed)
    lines = []
    for case, model in ((plain, exported("gpt2")), (scrambled, tmp_path / "scrambled.onnx")):
        report = tools.inspect(case.compile(model, tmp_path / "plan", ADAMW))
        lines.append({axes: sorted(entries) for axes, entries in moved(report).items()})
        memory = report["memory_per_rank"]
        lines[-1]["held"] = memory["parameters"], report["commands_per_step"]["gemm_flops"]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("case", [c for c in GPT2 if c.size("data") > 1], ids=str)
def test_data_axis_reduces_the_gradients_once_a_step(case, report):
    group = case.size("data")
    scalars, gradients = [], []
    lines = moved(report(case))
    for kind, executions, size in lines[frozenset({"data"})]:
        (scalars if size <= 16 else gradients).append((kind, executions, size))
    assert len(scalars) <= 2  # loss and count
    # One bucket each of those whose updates are split and of the others.
    for kind in ("AllReduce", "ReduceScatter", "AllGather"):
        assert sum(n for each, n, _ in gradients if each == kind) <= (kind == "AllReduce" or case.zero)
    # Those of the norms are sums over `tensor` too with sequence parallelism.
    both = gradients + lines[frozenset({"data", "tensor"})]
    assert total(both, "AllReduce") + scattered(both) == parameterBytes(case)
    assert gathered(both) == scattered(both)
    if case.zero and case.size("tensor") == 1:  # each tensor divides, as a row at least
        assert total(both, "AllReduce") == 0


def test_gradients_are_reduced_in_buckets_in_reverse_order_of_use(exported, tmp_path):
    case, most = Case("gpt2", "data=4"), 0.02 * 2**20
    report = tools.inspect(case.compile(exported("gpt2"), tmp_path / "plan", ADAMW,
                                        "--bucket-mb", "0.02"))
    moved = [entry for entry in report["collectives"] if entry["bytes"] > 16]
    buckets = [entry for entry in moved if entry["kind"] != "AllGather"]
    assert sum(entry["bytes"] for entry in moved if entry["kind"] == "AllGather") == parameterBytes(case)
    assert len(buckets) >= 3
    assert all(entry["bytes"] <= most for entry in buckets)
    assert sum(entry["bytes"] for entry in buckets) == parameterBytes(case)
    # None could take the next one's first gradient: full, or nearly.
    largest = FLOAT * 4 * case.spec.build["width"] ** 2
    assert all(entry["bytes"] > most - largest for entry in buckets[:-1])
    assert "ln_f" in buckets[0]["op"] and "h.1" in buckets[0]["op"]


@pytest.mark.parametrize("case", GPT2, ids=str)
def test_no_other_axes_communicate(case, report):
    sets = {axes for axes in moved(report(case))}
    allowed = {frozenset({axis}) for axis in ("data", "tensor") if case.size(axis) > 1}
    if sequenceParallel(case):  # the norms' gradients are sums over both
        allowed.add(frozenset({"data", "tensor"}))
    assert sets <= allowed


@pytest.mark.parametrize("case", GPT2, ids=str)
def test_each_rank_holds_its_part_and_no_more(case, report):
    memory = report(case)["memory_per_rank"]
    assert memory["parameters"] == parameterBytes(case)
    # AdamW: two moments of each parameter, of which a rank keeps what it updates; and a counter.
    kept = parameterBytes(case)
    for axes, lines in moved(report(case)).items():
        if "data" in axes:
            kept -= scattered(lines) * (1 - 1 / np.prod([case.size(axis) for axis in axes]))
    scalars = 64
    assert 0 <= memory["state"] - 2 * kept <= scalars
    assert memory["lower_bound"] <= memory["total"]


@pytest.mark.parametrize("case", GPT2, ids=str)
def test_matmuls_are_split_over_all_ranks(case, report):
    ranks = case.size("data") * case.size("tensor")
    alone = Case(case.model, "data=1", microbatches=case.microbatches)
    whole = report(alone)["commands_per_step"]["gemm_flops"]
    assert whole >= matmulFlops(case, padded=False)
    share = whole / ranks * matmulFlops(case, padded=True) / matmulFlops(case, padded=False)
    assert report(case)["commands_per_step"]["gemm_flops"] <= 1.05 * share


def test_the_plan_does_not_grow_with_the_number_of_microbatches(exported, tmp_path):
    sizes = [Case("gpt2", "data=2", microbatches=count)
             .compile(exported("gpt2"), tmp_path / str(count), ADAMW).stat().st_size
             for count in (4, 64)]
    assert sizes[1] <= 1.1 * sizes[0]
