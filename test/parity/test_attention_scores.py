"""ONNX's Attention with its scores as a result: values and gradients are those of the same arithmetic in PyTorch."""

import math

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import tools
from tools import tool

BATCH, QUERIES, WIDTH, SGD = 4, 3, 8, 0.5


class Case:
    """The scores of a `mode`. Keys and values have `groups` heads; `past` of them are a cache. `mask` is [queries, keys]."""

    def __init__(self, mode, heads=2, groups=2, past=0, mask=None, isCausal=False, softcap=0.0):
        self.mode, self.heads, self.groups, self.past = mode, heads, groups, past
        self.mask, self.isCausal, self.softcap = mask, isCausal, softcap

    def save(self, path, weights):
        attributes = dict(qk_matmul_output_mode=self.mode, q_num_heads=self.heads, kv_num_heads=self.groups,
                          is_causal=int(self.isCausal), **({"softcap": self.softcap} if self.softcap else {}))
        nodes = [helper.make_node("MatMul", ["x", name], [name + ".x"]) for name in "qkv"]
        inputs, constants = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, QUERIES, WIDTH])], {}
        operands = ["q.x", "k.x", "v.x", "", "", ""]
        if self.mask is not None:
            constants["mask"], operands[3] = self.mask, "mask"
        if self.past:
            for i, name in enumerate(("keys", "values")):
                inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, self.cache(name).shape))
                operands[4 + i] = name
        nodes.append(helper.make_node("Attention", operands, ["y", "", "", "scores"], name="attention", **attributes))
        nodes += [helper.make_node("Tanh", ["scores"], ["finite"]), helper.make_node("Flatten", ["finite"], ["flat"]),
                  helper.make_node("Flatten", ["y"], ["flat.y"]), helper.make_node("Concat", ["flat.y", "flat"], ["z"], axis=1)]
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)], [
            *(numpy_helper.from_array(w.detach().numpy(), name) for name, w in weights.items()),
            *(numpy_helper.from_array(value, name) for name, value in constants.items())])
        onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23)]), path)

    def cache(self, name):
        return torch.from_numpy(np.random.default_rng(len(name)).normal(
            size=(BATCH, self.groups, self.past, WIDTH // 2)).astype(np.float32))

    def forward(self, x, q, k, v):
        def split(w, heads):
            return (x @ w).unflatten(2, (heads, -1)).transpose(1, 2)

        q, k, v = split(q, self.heads), split(k, self.groups), split(v, self.groups)
        if self.past:
            k, v = torch.cat([self.cache("keys"), k], 2), torch.cat([self.cache("values"), v], 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        products = q @ k.transpose(2, 3) / math.sqrt(WIDTH // 2)
        capped = self.softcap * torch.tanh(products / self.softcap) if self.softcap else products
        bias = torch.zeros(QUERIES, QUERIES + self.past)
        if self.mask is not None:
            mask = torch.from_numpy(self.mask)
            bias = torch.where(mask, 0.0, -math.inf) if mask.dtype == torch.bool else mask
        if self.isCausal:
            bias = bias.masked_fill(torch.ones_like(bias, dtype=torch.bool).triu(self.past + 1), -math.inf)
        sees = bias.amax(1, keepdim=True) > -math.inf
        probabilities = torch.softmax(capped + torch.where(sees, bias, 0.0), 3) * sees
        y = (probabilities @ v).transpose(1, 2).flatten(1)
        scores = (products, capped, capped + bias, probabilities)[self.mode]
        return torch.cat([y, torch.tanh(scores).flatten(1)], 1)


def floats(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


HIDDEN = np.array([[True, False, True], [False, False, False], [True, True, True]])
CASES = {
    "products": Case(0, past=2, isCausal=True),
    "products of shared heads": Case(0, heads=4, groups=2),
    "under the soft cap": Case(1, softcap=0.7, mask=HIDDEN),
    "without a soft cap": Case(1, mask=floats(3, 3)),
    "with a mask of booleans": Case(2, mask=HIDDEN, isCausal=True),
    "with a mask of floats, a cache, a soft cap, none of what is ahead":
        Case(2, past=2, mask=floats(3, 5), softcap=0.7, isCausal=True),
    "with none of what is ahead": Case(2, isCausal=True),
    "probabilities": Case(3, past=2, mask=floats(3, 5)),
    "probabilities where a query sees nothing": Case(3, mask=HIDDEN),
    "probabilities where floats hide all": Case(3, mask=np.where(HIDDEN, floats(3, 3), np.float32(-np.inf))),
    "probabilities where floats and what is ahead hide all":
        Case(3, mask=np.where(HIDDEN[::-1] ^ HIDDEN, floats(3, 3), np.float32(-np.inf))[:, ::-1].copy(), isCausal=True),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_and_their_gradients_are_pytorchs(name, tmp_path):
    case = CASES[name]
    torch.manual_seed(0)
    widths = {"q": case.heads, "k": case.groups, "v": case.groups}
    weights = {name: torch.nn.Parameter(torch.randn(WIDTH, heads * WIDTH // 2)) for name, heads in widths.items()}
    case.save(tmp_path / "model.onnx", weights)
    tool("compile", tmp_path / "model.onnx", "-o", tmp_path / "plan", "--loss", "mse(z,t)", "--optimizer", f"sgd(lr={SGD})",
         "--mesh", "data=2")
    data = {"x": torch.randn(BATCH, QUERIES, WIDTH)}
    if case.past:
        data |= {name: case.cache(name) for name in ("keys", "values")}
    z = case.forward(data["x"], **weights)
    data["t"] = torch.randn(z.shape)
    tools.saveData(tmp_path / "data.npz", data)
    run = tools.train(tmp_path / "plan", tmp_path / "data.npz", 1, tmp_path / "run")
    loss = torch.nn.functional.mse_loss(z, data["t"])
    assert run.losses == pytest.approx([loss.item()], rel=1e-5)
    loss.backward()
    for name, weight in weights.items():
        assert torch.allclose(run.tensors[name], weight - SGD * weight.grad, rtol=1e-5, atol=1e-6), name
