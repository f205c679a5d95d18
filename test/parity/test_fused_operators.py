"""The fused operators of onnxruntime's optimizer: values are onnxruntime's, gradients those of the model before it was optimized."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

import tools
from test_families import spread
from test_import import check, compare
from test_operators import f32, floats, i32, imported

HEADS, WIDTH = 2, 8


class Node:
    """`operands` are inputs of the model, but those whose number is in `known`; None for those that are left out."""

    def __init__(self, op, *operands, outputs=("y",), known=(), domain="com.microsoft", **attributes):
        self.op, self.operands, self.outputs, self.known = op, operands, outputs, known
        self.domain, self.attributes = domain, attributes

    def save(self, path):
        names = ["" if operand is None else f"i{i}" for i, operand in enumerate(self.operands)]
        values = {f"i{i}": np.asarray(operand) for i, operand in enumerate(self.operands) if operand is not None}
        known = {name: values.pop(name) for name in [f"i{i}" for i in self.known]}
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                  for name, value in values.items()]
        node = helper.make_node(self.op, names, self.outputs, name="node", domain=self.domain, **self.attributes)
        outputs = [helper.make_tensor_value_info(
            name, onnx.TensorProto.INT32 if name == "mask" else onnx.TensorProto.FLOAT, None)
            for name in self.outputs if name]
        graph = helper.make_graph([node], "graph", inputs, outputs,
                                  [numpy_helper.from_array(value, name) for name, value in known.items()])
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[
            helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in {"com.microsoft", self.domain} - {""})]), path)
        return values


X, SCALE, BIAS = floats(2, 5, WIDTH), floats(WIDTH), floats(WIDTH) + 1
QUERY, KEY, VALUE = floats(2, 5, WIDTH), floats(2, 5, WIDTH) * 2, floats(2, 5, WIDTH) - 1
LONG = floats(2, 6, WIDTH)
WEIGHT, BIASES = floats(WIDTH, 3 * WIDTH), floats(3 * WIDTH)
PADDED = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
LEFT = PADDED[:, ::-1].copy()
ANGLES = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
POSITIONS = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
GROUPED = (floats(2, 5, 32), floats(2, 5, 16), floats(2, 5, 16) + 1, None, None, i32(4, 4), i32(5))
TABLES = (floats(7, WIDTH), floats(6, WIDTH), floats(2, WIDTH))
IDS, SEGMENTS = np.array([[1, 6, 0, 2, 3], [4, 4, 5, 1, 0]], np.int32), PADDED

NODES = {
    "gelu": Node("Gelu", X),
    "gelu of a sum": Node("BiasGelu", X, BIAS),
    "fast gelu": Node("FastGelu", X),
    "fast gelu of a sum": Node("FastGelu", X, BIAS),
    "quick gelu": Node("QuickGelu", X, alpha=1.5),
    "norm of a sum": Node("SkipLayerNormalization", X, QUERY * 2, SCALE, BIAS, epsilon=1e-5),
    "norm of a sum with a bias": Node("SkipLayerNormalization", X, QUERY * 2, SCALE, BIAS, SCALE * 3, epsilon=0.1,
                                      outputs=("y", "", "", "sum")),
    "norm of a sum with one sample for all": Node("SkipLayerNormalization", X, floats(1, 5, WIDTH), SCALE),
    "rms norm": Node("SimplifiedLayerNormalization", X, SCALE, domain="", axis=-1, epsilon=1e-3),
    "rms norm of a sum": Node("SkipSimplifiedLayerNormalization", X, QUERY * 2, SCALE, epsilon=1e-3),
    "rms norm of a sum with a bias": Node("SkipSimplifiedLayerNormalization", X, QUERY * 2, SCALE, BIAS, epsilon=1e-3,
                                          outputs=("y", "", "", "sum")),
    "embeddings": Node("EmbedLayerNormalization", IDS, SEGMENTS, *TABLES, SCALE, BIAS, known=(2, 3, 4), epsilon=1e-5,
                       outputs=("y", "mask")),
    "embeddings without segments": Node("EmbedLayerNormalization", IDS, None, TABLES[0], TABLES[1], None, SCALE, BIAS, PADDED,
                                        known=(2, 3), outputs=("y", "mask", "sum")),
    "embeddings at positions": Node("EmbedLayerNormalization", IDS, SEGMENTS, *TABLES, SCALE, BIAS, None,
                                    POSITIONS.astype(np.int32) % 6, known=(2, 3, 4), outputs=("y", "mask")),
    "attention": Node("Attention", X, WEIGHT, BIASES, num_heads=HEADS),
    "attention of scaled products": Node("Attention", X, WEIGHT, BIASES, num_heads=HEADS, scale=0.3),
    "attention, values of another width": Node("Attention", X, floats(WIDTH, 20), floats(20), num_heads=HEADS,
                                               qkv_hidden_sizes=[8, 8, 4]),
    "attention, causal": Node("Attention", X, WEIGHT, BIASES, num_heads=HEADS, unidirectional=1),
    "attention, padded": Node("Attention", X, WEIGHT, BIASES, PADDED, num_heads=HEADS),
    "attention of lengths": Node("Attention", X, WEIGHT, BIASES, i32(3, 5), num_heads=HEADS),
    "attention of ends and starts": Node("Attention", X, WEIGHT, BIASES, i32(3, 5, 0, 2), num_heads=HEADS),
    "attention, a mask for each query": Node("Attention", X, WEIGHT, BIASES, np.tril(np.ones((2, 5, 5), np.int32)), num_heads=HEADS),
    "attention, padded on the left and causal": Node("Attention", X, WEIGHT, BIASES, LEFT, num_heads=HEADS, unidirectional=1,
                                                      mask_filter_value=-50.0),  # of -10000 floats lose the products' last digits
    "attention with a bias of products": Node("Attention", X, WEIGHT, BIASES, None, None, floats(2, HEADS, 5, 5), num_heads=HEADS),
    "heads": Node("MultiHeadAttention", QUERY, KEY, VALUE, num_heads=HEADS),
    "heads with biases": Node("MultiHeadAttention", QUERY, KEY, VALUE, BIASES, num_heads=HEADS),
    "heads of other keys": Node("MultiHeadAttention", QUERY, LONG, LONG + 1, num_heads=HEADS, scale=0.7),
    "heads, keys that are split": Node("MultiHeadAttention", QUERY, floats(2, HEADS, 6, 4), floats(2, HEADS, 6, 4) + 1, num_heads=HEADS),
    "heads, padded keys": Node("MultiHeadAttention", QUERY, KEY, VALUE, None, PADDED, num_heads=HEADS),
    "heads, causal": Node("MultiHeadAttention", QUERY, KEY, VALUE, num_heads=HEADS, unidirectional=1),
    "heads with a bias of products": Node("MultiHeadAttention", QUERY, KEY, VALUE, None, None, floats(1, HEADS, 5, 5), num_heads=HEADS),
    "heads with a cache": Node("MultiHeadAttention", QUERY, KEY, VALUE, None, None, None, floats(2, HEADS, 3, 4),
                               floats(2, HEADS, 3, 4) + 1, num_heads=HEADS, outputs=("y", "keys", "values")),
    "groups": Node("GroupQueryAttention", *GROUPED, num_heads=4, kv_num_heads=2, known=(5, 6), outputs=("y", "keys", "values")),
    "groups, packed": Node("GroupQueryAttention", floats(2, 5, 64), None, None, None, None, i32(4, 4), i32(5),
                           num_heads=4, kv_num_heads=2, known=(5, 6), outputs=("y", "keys", "values")),
    "groups in a window": Node("GroupQueryAttention", *GROUPED, num_heads=4, kv_num_heads=2, known=(5, 6), local_window_size=2,
                               outputs=("y", "keys", "values")),
    "groups with a soft cap": Node("GroupQueryAttention", *GROUPED, num_heads=4, kv_num_heads=2, known=(5, 6), softcap=1.5,
                                   outputs=("y", "keys", "values")),
    "turned heads": Node("RotaryEmbedding", floats(2, HEADS, 5, 4), POSITIONS, COS, SIN),
    "turned heads side by side": Node("RotaryEmbedding", X, POSITIONS, COS, SIN),
    "turned neighbours from one position on": Node("RotaryEmbedding", X, np.array([2]), COS, SIN, interleaved=1),
}
def fused(op, *operands, **attributes):
    return Node(op, *operands, outputs=("y",), **attributes)


MATRICES, OTHERS, IMAGE = floats(2, 3, 4, 5), floats(2, 3, 5, 6), floats(2, 4, 7, 6)
NODES |= {
    "product with a factor": fused("FusedMatMul", MATRICES, OTHERS, alpha=0.3),
    "product of turned matrices": fused("FusedMatMul", MATRICES.swapaxes(2, 3).copy(), OTHERS.swapaxes(2, 3).copy(), transA=1, transB=1),
    "product with a parameter, turned": fused("FusedMatMul", X, floats(6, WIDTH), transB=1, alpha=2.0),
    "product whose batch is behind the rows": fused("FusedMatMul", floats(4, 2, 3, 5), OTHERS, transBatchA=1),
    "product whose batches are behind the rows": fused("FusedMatMul", floats(4, 2, 3, 5), floats(5, 2, 3, 6), transBatchA=1, transBatchB=1),
    "product whose batch is behind the rows, turned": fused("FusedMatMul", floats(5, 2, 3, 4), OTHERS, transA=1, transBatchA=1),
    "gemm, relu": fused("FusedGemm", floats(3, 4), floats(5, 4), floats(5), transB=1, alpha=0.5, activation="Relu"),
    "gemm, leaky relu": fused("FusedGemm", floats(3, 4), floats(4, 5), activation="LeakyRelu", activation_alpha=0.3),
    "gemm, hard sigmoid": fused("FusedGemm", floats(3, 4), floats(4, 5), activation="HardSigmoid", activation_alpha=0.3,
                                activation_beta=0.4),
    "convolution, tanh": fused("FusedConv", IMAGE, floats(6, 4, 3, 3), floats(6), activation="Tanh", pads=[1, 1, 1, 1]),
    "convolution, sum, relu": fused("FusedConv", IMAGE, floats(6, 4, 3, 3), floats(6), floats(2, 6, 5, 4), activation="Relu"),
    "convolution, sum": fused("FusedConv", IMAGE, floats(6, 4, 3, 3), None, floats(2, 6, 5, 4), activation="Relu"),
    "convolution, clip": fused("FusedConv", IMAGE, floats(6, 4, 3, 3), activation="Clip", activation_params=[-0.5, 0.7]),
    "convolution, leaky relu": fused("FusedConv", IMAGE, floats(6, 2, 3, 3), floats(6), activation="LeakyRelu", activation_params=[0.2], group=2),
}
# The widths of onnxruntime's own kernel: multiples of 16.
WIDE = np.random.default_rng(1).normal(size=(9, 8)).astype(np.float32)
NODES["turned groups"] = Node(
    "GroupQueryAttention", floats(2, 5, 64), floats(2, 5, 32), floats(2, 5, 32) + 1, None, None, i32(4, 4), i32(5),
    np.cos(WIDE), np.sin(WIDE), num_heads=4, kv_num_heads=2, do_rotary=1, known=(5, 6), outputs=("y", "keys", "values"))


@pytest.mark.parametrize("name", NODES)
def test_a_fused_node_means_what_onnxruntime_computes(tmp_path, name):
    values = NODES[name].save(tmp_path / "model.onnx")
    check(tmp_path, tmp_path / "model.onnx", values)


ALL, PAIRS = floats(2, 5, HEADS, 3, 4), floats(2, 6, HEADS, 2, 4)
# onnxruntime's kernel for the CPU takes the operands apart only.
PACKED = {
    "all": (Node("MultiHeadAttention", ALL, num_heads=HEADS),
            Node("MultiHeadAttention", *(ALL[:, :, :, i].reshape(2, 5, WIDTH) for i in range(3)), num_heads=HEADS)),
    "keys and values": (Node("MultiHeadAttention", QUERY, PAIRS, num_heads=HEADS),
                        Node("MultiHeadAttention", QUERY, *(PAIRS[:, :, :, i].reshape(2, 6, WIDTH) for i in range(2)), num_heads=HEADS)),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_operands_mean_what_they_mean_apart(tmp_path, name):
    packed, apart = PACKED[name]
    values = apart.save(tmp_path / "apart.onnx")
    expected = onnxruntime.InferenceSession(tmp_path / "apart.onnx").run(None, values)[0]
    check(tmp_path, tmp_path / "model.onnx", packed.save(tmp_path / "model.onnx"), expected)


def rows(values):
    return torch.from_numpy(values).movedim(-1, 1)


# onnxruntime has no kernel for the CPU.
FORMULAS = {
    "gelu of a half": (fused("BiasSplitGelu", X, BIAS), lambda: (X + BIAS)[..., :4] * torch.nn.functional.gelu(
        torch.from_numpy(X + BIAS)[..., 4:]).numpy()),
    "bias and skip": (fused("BiasAdd", X, BIAS, QUERY), lambda: X + BIAS + QUERY),
    "group norm, channels last": (fused("GroupNorm", floats(2, 3, 5, 8), SCALE, BIAS, groups=4, epsilon=0.1), lambda:
                                  torch.nn.functional.group_norm(rows(floats(2, 3, 5, 8)), 4, torch.from_numpy(SCALE),
                                                                 torch.from_numpy(BIAS), 0.1).movedim(1, -1).numpy()),
    "group norm and silu": (fused("GroupNorm", floats(2, 8, 5), SCALE, BIAS, groups=2, channels_last=0, activation=1), lambda:
                            torch.nn.functional.silu(torch.nn.functional.group_norm(
                                torch.from_numpy(floats(2, 8, 5)), 2, torch.from_numpy(SCALE), torch.from_numpy(BIAS))).numpy()),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_fused_node_means_what_its_schema_says(tmp_path, name):
    node, formula = FORMULAS[name]
    values = node.save(tmp_path / "model.onnx")
    compare(tmp_path, tmp_path / "model.onnx", list(values.items()), [("y", np.ascontiguousarray(formula()))])


REFUSED = {
    "tokens without padding": (fused("PackedAttention", X, WEIGHT, BIASES, i32(1), i32(2), num_heads=HEADS),
                               "com.microsoft.PackedAttention (opset 1) is not supported: how many tokens it packs depends on values"),
    "channels of one device": (fused("NhwcConv", IMAGE, floats(6, 3, 3, 4)), "its channels come last, as one device has them"),
    "vectors of one processor": (Node("Conv", IMAGE, floats(6, 4, 3, 3), domain="com.microsoft.nchwc"),
                                 "com.microsoft.nchwc.Conv (opset 1) is not supported: it is of one processor's vectors"),
    "an activation that is none": (fused("FusedGemm", floats(3, 4), floats(4, 5), activation="Softmax"), "an activation `Softmax`"),
    "a sum of another size": (fused("FusedConv", IMAGE, floats(6, 4, 3, 3), floats(6), floats(1, 6, 1, 1), activation="Relu"),
                              "[1, 6, 1, 1] is added to [2, 6, 5, 4]"),
    "halves of an odd dim": (fused("BiasSplitGelu", X[..., :5], BIAS[:5]), "halves of [2, 5, 5]"),
    "no groups": (fused("GroupNorm", X, SCALE, BIAS), "in 0 groups with activation 0"),
    "an activation of a norm that is none": (fused("GroupNorm", X, SCALE, BIAS, groups=2, activation=2), "with activation 2"),
    "quantized": (Node("MatMulNBits", X, np.zeros((8, 1, 16), np.uint8), f32(np.ones(8)), K=8, N=8, bits=4, block_size=32),
                  "com.microsoft.MatMulNBits (opset 1) is not supported: its weights are integers of few bits"),
    "a cache in one tensor": (Node("Attention", X, WEIGHT, BIASES, None, floats(2, 2, HEADS, 3, 4), num_heads=HEADS),
                              "Attention with a cache or with rotary positions inside"),
    "heads that do not divide": (Node("Attention", X, WEIGHT, BIASES, num_heads=3), "3 heads in a dim of 24"),
    "a mask of another size": (Node("Attention", X, WEIGHT, BIASES, i32(1, 2, 3), num_heads=HEADS), "give it as [batch, keys]"),
    "a bias of another size": (Node("Attention", X, WEIGHT, BIASES[:20], num_heads=HEADS), "its bias of [20] does not fit 24"),
    "keys without values": (Node("MultiHeadAttention", QUERY, KEY, num_heads=HEADS), "neither apart nor packed behind their heads"),
    "a cache of groups": (Node("GroupQueryAttention", *GROUPED[:3], floats(2, 2, 3, 2), floats(2, 2, 3, 2), *GROUPED[5:], num_heads=4,
                               kv_num_heads=2), "GroupQueryAttention with a cache"),
    "groups of another size": (Node("GroupQueryAttention", GROUPED[0], GROUPED[1], VALUE, *GROUPED[3:], num_heads=4, kv_num_heads=2),
                               "its keys or values do not fit"),
    "a mean": (Node("SkipLayerNormalization", X, X, SCALE, outputs=("y", "mean")), "mean and deviation as results"),
    "a scale of another size": (Node("SkipLayerNormalization", X, X, SCALE[:3]), "its scale or bias does not fit [8]"),
    "a skip of another size": (Node("SkipSimplifiedLayerNormalization", X, X[:, :2], SCALE), "its operand 1 of [2, 2, 8] does not fit [2, 5, 8]"),
    "too many places": (Node("EmbedLayerNormalization", IDS, None, TABLES[0], TABLES[1][:3], None, SCALE, BIAS, known=(2, 3)),
                        "a sequence of 5 for 3 places"),
    "segments without a table": (Node("EmbedLayerNormalization", IDS, SEGMENTS, TABLES[0], TABLES[1], None, SCALE, BIAS, known=(2, 3)),
                                 "segments without a table"),
    "positions of another size": (Node("RotaryEmbedding", X, POSITIONS[:, :3], COS, SIN), "positions of [2, 3] for 2 sequences of 5"),
    "scaled positions": (Node("RotaryEmbedding", X, POSITIONS, COS, SIN, scale=2.0), "packed batches or with a scale"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_of_fused_nodes_is_said(tmp_path, name):
    node, message = REFUSED[name]
    node.save(tmp_path / "model.onnx")
    assert message in imported(tmp_path / "model.onnx", code=1)


def bert():
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=16, num_labels=5)), {"input_ids": (64, 16)}, ("SkipLayerNormalization", "BiasGelu")


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=16, use_cache=False)), {
        "input_ids": (64, 16)}, ("SkipLayerNormalization", "FastGelu")


def trainsAsBefore(build, optimize, folder, fused=()):
    """`optimize` writes its second path, and returns that model, which has `fused` ops, or those that `build` says."""
    torch.manual_seed(0)
    model, inputs, said = build()
    spread(model)  # equal parameters are merged, and onnxruntime drops the records that tell them apart
    batch = {name: torch.randint(limit, (4, length)) for name, (limit, length) in inputs.items()}
    torch.onnx.export(model.eval(), (), folder / "before.onnx", kwargs=batch, input_names=list(batch), output_names=["logits"],
                      dynamo=True, optimize=True, external_data=False, verbose=False)
    after = optimize(folder / "before.onnx", folder / "after.onnx")
    assert {node.op_type for node in after.graph.node if node.domain == "com.microsoft"} >= set(fused or said)
    logits = model(**batch).logits
    batch["labels"] = torch.randint(logits.shape[-1], logits.shape[:-1])
    tools.saveData(folder / "data.npz", batch)

    def trained(name):
        tools.tool("compile", folder / f"{name}.onnx", "-o", folder / name, "--loss", "cross_entropy(logits,labels)",
                   "--optimizer", "sgd(lr=1)", "--mesh", "data=2", "--threads", 1)
        return tools.train(folder / name, folder / "data.npz", 1, folder / f"{name}.run")

    ours, theirs = trained("after"), trained("before")
    assert ours.losses == pytest.approx(theirs.losses, rel=1e-6)
    common = ours.tensors.keys() & theirs.tensors.keys()
    # Those that keep their names: tables, norms, matrices and biases of the first layer.
    assert len(common) >= len(theirs.tensors) // 2
    state = model.state_dict()
    for name in common:
        moved = theirs.tensors[name] - state[name]
        assert (ours.tensors[name] - theirs.tensors[name]).norm() <= 1e-4 * moved.norm() + 1e-7 * state[name].norm(), name


@pytest.mark.parametrize("build", [bert, gpt2], ids=lambda build: build.__name__)
def test_an_optimized_model_trains_as_before(build, tmp_path):
    from onnxruntime.transformers import optimizer

    def optimize(before, path):
        after = optimizer.optimize_model(str(before), model_type="bert", num_heads=4, hidden_size=32, opt_level=0)
        after.save_model_to_file(str(path))
        return after.model

    trainsAsBefore(build, optimize, tmp_path)


@pytest.mark.parametrize("build", [bert, gpt2], ids=lambda build: build.__name__)
def test_what_a_session_saves_trains_as_before(build, tmp_path):
    """optimized_model_filepath: products joined with transposes, factors and activations."""
    def optimize(before, path):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(before, options)
        return onnx.load(path)

    trainsAsBefore(build, optimize, tmp_path, ["FusedMatMul"])
