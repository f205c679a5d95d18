// Ops that move elements without computing: reshape to scatter_add.

#ifndef POLYRANK_GRAPH_SHAPE_TD
#define POLYRANK_GRAPH_SHAPE_TD

include "dialects/graph/Graph.td"

def Graph_ConstantOp : Graph_Op<"constant", Graph_ComputesWidest, ["localize"], [ConstantLike]> {
  let summary = "A constant";
  let description = [{
    Weights are never constants: they are arguments with the role `#graph.parameter`.

    ```mlir
    %c = graph.constant dense<2.0> : tensor<4x3xf32>
    ```

    1. The value has the type of the result.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Graph_Tensor:$result);
  let builders = [
    OpBuilder<(ins "::mlir::DenseElementsAttr":$value), [{
      build($_builder, $_state, value.getType(), value);
    }]>,
    // A constant whose elements are all `value`, converted to the element type.
    OpBuilder<(ins "::mlir::RankedTensorType":$type, "double":$value)>
  ];
  let hasFolder = 1;
  let hasVerifier = 1;
  let assemblyFormat = "custom<TypedValue>($value, type($result)) attr-dict";
}

def Graph_IotaOp : Graph_Op<"iota", Graph_ComputesWidest, ["localize"]> {
  let summary = "Element i0, i1, .. is the index along `dim`";
  let description = [{
    ```mlir
    %i = graph.iota dim = 0 : tensor<4x3xi64>
    ```

    1. `dim` is a dim of the result.
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Graph_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "`dim` `=` $dim attr-dict `:` type($result)";
}

def Graph_ReshapeOp : Graph_Op<"reshape", Graph_ComputesWidest, ["buildGradient"]> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{
    ```mlir
    %y = graph.reshape %x : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
    ```

    1. The elements keep their type.
    2. The result has as many elements as the input.
  }];
  let arguments = (ins Graph_Tensor:$input);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::llvm::ArrayRef<int64_t>":$shape)>];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_TransposeOp : Graph_Op<"transpose", Graph_ComputesWidest, ["buildGradient"]> {
  let summary = "Result dim i is operand dim permutation[i]";
  let description = [{
    ```mlir
    %y = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
    ```

    1. The elements keep their type.
    2. `permutation` names every dim once.
    3. The result has the dims in that order.
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::llvm::ArrayRef<int64_t>":$permutation)>];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_BroadcastOp : Graph_Op<"broadcast", Graph_ComputesWidest, ["buildGradient"]> {
  let summary = "Operand dim i is result dim dims[i]; the others repeat the operand";
  let description = [{
    `dims` ascends, and sizes are equal: a dim of size 1 must be reshaped away
    first.

    ```mlir
    %y = graph.broadcast %x {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x3xf32>
    ```

    1. The elements keep their type.
    2. `dims` has a number for each dim of the operand.
    3. They ascend and are dims of the result.
    4. The dims have equal sizes.
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::llvm::ArrayRef<int64_t>":$shape, "::llvm::ArrayRef<int64_t>":$dims)>];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_SliceOp : Graph_Op<"slice", Graph_ComputesWidest, ["localize", "buildGradient"]> {
  let summary = "Elements start, start + stride, .. below limit of each dim";
  let description = [{
    ```mlir
    %y = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 4, 6>, strides = array<i64: 1, 2>}
       : (tensor<4x6xf32>) -> tensor<4x3xf32>
    ```

    1. The elements keep their type.
    2. There is a start, a limit and a stride for each dim.
    3. 0 <= start <= limit <= size, and stride >= 1.
    4. The size of each result dim is the number of elements that the slice takes.
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$strides);
  let results = (outs Graph_Tensor:$result);
  let builders = [
    OpBuilder<(ins "::mlir::Value":$input, "::llvm::ArrayRef<int64_t>":$starts,
                   "::llvm::ArrayRef<int64_t>":$limits, "::llvm::ArrayRef<int64_t>":$strides)>,
    // The slice [start, limit) of one dim, with the other dims whole.
    OpBuilder<(ins "::mlir::Value":$input, "int64_t":$dim, "int64_t":$start, "int64_t":$limit)>
  ];
  let extraClassDeclaration = [{
    /// Returns true if dim `d` is taken whole.
    bool isWhole(int64_t d);
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_UnfoldOp : Graph_Op<"unfold", Graph_ComputesWidest, ["localize", "buildGradient"]> {
  let summary = "Windows of `size` elements along `dim`: PyTorch's Tensor.unfold, with dilation";
  let description = [{
    The dim becomes the number of windows, and a window's elements are the last dim:
    result[.., o, .., k] = input[.., o * stride + k * dilation - low, ..]. The dim
    is padded by `low` and `high` elements of `value`. Elements at the end that no
    window reaches are left out.

    A convolution unfolds each spatial dim and multiplies the windows with the
    filters; pooling reduces them. Padding is part of the op, so that a split dim
    needs one exchange of borders.

    ```mlir
    %y = graph.unfold %x {dim = 1 : i64, size = 3 : i64, stride = 2 : i64, dilation = 1 : i64}
       : (tensor<4x9xf32>) -> tensor<4x4x3xf32>
    ```

    1. The elements keep their type.
    2. `dim` is a dim of the input.
    3. `size`, `stride` and `dilation` are at least 1, and `low` at least 0.
    4. `high` is at least 0.
    5. The result has the windows that fit, and a last dim of `size`.
  }];
  let arguments = (ins Graph_Tensor:$input, I64Attr:$dim, I64Attr:$size, I64Attr:$stride,
                       I64Attr:$dilation, DefaultValuedAttr<I64Attr, "0">:$low,
                       DefaultValuedAttr<I64Attr, "0">:$high,
                       DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$dim, "int64_t":$size,
      "int64_t":$stride, CArg<"int64_t", "1">:$dilation, CArg<"int64_t", "0">:$low,
      CArg<"int64_t", "0">:$high, CArg<"double", "0">:$value)>];
  let extraClassDeclaration = [{
    /// The number of windows in a padded dim of size `dimSize`.
    static int64_t getNumWindows(int64_t dimSize, int64_t size, int64_t stride, int64_t dilation) {
      int64_t reach = (size - 1) * dilation + 1;
      return dimSize < reach ? 0 : (dimSize - reach) / stride + 1;
    }
  }];
  let hasVerifier = 1;
}

def Graph_FoldOp : Graph_Op<"fold", Graph_ComputesWidest, ["localize", "buildGradient"]> {
  let summary = "Adds overlapping windows: the transpose of `unfold`";
  let description = [{
    The last dim has a window's elements, and windows lie along `dim`: result[.., i,
    ..] is the sum of input[.., o, .., k] over all o and k with i = o * stride + k *
    dilation - low. Elements that fall outside of the result are dropped.

    ```mlir
    %y = graph.fold %x {dim = 1 : i64, stride = 1 : i64, dilation = 1 : i64, low = 1 : i64}
       : (tensor<2x8x3xf32>) -> tensor<2x8xf32>
    ```

    1. The elements keep their type.
    2. `dim` is a dim of the input, and not the last.
    3. A window has at least one element, `stride` and `dilation` are at least 1,
       and `low` at least 0.
    4. The dims of the result except `dim` are those of the input except the last.
  }];
  let arguments = (ins Graph_Tensor:$input, I64Attr:$dim, I64Attr:$stride, I64Attr:$dilation,
                       DefaultValuedAttr<I64Attr, "0">:$low);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "int64_t":$dim, "int64_t":$resultSize,
      "int64_t":$stride, CArg<"int64_t", "1">:$dilation, CArg<"int64_t", "0">:$low)>];
  let hasVerifier = 1;
}

def Graph_PadOp : Graph_Op<"pad", Graph_ComputesWidest, ["localize", "buildGradient"]> {
  let summary = "Pads each dim with `value`: low elements before, high after, interior between elements";
  let description = [{
    ```mlir
    %y = graph.pad %x {low = array<i64: 0, 1>, high = array<i64: 0, 1>, interior = array<i64: 0, 0>, value = 0.0 : f64}
       : (tensor<2x14xf32>) -> tensor<2x16xf32>
    ```

    1. The elements keep their type.
    2. There is a low, a high and an interior padding for each dim.
    3. None is negative.
    4. The result has the padded sizes.
  }];
  let arguments = (ins Graph_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DenseI64ArrayAttr:$interior, F64Attr:$value);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::llvm::ArrayRef<int64_t>":$low,
      "::llvm::ArrayRef<int64_t>":$high, "::llvm::ArrayRef<int64_t>":$interior, "double":$value)>];
  let hasVerifier = 1;
}

def Graph_ConcatOp : Graph_Op<"concat", Graph_ComputesWidest, ["buildGradient"]> {
  let summary = "The operands one after another along `dim`";
  let description = [{
    ```mlir
    %z = graph.concat %x, %y {dim = 1 : i64} : (tensor<4x2xf32>, tensor<4x4xf32>) -> tensor<4x6xf32>
    ```

    1. The elements keep their type.
    2. There is an operand.
    3. `dim` is a dim of the result.
    4. Operands have the other dims of the result.
    5. Along `dim` their sizes add up to that of the result.
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$inputs, "int64_t":$dim)>];
  let hasVerifier = 1;
}

def Graph_GatherOp : Graph_Op<"gather", Graph_ComputesWidest, ["localize", "buildGradient"]> {
  let summary = "Picks slices along `axis` by index";
  let description = [{
    With operand dims [batch.., before.., n, after..] and indices
    [batch.., index..], the result is [batch.., before.., index.., after..]:
    result[b, p, i, a] = operand[b, p, indices[b, i], a], and zero where the
    index is outside [0, n). `axis` counts the batch dims.

    Where the index is `padding_index` (the padding_idx of PyTorch's Embedding) the
    operand gets no gradient.

    ```mlir
    %y = graph.gather %table, %ids {axis = 0 : i64, batch_dims = 0 : i64}
       : (tensor<6x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
    ```

    1. The elements keep their type.
    2. `axis` is a dim of the table after the batch dims, which the indices have too.
    3. Batch dims of table and indices have equal sizes.
    4. The result has the dims described above.
  }];
  let arguments = (ins Graph_Tensor:$operand, Graph_IntegerTensor:$indices,
                       I64Attr:$axis, I64Attr:$batch_dims, OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$operand, "::mlir::Value":$indices, "int64_t":$axis, CArg<"int64_t", "0">:$batchDims)>];
  let hasVerifier = 1;
}

def Graph_ScatterAddOp : Graph_Op<"scatter_add", Graph_ComputesWidest, ["localize", "buildGradient"]> {
  let summary = "Adds slices by index, into zeros: the transpose of `gather`";
  let description = [{
    result[b, p, indices[b, i], a] += updates[b, p, i, a] in ascending order of
    i, from zeros or, in a program of one device, from `init`; updates whose
    index is outside [0, n) are dropped.

    ```mlir
    %y = graph.scatter_add %ids, %rows {axis = 0 : i64, batch_dims = 0 : i64}
       : (tensor<6xi64>, tensor<6x2xf32>) -> tensor<4x2xf32>
    ```

    1. The result has the type in which sums of the updates are formed: their own,
       or f32 for bf16 and f16, in which a sum stops growing.
    2. `axis` is a dim of the table after the batch dims, which the indices have too.
    3. Batch dims of table and indices have equal sizes.
    4. The updates have the dims described above.
    5. `init` has the type of the result.
    6. If there are layouts there is no `init`.
  }];
  let arguments = (ins Graph_IntegerTensor:$indices, Graph_Tensor:$updates,
                       Optional<Graph_Tensor>:$init,
                       I64Attr:$axis, I64Attr:$batch_dims);
  let results = (outs Graph_Tensor:$result);
  let hasVerifier = 1;
}

#endif
