"""What the backward computes again is what the forward computed: the same bits, in less memory."""

import re
import warnings

import pytest
import torch
from torch import nn

import tools
from cases import BERT_TENSOR, GPT2_SEQUENCE, GPT2_TENSOR, LLAMA_TENSOR, VIT_SEQUENCE
from tools import Case

ADAMW = "adamw(lr=1e-2,weight_decay=0.1)"
GATHERS = ("--recompute-gathers",)
ROWS = [
    (Case("gpt2", "data=2"), "full", ()), (Case("gpt2", "data=2"), "*.mlp,*.attn", ()),
    (Case("gpt2", "data=2,tensor=2", GPT2_TENSOR, microbatches=4), "selective", ()),
    (Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE, zero=3), "full", ()),
    (Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE, microbatches=4, zero=3), "full", GATHERS),
    (Case("gpt2-six-heads", "tensor=4", GPT2_TENSOR, microbatches=4), "full", ()),
    (Case("llama", "data=2,tensor=2", LLAMA_TENSOR, microbatches=4), "full", ("--clip-norm", 0.5)),
    (Case("llama", "data=4", microbatches=4, zero=3), "full", ()),
    (Case("bert", "data=2,tensor=2", BERT_TENSOR), "full", GATHERS),
    (Case("vit", "data=2,tensor=2", VIT_SEQUENCE), "full", GATHERS),
    (Case("resnet50", "data=2"), "full", ()), (Case("resnet50", "data=4", zero=3), "layer*", ()),
]


@pytest.mark.parametrize("case, what, options", ROWS, ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple)
                         else str(value))
def test_the_same_bits_in_less_memory(case, what, options, exported, dataset, tmp_path, monkeypatch):
    # A product that is computed again may read its operands with other strides. The bits of oneDNN's AVX2 code depend
    # on strides, those of its SSE code do not, on any machine.
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    data, runs, bytes_ = dataset(case.model, case.microbatches), [], []
    common = tuple(option for option in options if option not in GATHERS)
    for more in (common, ("--recompute", what) + options):
        plan = case.compile(exported(case.model), tmp_path / "plan", ADAMW, *more)
        bytes_.append(tools.inspect(plan)["memory_per_rank"]["total"])
        runs.append(tools.train(plan, data, 4, tmp_path / "run").tensors)
    assert bytes_[1] < 0.9 * bytes_[0]
    for name, tensor in runs[0].items():
        assert torch.equal(tensor, runs[1][name]), name


def test_communication_is_repeated_only_where_asked(exported, tmp_path):
    case = Case("gpt2", "data=2,tensor=2", GPT2_SEQUENCE)

    def sent(*more):
        plan = case.compile(exported("gpt2"), tmp_path / "plan", ADAMW, *more)
        return sum(entry["bytes"] * entry["executions"] for entry in tools.inspect(plan)["collectives"])

    assert sent() == sent("--recompute", "full") < sent("--recompute", "full", "--recompute-gathers")


def test_dropped_elements_are_dropped_again(tmp_path):
    """What is dropped is a function of counters, in the copy as well."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.drop, self.down = nn.Linear(8, 32), nn.Dropout(0.4), nn.Linear(32, 8)

        def forward(self, x):
            return x + self.down(self.drop(torch.tanh(self.up(x))))

    torch.manual_seed(3)
    model = nn.Sequential(*[Block() for _ in range(3)]).train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.zeros(16, 8),), tmp_path / "model.onnx", input_names=["x"], output_names=["y"],
                          dynamo=True, optimize=False, verbose=False)
    tools.saveData(tmp_path / "data.npz", {"x": torch.randn(64, 8), "target": torch.randn(64, 8)})
    weights = []
    for what in ("none", "full", "selective"):
        _, notes = tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mesh", "data=2", "--loss",
                              "mse(y,target)", "--optimizer", "sgd(lr=0.1)", "--microbatches", 2, "--recompute", what)
        weights.append(tools.train(tmp_path / "plan", tmp_path / "data.npz", 4, tmp_path / "run", "--seed", 5).tensors)
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]) and torch.equal(tensor, weights[2][name]), name


def test_a_chain_without_blocks_is_cut_into_pieces(exported, tmp_path):
    """About the square root of as many as there are values to keep; where a cut goes through several, all of them are kept."""
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 64)

        def forward(self, x):
            y = self.first(x)
            for _ in range(16):
                y = torch.tanh(y) * y
            return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Chain(), (torch.zeros(16, 8),), tmp_path / "model.onnx", input_names=["x"], output_names=["y"],
                          dynamo=True, optimize=False, verbose=False)
    _, notes = tools.tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--mesh", "data=1", "--loss",
                          "mse(y,target)", "--recompute", "full")
    before, after = (int(n) for n in re.search(r"of (\d+) KiB .* it keeps (\d+) KiB", notes).groups())
    assert after <= before / 2


@pytest.mark.parametrize("options, message", [
    (("--recompute", "encoder.*"), "--recompute encoder.*: no module of this name computes anything"),
    (("--recompute", "h["), "'h[' is no pattern"), (("--recompute-gathers",), "--recompute-gathers requires --recompute"),
    (("--mode", "forward", "--recompute", "full"), "a forward plan has no gradients")],
    ids=["module", "pattern", "gathers", "forward"])
def test_what_cannot_be_meant_is_refused(options, message, exported, tmp_path):
    loss = () if "forward" in options else ("--loss", "cross_entropy(logits,labels)")
    _, errors = tools.tool("compile", exported("mlp"), "-o", tmp_path / "plan", "--mesh", "data=1", *loss, *options, code=1)
    assert message in errors
    assert not (tmp_path / "plan").exists()
