"""Hand-made nodes against onnxruntime: what ONNX's own node tests leave out, above all in older opsets."""

import subprocess

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper, numpy_helper

import tools
from test_import import check, compare

LEAST, MOST = -2**63, 2**63 - 1
PYTORCH = "pkg.torch.onnx.fx_node"


def floats(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def f32(values):
    return np.array(values, np.float32)


def i32(*values):
    return np.array(values, np.int32)


def i64(*values):
    return np.array(values, np.int64)


def u8(*values):
    return np.array(values, np.uint8)


class Node:
    """`operands` are inputs of the model; those whose number is in `known` are constants."""

    def __init__(self, op, opset, *operands, known=(), outputs=1, **attributes):
        self.op, self.opset, self.operands, self.known = op, opset, operands, known
        self.outputs, self.attributes = outputs, attributes

    def save(self, path, record=None):
        """Returns the values of the inputs."""
        names, inputs, constants, values = [], [], [], {}
        for i, operand in enumerate(self.operands):
            name = f"i{i}" if operand is not None else ""
            names.append(name)
            if operand is None:
                continue
            operand = np.asarray(operand)
            if i in self.known:
                constants.append(numpy_helper.from_array(operand, name))
            else:
                values[name] = operand
                inputs.append(helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape))
        outputs = [f"o{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, name="node", **self.attributes)
        if record:
            node.metadata_props.add(key=PYTORCH, value=record)
        graph = helper.make_graph([node], "graph", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs],
                                  constants)
        model = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", self.opset)]))
        for output in model.graph.output:
            if not output.type.WhichOneof("value"):  # GroupNormalization is a function, which has no inference
                output.CopyFrom(helper.make_tensor_value_info(output.name, onnx.TensorProto.FLOAT, None))
        onnx.save(model, path)
        return values


def sliced(start, end, step, size=5):
    return Node("Slice", 13, floats(size, 2), i64(start), i64(end), i64(0), i64(step), known=(1, 2, 3, 4))


def resized(mode, scale, opset=19, **attributes):
    return Node("Resize", opset, floats(1, 1, 7, 9), f32([]), f32([1, 1, scale, scale]), known=(1, 2), mode=mode,
                **attributes)


def cropped(mode, *part, sizes=(1, 1, 5, 4), axes=None, **attributes):
    return Node("Resize", 19, floats(1, 1, 7, 9), f32(part), None, i64(*sizes), known=(1, 3), mode=mode,
                coordinate_transformation_mode="tf_crop_and_resize", **({"axes": axes} if axes else {}), **attributes)


def padded(mode, *pads):
    return Node("Pad", 19, floats(3, 4), i64(*pads), known=(1,), mode=mode)


def pooled(opset=11, **attributes):
    return Node("AveragePool", opset, floats(1, 2, 7), **attributes)


