"""Attention as one library call, forward and backward: the weights after a step are PyTorch's, on one thread and on two, and those of
the parts. The call of narrow elements is as close to the definition as PyTorch's."""

import json
import os
import subprocess

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


TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def runCall(folder, name, tensors, threads=1, **environment):
    """Our result and gradients of queries, keys and values [heads, length, width], and which products computed them."""
    heads, length, width = tensors[0].shape
    dtype = tensors[0].dtype
    given, made = folder / "given", folder / "made"
    given.write_bytes(b"".join(tensor.contiguous().view(torch.int16).numpy().tobytes() for tensor in tensors))
    done = subprocess.run(list(map(str, [
        tools.bin() / "polyrank-bench-attention", "--type", name, "--heads", heads, "--length", length, "--width", width,
        "--threads", threads, "--repeats", 1, "--inputs", given, "--outputs", made])),
        env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(torch.frombuffer(bytearray(made.read_bytes()), dtype=dtype).view(4, heads, length, width)), json.loads(done.stdout)["products"]


def attend(tensors, dtype):
    """PyTorch's result and gradients, computed with this type."""
    *operands, gradient = (tensor[None].to(dtype) for tensor in tensors)
    operands = [operand.requires_grad_() for operand in operands]
    result = nn.functional.scaled_dot_product_attention(*operands, is_causal=True)
    return [t.detach()[0] for t in (result, *torch.autograd.grad(result, operands, gradient))]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("size", [(4, 1024, 64, 1), (3, 300, 80, 1), (2, 513, 33, 1), (2, 512, 64, 4)], ids=str)
def test_a_call_of_narrow_elements_is_as_close_to_f64_as_pytorchs(name, isa, size, tmp_path):
    heads, length, width, scale = size
    random = torch.Generator().manual_seed(length)
    tensors = [(scale * torch.randn((heads, length, width), generator=random)).to(TYPES[name]) for _ in range(4)]
    environment = {"ONEDNN_MAX_CPU_ISA": isa} if isa else {}
    ours, products = runCall(tmp_path, name, tensors, **environment)
    assert products == "widened" or (name == "bf16" and not isa)
    again, _ = runCall(tmp_path, name, tensors, threads=2, **environment)
    exact, theirs = attend(tensors, torch.float64), attend(tensors, TYPES[name])
    for what, one, two, expected, other in zip(("result", "dq", "dk", "dv"), ours, again, exact, theirs):
        assert torch.equal(one, two), what
        distance, most = ((value.double() - expected).norm() / expected.norm() for value in (one, other))
        assert distance <= 3 * most, (what, distance, most)
