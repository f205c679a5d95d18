"""Attention as one library call, forward and backward: the weights after a step are PyTorch's, on one thread and on two, and those of
the parts."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import tools
from tools import saveData, tool, train

BATCH, TOKENS, WIDTH, RATE = 2, 150, 48, 0.5


class Layer(nn.Module):
    """A projection to queries, keys and values, attention, and a projection back."""

    def __init__(self, heads, groups, isCausal):
        super().__init__()
        self.heads, self.groups, self.isCausal = heads, groups, isCausal
        self.width = WIDTH // heads
        self.project = nn.Linear(WIDTH, (heads + 2 * groups) * self.width)
        self.back = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.project(x).split([n * self.width for n in (self.heads, self.groups, self.groups)], 2)
        q, k, v = (part.unflatten(2, (-1, self.width)).transpose(1, 2) for part in parts)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.isCausal, enable_gqa=self.groups != self.heads)
        return self.back(y.transpose(1, 2).flatten(2))


def export(model, path, tokens=TOKENS, **options):
    torch.onnx.export(model, (torch.randn(BATCH, tokens, WIDTH),), path, input_names=["x"], output_names=["y"], dynamo=True,
                      optimize=False, opset_version=23, verbose=False, **options)


def compile(path, plan, *options):
    return tool("compile", path, "-o", plan, "--loss", "mse(y,target)", "--optimizer", f"sgd(lr={RATE})", *options)


def describe(case):
    return "{0} heads, {1} of keys, {2}".format(case[0], case[1], "causal" if case[2] else "all")


@pytest.mark.parametrize("case", [(4, 4, True), (4, 4, False), (6, 2, True), (3, 1, False)], ids=describe)
def test_a_call_of_attention_has_the_gradients_of_pytorch(case, tmp_path):
    torch.manual_seed(0)
    model = Layer(*case)
    x, target = torch.randn(BATCH, TOKENS, WIDTH), torch.randn(BATCH, TOKENS, WIDTH)
    export(model, tmp_path / "model.onnx")
    saveData(tmp_path / "data.npz", {"x": x, "target": target})
    runs = {}
    for how, threads in (("fused", 1), ("fused", 2), ("parts", 1)):
        name = f"{how}{threads}"
        compile(tmp_path / "model.onnx", tmp_path / f"{name}.plan", "--threads", threads, "--attention", how)
        calls = tools.inspect(tmp_path / f"{name}.plan")["commands_per_step"]["attention_grad"]
        assert (calls > 0) == (how == "fused")
        train(tmp_path / f"{name}.plan", tmp_path / "data.npz", 1, tmp_path / name)
        runs[name] = load_file(tmp_path / f"{name}.safetensors")
    loss = nn.functional.mse_loss(model.double()(x.double()), target.double())
    loss.backward()
    for name, parameter in model.named_parameters():
        expected = (parameter - RATE * parameter.grad).detach().float()
        for run in runs.values():
            torch.testing.assert_close(run[name], expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(runs["fused1"][name], runs["fused2"][name])


def test_memory_grows_with_the_sequence_and_not_with_its_square(tmp_path):
    export(Layer(4, 4, True), tmp_path / "model.onnx", dynamic_shapes=({1: torch.export.Dim("tokens", min=2)},))
    memory = {}
    for tokens in (2048, 4096):
        plan = tmp_path / f"{tokens}.plan"
        compile(tmp_path / "model.onnx", plan, "--input", f"x=float32[{BATCH},{tokens},{WIDTH}]")
        memory[tokens] = tools.inspect(plan)["memory_per_rank"]
        assert plan.stat().st_size < 1e6
    scores = BATCH * 4 * 4096 * 4096 * 4
    assert memory[4096]["total"] < scores / 20
    temporary = [next(kind["most"] for kind in memory[tokens]["by_kind"] if kind["kind"] == "temporary") for tokens in memory]
    assert temporary[1] < 2.1 * temporary[0]


def test_splits_that_one_call_needs_whole_are_in_parts_and_a_remark_says_so(tmp_path):
    export(Layer(4, 4, True), tmp_path / "model.onnx")
    said = compile(tmp_path / "model.onnx", tmp_path / "split.plan", "--mesh", "seq=2", "--shard", "x=[-,seq,-]",
                   "--attention", "fused")[1]
    # Half of the 2 x 4 x 150 x 150 scores.
    assert "1 x graph.attention, 1 x graph.attention_grad: computed in parts, of which one has 352 KiB on each device" in said, said
    assert "--attention changes nothing: no attention of the step is one op" in said, said
    assert tools.inspect(tmp_path / "split.plan")["commands_per_step"]["attention"] == 0