A, B = floats(3, 4), floats(4, 5)
SCORES = floats(3, 5)
NODES = {
    "slice backwards to the front": sliced(MOST, LEAST, -1),
    "slice backwards to int32's least": sliced(-1, -2**31, -1),
    "slice backwards to one before the front": sliced(4, -6, -1),
    "slice backwards that stops before the front": sliced(4, 0, -1),
    "slice backwards that skips the front": sliced(4, LEAST, -3),
    "slice backwards with the least step": sliced(3, LEAST, LEAST),
    "slice backwards of nothing": sliced(1, 3, -1),
    "slice backwards from before the front": sliced(-9, LEAST, -1),
    "slice from before the front": sliced(-9, 2, 1),
    "slice with the greatest step": sliced(1, MOST, MOST),
    "slice in its first version": Node("Slice", 1, floats(4, 3), starts=[1, -2], ends=[1000, -1]),
    "softmax before 13, axis left out": Node("Softmax", 11, floats(2, 3, 4)),
    "softmax before 13, axis 1": Node("Softmax", 1, floats(2, 3, 4), axis=1),
    "softmax before 13, axis 0": Node("Softmax", 11, floats(2, 3), axis=0),
    "softmax before 13, axis -1": Node("Softmax", 11, floats(2, 3, 4), axis=-1),
    "softmax, axis left out": Node("Softmax", 13, floats(2, 3, 4)),
    "log softmax before 13, axis left out": Node("LogSoftmax", 11, floats(2, 3, 4)),
    "log softmax, axis left out": Node("LogSoftmax", 13, floats(2, 3, 4)),
    "group norm with a scale per group": Node("GroupNormalization", 18, floats(2, 6, 3), floats(2), floats(2) + 1,
                                              num_groups=2, epsilon=0.1),
    "group norm with a scale per channel": Node("GroupNormalization", 21, floats(2, 6, 3), floats(6), floats(6) + 1,
                                                num_groups=2, epsilon=0.1),
    "layer norm of two dims": Node("LayerNormalization", 17, floats(2, 3, 4), floats(3, 4), floats(3, 4) + 1, outputs=3,
                                   axis=-2, epsilon=0.1),
    "layer norm with a scale that repeats": Node("LayerNormalization", 17, floats(2, 3, 4), floats(1), floats(4)),
    "gemm without a bias": Node("Gemm", 11, A, B, alpha=0.5),
    "gemm with a bias per row": Node("Gemm", 13, A, B, floats(3, 1), alpha=0.5, beta=0.25),
    "gemm with a scalar bias": Node("Gemm", 7, A, B, f32(2), alpha=0.5, beta=0.25),
    "gemm of transposed matrices": Node("Gemm", 13, A.T.copy(), B.T.copy(), floats(5), transA=1, transB=1),
    "gemm of one transposed matrix": Node("Gemm", 13, A, B.T.copy(), transB=1),
    "gemm with a bias that does not count": Node("Gemm", 13, A, B, floats(5), beta=0.0),
    "round to even": Node("Round", 11, f32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.49, -2.51, 1e7, -3])),
    "tangent": Node("Tan", 7, floats(9)),
    "hyperbolic sine": Node("Sinh", 9, f32([-89, -3, -1e-6, 0, 1e-6, 2, 89])),
    "hyperbolic cosine": Node("Cosh", 9, f32([-89, -3, -1e-6, 0, 1e-6, 2, 89])),
    "product of a dim": Node("ReduceProd", 13, floats(2, 7, 3), axes=[1], keepdims=0),
    "product of all": Node("ReduceProd", 18, floats(3, 5)),
    "product of nothing": Node("ReduceProd", 18, floats(3, 0), i64(1), known=(1,)),
    "product of integers": Node("ReduceProd", 13, i64(2, 3, 4), known=(0,)),
    "clip before 11": Node("Clip", 6, floats(9), min=-0.3, max=0.2),
    "clip before 11, from below": Node("Clip", 6, floats(9), min=-0.3),
    "clip from above": Node("Clip", 11, floats(9), None, f32(0.1)),
    "clip between crossed bounds": Node("Clip", 13, floats(9), f32(0.5), f32(-0.5)),
    "clip of NaN and infinity": Node("Clip", 13, f32([np.nan, np.inf, -np.inf]), f32(-0.5), f32(0.5)),
    "sum without axes": Node("ReduceSum", 13, floats(2, 3)),
    "sum over no axes": Node("ReduceSum", 13, floats(2, 3), i64(), known=(1,)),
    "sum over no axes, which is the operand": Node("ReduceSum", 13, floats(2, 3), i64(), known=(1,), noop_with_empty_axes=1),
    "sum over axes, noop_with_empty_axes": Node("ReduceSum", 13, floats(2, 3), i64(-1), known=(1,), noop_with_empty_axes=1),
    "mean over an axis from behind": Node("ReduceMean", 11, floats(2, 3, 4), axes=[-1, 0], keepdims=0),
    "mean over an operand's axes": Node("ReduceMean", 18, floats(2, 3, 4), i64(2, 0), known=(1,), keepdims=0),
    "square sum over no axes": Node("ReduceSumSquare", 18, floats(2, 3), i64(), known=(1,), noop_with_empty_axes=1),
    "norm of zeros": Node("ReduceL2", 18, f32([[0, 0], [3, 4]]), i64(1), known=(1,)),
    "logsumexp of infinities": Node("ReduceLogSumExp", 18, f32([[-np.inf, -np.inf], [1, -np.inf], [np.inf, 1], [100, 100]]),
                                    i64(1), known=(1,)),
    "shape between negative ends": Node("Shape", 15, floats(2, 3, 4), start=-2, end=-1),
    "shape beyond both ends": Node("Shape", 15, floats(2, 3, 4), start=-9, end=9),
    "shape from behind its end": Node("Shape", 15, floats(2, 3, 4), start=1, end=-2),
    "flatten at 0": Node("Flatten", 13, floats(2, 3, 4), axis=0),
    "flatten at the rank": Node("Flatten", 13, floats(2, 3, 4), axis=3),
    "flatten from behind": Node("Flatten", 11, floats(2, 3, 4), axis=-1),
    "squeeze without axes": Node("Squeeze", 13, floats(1, 3, 1)),
    "unsqueeze at unsorted axes": Node("Unsqueeze", 13, floats(3, 4), i64(3, -4), known=(1,)),
    "expand by ones": Node("Expand", 8, floats(3, 1), i64(2, 1, 4), known=(1,)),
    "expand to a smaller rank": Node("Expand", 8, floats(3, 1, 4), i64(2, 1), known=(1,)),
    "split into pieces and a rest": Node("Split", 18, floats(7, 2), outputs=3, num_outputs=3),
    "split by an attribute from behind": Node("Split", 11, floats(2, 6), outputs=2, axis=-1, split=[4, 2]),
    "pad with a negative begin": padded("constant", -1, 0, 1, 2),
    "reflect with a negative end": padded("reflect", 0, -2, 1, 1),
    "reflect twice": padded("reflect", 2, 0, 2, 0),
    "edge with negative pads": padded("edge", -1, 2, 2, -1),
    "wrap with negative pads": padded("wrap", 0, -1, 2, 2),
    "pad some axes": Node("Pad", 18, floats(2, 3, 4), i64(1, 2, 0, 1), f32(7), i64(-1, 0), known=(1, 2, 3)),
    "gather from behind": Node("Gather", 13, floats(4, 3), i64(-1, 0, -4)),
    "gather a known run from behind": Node("Gather", 13, floats(4, 3), i64(-3, -2), known=(1,)),
    "gather elements from behind": Node("GatherElements", 13, floats(4, 3), np.array([[-1, 0, 1], [2, -4, 3]])),
    "one hot outside of the depth": Node("OneHot", 11, i64(0, -1, 5, -7, 2), i64(3), f32([-1, 2]), known=(1,)),
    "one hot of floats": Node("OneHot", 11, f32([0, -1, 2.5, 1]), np.float32(3), f32([-1, 2]), known=(1,)),
    "one hot of known floats": Node("OneHot", 11, f32([0, -1, 2.5, 1]), np.float32(3), f32([-1, 2]), known=(0, 1)),
    "one hot in front": Node("OneHot", 11, np.array([[0, 1], [2, -1]]), i64(3), f32([0, 1]), known=(1,), axis=0),
    "running sum, exclusive and reversed": Node("CumSum", 14, floats(2, 4), np.int64(-1), known=(1,), exclusive=1, reverse=1),
    "last of equal maxima": Node("ArgMax", 13, f32([[1, 3, 3], [2, 2, 0]]), axis=-1, select_last_index=1),
    "first of equal maxima": Node("ArgMax", 12, f32([[1, 3, 3], [2, 2, 0]]), axis=-1),
    "remainders of both signs": Node("Mod", 13, i32(-7, -6, 5, 7, 0), i32(3, -4, -3, 7, -2)),
    "remainders as C has them": Node("Mod", 13, i32(-7, -6, 5, 7), i32(3, -4, -3, 7), fmod=1),
    "remainders of large numbers": Node("Mod", 13, i64(-3_000_000_000), i64(4_000_000_001)),
    "quotients of integers": Node("Div", 14, i32(-7, 7, -6), i32(2, -2, 4)),
    "cast of negative fractions": Node("Cast", 13, f32([-1.7, 1.7, -0.3]), to=onnx.TensorProto.INT64),
    "cast of NaN to a boolean": Node("Cast", 13, f32([np.nan, -0.0, 0.3]), to=onnx.TensorProto.BOOL),
    "cast of large integers": Node("Cast", 13, i64(2**33 + 5, -1), to=onnx.TensorProto.INT32),
    "cast of integers to fewer bits": Node("Cast", 13, i64(300, -1, 127, 128), to=onnx.TensorProto.UINT8),
    "cast of integers to fewer bits with a sign": Node("Cast", 13, i64(300, -1, 127, 128, -129), to=onnx.TensorProto.INT8),
    "sum of bytes": Node("Add", 14, u8(200, 3, 255), u8(100, 4, 1)),
    "sum of bytes, known": Node("Add", 14, u8(200, 3, 255), u8(100, 4, 1), known=(0, 1)),
    "difference of bytes": Node("Sub", 14, u8(1, 3), u8(2, 1)),
    "product of signed bytes": Node("Mul", 14, np.array([100, -100, -1], np.int8), np.array([2, 3, -128], np.int8)),
    "sum of short integers": Node("Add", 14, np.array([32767, -32768], np.int16), np.array([1, -1], np.int16)),
    "sum of uint32": Node("Add", 14, np.array([2**32 - 1, 5], np.uint32), np.array([2, 3], np.uint32)),
    "bits of both": Node("BitwiseAnd", 18, i64(-6, 7, LEAST), i64(3, -2, -1)),
    "bits of either": Node("BitwiseOr", 18, i64(-6, 7, LEAST), i64(3, -2, 5)),
    "bits of one": Node("BitwiseXor", 18, i64(-6, 7, LEAST, MOST), i64(3, -2, -1, MOST)),
    "bits of either of bytes": Node("BitwiseOr", 18, u8(200, 3), u8(55, 4)),
    "bits of bytes turned": Node("BitwiseNot", 18, u8(0, 200, 255)),
    "bits turned": Node("BitwiseNot", 18, i64(0, -1, LEAST, MOST)),
    "bytes shifted left": Node("BitShift", 11, u8(200, 1, 3, 255), u8(1, 7, 0, 2), direction="LEFT"),
    "bytes shifted right": Node("BitShift", 11, u8(200, 1, 3, 255), u8(1, 7, 0, 2), direction="RIGHT"),
    "inverse functions": Node("Atan", 7, f32([-3, 0, 0.5, 1e30, -np.inf, np.nan])),
    "inverse functions at their ends": Node("Asin", 7, f32([-1, 1, 0, 1.5, np.nan])),
    "inverse cosine at its ends": Node("Acos", 7, f32([-1, 1, 0, -1.5, np.nan])),
    "inverse hyperbolic tangent at its ends": Node("Atanh", 9, f32([-1, 1, 0, 1.5, 1e-6])),
    "inverse hyperbolic cosine at its end": Node("Acosh", 9, f32([1, 0.5, 2, 1e30])),
    "inverse hyperbolic sine of small and large": Node("Asinh", 9, f32([1e-6, -1e-6, 1e30, -1e30, 0])),
    **{f"grid of {mode}, {padding}{', corners' if corners else ''}": Node(
        "GridSample", 16, floats(2, 3, 4, 5), 1.5 * floats(2, 3, 2, 2), mode=mode, padding_mode=padding, align_corners=corners)
       for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection") for corners in (0, 1)},
    "grid of a volume": Node("GridSample", 20, floats(1, 2, 3, 4, 5), floats(1, 2, 3, 2, 3), mode="linear"),
    **{f"{kind} by {'known ' if known else ''}index": Node(
        "ScatterElements", 18, floats(3, 4), np.array([[0, 1, 1], [2, 2, -1]]), floats(2, 3), reduction=kind, axis=1,
        known=(1,) if known else ()) for kind in ("max", "min") for known in (0, 1)},
    **{f"{kind} of slices by {'known ' if known else ''}index": Node(
        "ScatterND", 18, floats(4, 3), i64(1, 1, 3)[:, None], floats(3, 3), reduction=kind, known=(1,) if known else ())
       for kind in ("max", "min") for known in (0, 1)},
    "largest integers by index": Node("ScatterElements", 18, i64(1, -5, 9), i64(0, 0, 1), i64(-7, 3, -9), reduction="max"),
    "positive infinity alone": Node("IsInf", 10, f32([np.inf, -np.inf, 1]), detect_negative=0),
    "dropout without training_mode": Node("Dropout", 12, floats(3), f32(0.9), known=(1,)),
    "dropout, training_mode off": Node("Dropout", 13, floats(3), f32(0.9), np.bool_(False), known=(1, 2)),
    "batch norm of opset 7": Node("BatchNormalization", 7, floats(2, 3, 4), floats(3), floats(3), floats(3), f32([1, 2, 3]),
                                  known=(1, 2, 3, 4)),
    "largest of two, opset 7": Node("Max", 7, floats(2, 3), floats(2, 3)),
    "least of two, opset 6": Node("Min", 6, floats(2, 3), floats(2, 3)),
    "sum, opset 6": Node("Sum", 6, floats(2, 3), floats(2, 3), floats(2, 3)),
    "mean, opset 7": Node("Mean", 7, floats(2, 3), floats(2, 3)),
    "largest of windows, opset 7": Node("MaxPool", 7, floats(1, 2, 7), kernel_shape=[3], strides=[2], pads=[1, 1]),
    "softmax over the rest of the dims": Node("Softmax", 7, floats(2, 3, 4), axis=1),
    "logarithm of softmax over the rest of the dims": Node("LogSoftmax", 11, floats(2, 3, 4)),
    "padding of opset 7": Node("Pad", 7, floats(2, 3), pads=[0, 1, 2, 0], value=1.5),
    "slice of opset 7": Node("Slice", 7, floats(4, 5), axes=[1], starts=[1], ends=[-1]),
    "squeeze of opset 7": Node("Squeeze", 7, floats(1, 3, 1), axes=[2]),
    "unsqueeze of opset 7": Node("Unsqueeze", 7, floats(3), axes=[0, 2]),
    "sum of a dim, opset 7": Node("ReduceSum", 7, floats(2, 3, 4), axes=[1], keepdims=0),
    "bounds of opset 7": Node("Clip", 7, floats(3, 4), min=-0.5, max=0.25),
    "parts of opset 7": Node("Split", 7, floats(5, 2), split=[2, 3], outputs=2),
    "dropout of opset 7": Node("Dropout", 7, floats(3), ratio=0.4),
    "product and sum, opset 7": Node("Gemm", 7, floats(2, 3), floats(4, 3), floats(4), transB=1, alpha=0.5),
    "upsample of opset 7": Node("Upsample", 7, floats(1, 1, 3, 4), mode="nearest", scales=[1.0, 1.0, 2.0, 3.0]),
    **{f"Fourier transform {name}": Node("DFT", opset, floats(*shape), *more, known=(1, 2), **attributes)
       for name, opset, shape, more, attributes in [
           ("of real numbers", 17, (2, 7, 1), (), {}), ("of complex numbers", 17, (2, 6, 2), (), {}),
           ("of another axis", 17, (2, 5, 6, 2), (), {"axis": 2}), ("back", 17, (2, 6, 2), (), {"inverse": 1}),
           ("of one side", 17, (2, 7, 1), (), {"onesided": 1}), ("of fewer", 17, (2, 7, 1), (np.int64(5),), {}),
           ("of more", 17, (2, 5, 2), (np.int64(8),), {}), ("of opset 20", 20, (2, 4, 5, 1), (np.int64(5), np.int64(-2)), {})]},
    "batch norm": Node("BatchNormalization", 9, floats(2, 3, 4), floats(3), floats(3), floats(3), f32([1, 2, 3]),
                       known=(1, 2, 3, 4), epsilon=0.1),
    "average with its padding": pooled(kernel_shape=[3], strides=[2], pads=[1, 1], count_include_pad=1),
    "average without its padding": pooled(kernel_shape=[3], strides=[2], pads=[1, 1]),
    "average with padding, last window cut": pooled(19, kernel_shape=[3], strides=[3], pads=[1, 0], count_include_pad=1, ceil_mode=1),
    "average of windows before 10": pooled(7, kernel_shape=[2], auto_pad="SAME_LOWER"),
    "average of dilated windows": pooled(19, kernel_shape=[3], strides=[2], pads=[1, 1], dilations=[2], ceil_mode=1),
    "no window begins in the padding": Node("MaxPool", 12, floats(1, 1, 4), kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1),
    "transposed convolution to a shape": Node("ConvTranspose", 11, floats(1, 2, 7), floats(2, 3, 3), strides=[2], output_shape=[14]),
    "transposed convolution, same upper": Node("ConvTranspose", 11, floats(1, 2, 7), floats(2, 3, 3), strides=[2],
                                               auto_pad="SAME_UPPER"),
    "resize, corners kept": resized("linear", 1.7, coordinate_transformation_mode="align_corners"),
    "resize to fewer, corners kept": resized("nearest", 0.3, coordinate_transformation_mode="align_corners"),
    "resize where a quotient is whole": resized("nearest", 0.6, coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize where a position is whole": resized("nearest", 0.6, nearest_mode="floor"),
    "resize to one element": resized("cubic", 0.25, coordinate_transformation_mode="pytorch_half_pixel"),
    "resize symmetrically": resized("linear", 1.7, coordinate_transformation_mode="half_pixel_symmetric"),
    "resize before 11": Node("Resize", 10, floats(1, 1, 3, 4), f32([1, 1, 1.5, 2]), known=(1,), mode="nearest"),
    "resize of a part": cropped("linear", 0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7),
    "resize of a part of some dims": cropped("linear", 0.1, 0.3, 0.7, 0.8, sizes=(4, 5), axes=[3, 2]),
    "resize of a part, nearest": cropped("nearest", 0, 0, 0.25, 0.1, 1, 1, 1, 0.6, sizes=(1, 1, 4, 11)),
    "resize of a part that reaches over": cropped("linear", 0, 0, -0.3, 0.2, 1, 1, 0.6, 1.4, extrapolation_value=7.5),
    "resize of a part that reaches over, nearest": cropped("nearest", 0, 0, -0.3, 0.2, 1, 1, 0.6, 1.4, extrapolation_value=7.5),
    "resize of a part to one element": cropped("linear", 0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7, sizes=(1, 1, 1, 4)),
    "shrink": Node("Shrink", 9, floats(9), lambd=0.4, bias=0.2),
    "division by a norm": Node("LpNormalization", 1, floats(3, 4), axis=0),
    "division by a sum of absolute values": Node("LpNormalization", 1, floats(3, 4), p=1),
    "mean and variance": Node("MeanVarianceNormalization", 13, floats(2, 3, 4, 5)),
    "mean and variance of some dims": Node("MeanVarianceNormalization", 13, floats(2, 3, 4), axes=[-1, 0]),
    "response of three channels": Node("LRN", 13, floats(2, 5, 3, 4), size=3, alpha=0.7, beta=0.6, bias=1.5),
    "response of five channels": Node("LRN", 13, floats(2, 7, 3, 4), size=5, alpha=0.7),
    "compressed columns": Node("Compress", 11, floats(3, 4), np.array([True, False, True]), known=(1,), axis=-1),
    "compressed elements": Node("Compress", 11, floats(3, 4), np.array([False, True, True, False, True]), known=(1,)),
    "sequences back to front": Node("ReverseSequence", 10, floats(5, 3, 2), i64(5, 2, 1)),
    "sequences back to front, samples first": Node("ReverseSequence", 10, floats(3, 5), i64(4, 1, 3), batch_axis=0, time_axis=1),
    "logarithm of a sum": Node("ReduceLogSum", 13, np.exp(floats(3, 4)), axes=[1]),
    "einsum of a repeated index": Node("Einsum", 12, floats(3, 3), equation="ii->i"),
    "einsum whose result is not named": Node("Einsum", 12, floats(2, 3), floats(4, 3), equation="ba,ca"),
    "causal attention of fewer queries": Node("Attention", 23, floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 6), is_causal=1),
    "attention with shared heads": Node("Attention", 23, floats(1, 4, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 6)),
    "largest, ties and infinities": Node("TopK", 11, f32([[1, 3, 3, -2, 3], [np.inf, -np.inf, 0, np.inf, 0]]), i64(4), known=(1,), outputs=2),
    "largest of a dim in the middle": Node("TopK", 11, floats(2, 7, 3), i64(3), known=(1,), outputs=2, axis=1),
    "smallest": Node("TopK", 11, floats(3, 9), i64(9), known=(1,), outputs=2, axis=1, largest=0),
    "largest of many": Node("TopK", 11, floats(2, 1500), i64(5), known=(1,), outputs=2),
    "all of many in order": Node("TopK", 11, floats(2, 1500), i64(1500), known=(1,), outputs=2),
    "largest integers": Node("TopK", 11, i64(3, MOST, MOST - 1, LEAST, LEAST + 1), i64(5), known=(1,), outputs=2),
    "largest, k as an attribute": Node("TopK", 1, floats(2, 5), outputs=2, k=2, axis=1),
    "largest of a known dim": Node("TopK", 11, floats(4, 3, 2), i64(2), known=(0, 1), outputs=2, axis=1),
    "elements in rows": Node("GatherElements", 13, floats(3, 4, 2), np.random.default_rng(0).integers(-4, 4, (2, 5, 2)), axis=1),
    "scattered factors": Node("ScatterElements", 18, floats(3, 4), np.array([[0, 1, 0], [3, -1, 3], [2, 2, 2]]), floats(3, 3), axis=1,
                              reduction="mul"),
    "scattered factors by known indices": Node("ScatterND", 18, floats(3, 4), np.array([[0], [2], [0]]), floats(3, 4), known=(1,),
                                               reduction="mul"),
    "scattered factors of slices": Node("ScatterND", 18, floats(3, 4), np.array([[0], [2], [0]]), floats(3, 4), reduction="mul"),
    "scattered maxima in columns": Node("ScatterElements", 18, floats(3, 4), np.array([[0, 1, 0, 2], [2, 1, 0, 2]]), floats(2, 4), axis=0,
                                        reduction="max"),
    "scattered elements, fewer rows": Node("ScatterElements", 18, floats(3, 4), np.array([[0, 2], [3, 1]]), floats(2, 2), axis=1),
    "loss of weighted classes, some ignored": Node("SoftmaxCrossEntropyLoss", 13, SCORES, i64(1, -1, 4), f32([1, 2, 3, 4, 5]),
                                                   ignore_index=-1),
    "loss of which some labels are ignored": Node("NegativeLogLikelihoodLoss", 13, SCORES, i64(1, -1, 4), ignore_index=-1),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_means_what_onnxruntime_computes(tmp_path, name):
    values = NODES[name].save(tmp_path / "model.onnx")
    check(tmp_path, tmp_path / "model.onnx", values)


def attention(opset, *more, queries=3, keys=6, **attributes):
    return Node("Attention", opset, floats(2, 4, queries, 8), floats(2, 2, keys, 8), floats(2, 2, keys, 8), *more, **attributes)


CACHE = floats(2, 3, 5, 4)
NEWER = {  # than onnxruntime's kernels
    "Swish": Node("Swish", 24, floats(3, 4), alpha=1.7),
    "Swish of its own": Node("Swish", 24, floats(3, 4)),
    "TensorScatter": Node("TensorScatter", 24, CACHE, floats(2, 3, 2, 4), i64(3, 1)),
    "TensorScatter at the front": Node("TensorScatter", 24, CACHE, floats(2, 3, 2, 4)),
    "TensorScatter along dim 1 in a circle": Node("TensorScatter", 24, CACHE, floats(2, 2, 5, 4), i64(2, 4), axis=1, mode="circular"),
    "Attention with lengths": attention(24, None, None, None, i64(6, 4)),
    "Attention with lengths and a mask": attention(24, floats(3, 6), None, None, i64(5, 2)),
    "causal Attention with lengths": attention(24, floats(3, 6) > 0, None, None, i64(6, 4), is_causal=1),
    "Attention with more queries than keys": attention(24, None, None, None, i64(2, 5), is_causal=1),
    "Attention with a mask of fewer keys": attention(24, floats(3, 4), None, None, i64(4, 3)),
    "Attention behind a cache": attention(24, None, floats(2, 2, 3, 8), floats(2, 2, 3, 8), is_causal=1, keys=3),
    "Attention in a window": attention(25, left_window_size=1, right_window_size=2),
    "causal Attention in a window behind a cache": attention(25, None, floats(2, 2, 3, 8), floats(2, 2, 3, 8), is_causal=1,
                                                             keys=3, left_window_size=2),
    "Attention in a window of lengths": attention(25, None, None, None, i64(6, 4), left_window_size=1, right_window_size=0),
}


@pytest.mark.parametrize("name", NEWER)
def test_a_node_of_a_newer_opset_means_what_onnx_says(tmp_path, name):
    path = tmp_path / "model.onnx"
    values = NEWER[name].save(path)
    expected = onnx.reference.ReferenceEvaluator(str(path)).run(None, values)[0]
    compare(tmp_path, path, list(values.items()), [("o0", expected)])


@pytest.mark.parametrize("part", [(0, 0, 0.2, 0, 1, 1, 0.8, 1), (0, 0, 1, 0, 1, 1, 0, 1)])
def test_a_part_that_keeps_its_size_is_sampled(tmp_path, part):
    """onnxruntime takes it for the whole."""
    values = cropped("linear", *part, sizes=(1, 1, 7, 9)).save(tmp_path / "model.onnx")
    expected = onnx.reference.ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, values)[0]
    check(tmp_path, tmp_path / "model.onnx", values, expected)


