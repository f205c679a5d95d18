// Ops that sum over a factor: matmul and reduce.

#ifndef POLYRANK_GRAPH_CONTRACTION_TD
#define POLYRANK_GRAPH_CONTRACTION_TD

include "dialects/graph/Graph.td"
include "dialects/sharding/Sharding.td"

def Graph_MatmulOp : Graph_Op<"matmul", Graph_ComputesLow, ["buildGradient", "getCost"]> {
  let summary = "General dot product";
  let description = [{
    Dims of the left operand are batch, contracted or free; so are those of the
    right one, and the i-th batch (contracted) dims of both match. Result dims
    are batch, left free, right free, each in operand order.

    ```mlir
    %y = graph.matmul %x, %w batch [] x [] contract [2] x [0]
       : (tensor<4x64x768xf32>, tensor<768x3x12x64xf32>) -> tensor<4x64x3x12x64xf32>
    ```

    With operands of bf16 or f16 the products are added in f32, and the sum is
    rounded once, to the result's type:

    ```mlir
    %g = graph.matmul %x, %dy batch [] x [] contract [0] x [0]
       : (tensor<256x768xbf16>, tensor<256x3072xbf16>) -> tensor<768x3072xf32>
    ```

    1. The operands have one type of elements. The result has it too, or the type in
       which products of such elements are added: f32 for bf16 and f16.
    2. Both operands name equally many batch dims, and equally many contracted dims.
    3. These are dims of the operands.
    4. Dims that match have equal sizes.
    5. An operand names no dim twice.
    6. The result has the dims described above.
  }];
  let arguments = (ins Graph_FloatTensor:$lhs, Graph_FloatTensor:$rhs,
                       DenseI64ArrayAttr:$lhs_batch, DenseI64ArrayAttr:$rhs_batch,
                       DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs,
      "::llvm::ArrayRef<int64_t>":$lhsBatch, "::llvm::ArrayRef<int64_t>":$rhsBatch,
      "::llvm::ArrayRef<int64_t>":$lhsContract, "::llvm::ArrayRef<int64_t>":$rhsContract,
      CArg<"::mlir::Type", "{}">:$resultElement)>];
  let extraClassDeclaration = [{
    /// Dims that are neither batch nor contracted, ascending.
    ::llvm::SmallVector<int64_t> getLhsFree();
    ::llvm::SmallVector<int64_t> getRhsFree();
  }];
  let hasVerifier = 1;
  let assemblyFormat = [{
    $lhs `,` $rhs `batch` $lhs_batch `x` $rhs_batch `contract` $lhs_contract `x` $rhs_contract
    attr-dict `:` functional-type(operands, results)
  }];
}

def Graph_ReduceOp : Graph_Op<"reduce", Graph_ComputesWide, ["buildGradient"]> {
  let summary = "Sum, max or min over dims, which the result lacks";
  let description = [{
    The gradient of a maximum or minimum is shared by the elements that are equal to
    it, as for PyTorch's amax. With `first` all of it goes to the first of them in
    row-major order, as for PyTorch's max_pool2d.

    ```mlir
    %y = graph.reduce sum %x over [1] : (tensor<4x3x5xf32>) -> tensor<4x5xf32>
    ```

    1. The elements keep their type.
    2. `dims` ascend and are dims of the input.
    3. The result has its other dims.
  }];
  let arguments = (ins Sharding_ReductionKind:$kind, Graph_Tensor:$input, DenseI64ArrayAttr:$dims,
                       UnitAttr:$first);
  let results = (outs Graph_Tensor:$result);
  let builders = [OpBuilder<(ins "::polyrank::sharding::ReductionKind":$kind, "::mlir::Value":$input,
      "::llvm::ArrayRef<int64_t>":$dims, CArg<"bool", "false">:$first)>];
  let hasVerifier = 1;
  let assemblyFormat = "$kind $input `over` $dims attr-dict `:` functional-type(operands, results)";
}

#endif