REFUSED = {
    "BatchNormalization": (Node("BatchNormalization", 7, floats(2, 3, 4), floats(3, 4), floats(3, 4), floats(3, 4), floats(3, 4),
                                known=(1, 2, 3, 4), spatial=0), "statistics of each element of a sample (spatial=0)"),
    "DFT of one side of complex numbers": (Node("DFT", 17, floats(2, 6, 2), onesided=1), "one side of complex numbers"),
    "DFT along its last dim": (Node("DFT", 17, floats(2, 6, 2), axis=2), "along the dim of real and imaginary parts"),
    "Resize": (Node("Resize", 10, floats(1, 1, 7, 9), f32([1, 1, 0.6, 0.6]), known=(1,), mode="nearest"),
               "before opset 11 it is not said which elements stay of 7 that become 4"),
    "Resize of a part of other dims": (cropped("linear", 0, 0.2, 1, 0.9), "its part (`roi`) has 4 numbers for the starts and ends of 4 dims"),
    "Resize of a part that is no number": (cropped("linear", 0, 0, np.nan, 0.1, 1, 1, 0.9, 0.7), "its part (`roi`) of dim 2 is from nan to 0.9"),
    "Resize of a part without it": (Node("Resize", 19, floats(1, 1, 7, 9), None, None, i64(1, 1, 3, 3), known=(3,), mode="linear",
                                         coordinate_transformation_mode="tf_crop_and_resize"), "its part (`roi`) is missing"),
    "TopK": (Node("TopK", 11, floats(5), i64(2), outputs=2), "its k depends on the values of inputs"),
    "TopK of more than there are": (Node("TopK", 11, floats(5), i64(6), known=(1,), outputs=2), "6 elements of a dim of 5"),
    "TopK of none": (Node("TopK", 11, floats(5), i64(0), known=(1,), outputs=2), "no elements of a dim of 5"),
    "Pow": (Node("Pow", 15, i64(2, 3), i64(-1, 2), known=(1,)), "integers to a negative power are not integers"),
    "Compress": (Node("Compress", 11, floats(3), np.array([True, False, True])), "the shape of its result depends on values"),
    "Compress of more than there are": (Node("Compress", 11, floats(1), np.array([True, False]), known=(1,)),
                                        "a condition of 2 elements for a dim of 1"),
    "LpNormalization": (Node("LpNormalization", 1, floats(3, 4), p=3), "p is 3, which is neither 1 nor 2"),
    "LRN": (Node("LRN", 13, floats(3), size=3), "LRN of [3] over 3 channels"),
    "LRN of nothing": (Node("LRN", 13, floats(1, 3, 2), size=0), "LRN of [1, 3, 2] over 0 channels"),
    "ReverseSequence": (Node("ReverseSequence", 10, floats(5, 3, 2), i64(5, 2)), "lengths of [2] for 3 samples"),
    "ReverseSequence along one dim": (Node("ReverseSequence", 10, floats(5, 3, 2), i64(5, 2, 1), time_axis=1), "with time along dim 1 and samples along 1"),
    "Shrink": (Node("Shrink", 9, i64(5, 2, 1)), "it is of integers"),
    "Unique": (Node("Unique", 11, i64(3, 1, 3)), "the shape of its result depends on values"),
    "ScatterElements": (Node("ScatterElements", 18, floats(4), i64(0, 2), floats(2), reduction="mean"),
                        "ONNX has none, add, mul, max and min"),
    "Slice": (sliced(0, 5, 0), "its step is 0"),
}


def imported(path, code=0):
    done = subprocess.run([tools.bin() / "import-onnx", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("op", REFUSED)
def test_what_cannot_be_told_is_refused(tmp_path, op):
    node, message = REFUSED[op]
    node.save(tmp_path / "model.onnx")
    assert message in imported(tmp_path / "model.onnx", code=1)


def embedded(tmp_path, arguments, ids=i64(1, 1, 2), known=()):
    """An embedding as PyTorch's exporter writes it."""
    path = tmp_path / "model.onnx"
    Node("Gather", 18, floats(6, 3), ids, known=known).save(
        path, f"%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = ({arguments}), kwargs = {{}})")
    return imported(path)


@pytest.mark.parametrize("arguments, padding", [
    ("%w, %ids", None), ("%w, %ids, -1, False, True", None), ("%w, %ids, 0", 0), ("%w, %ids, 2, False", 2)])
def test_the_padding_index_of_an_embedding_is_in_the_exporters_record(tmp_path, arguments, padding):
    text = embedded(tmp_path, arguments)
    assert "graph.gather" in text and ("padding_index" in text) == (padding is not None)
    assert padding is None or f"padding_index = {padding} " in text


def test_positions_that_hold_the_padding_index_are_no_slice(tmp_path):
    assert "padding_index = 2 " in embedded(tmp_path, "%w, %ids, 2", i64(1, 2, 3), known=(1,))
    assert "graph.slice" in embedded(tmp_path, "%w, %ids, 4", i64(1, 2, 3), known=(1,))


def test_indices_may_be_what_all_of_their_tables_hold(tmp_path):
    tables = [numpy_helper.from_array(floats(rows, 3), f"{name}.weight") for name, rows in (("a", 6), ("b", 4), ("c", 5))]
    nodes = [helper.make_node("Gather", [f"{name}.weight", "ids"], [f"y{name}"]) for name in "abc"]
    ids = helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [2, 3])
    outputs = [helper.make_tensor_value_info(f"y{name}", onnx.TensorProto.FLOAT, [2, 3, 3]) for name in "abc"]
    model = helper.make_model(helper.make_graph(nodes, "graph", [ids], outputs, tables), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, tmp_path / "model.onnx")
    assert "range 4>" in imported(tmp_path / "model.onnx")


@pytest.mark.parametrize("training", [False, True])
def test_dropout_is_that_of_the_file_where_it_says_training_mode(tmp_path, training):
    Node("Dropout", 13, floats(3), f32(0.25), np.bool_(training), known=(1, 2)).save(tmp_path / "model.onnx")
    text = imported(tmp_path / "model.onnx")
    assert ("graph.dropout" in text) == training and ("rate = 2.5" in text) == training
