// A loop over the elements of a dim: recurrent layers.

#ifndef POLYRANK_GRAPH_SCAN_TD
#define POLYRANK_GRAPH_SCAN_TD

include "dialects/graph/Graph.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Graph_ScanOp : Graph_Op<"scan", Graph_ComputesWidest, ["localize", "buildGradient", "getCost"],
    [AttrSizedOperandSegments, IsolatedFromAbove, SingleBlock]> {
  let summary = "Runs its region once per element of dim 0, with carried values";
  let description = [{
    Iteration i takes element i of dim 0 of each `of` operand, the `carry` values of
    the previous iteration (the first iteration: the operands), and the `uses`
    operands as they are. It gives element i of each stack, and the next carried
    values; results are the stacks, then the last carried values. With `reversed`
    the iterations go from the last element to the first.

    The size of the program does not depend on the number of iterations. The
    gradient is a scan in the other direction over what the forward has kept
    (ScanGradient.cpp). If a `uses` operand enters by a product or a sum, its
    gradient is computed after that scan, for all iterations at once.

    ```mlir
    %ys, %last = graph.scan 16 of(%xs) carry(%h) uses(%w) {
    ^bb0(%x: tensor<4x8xf32>, %before: tensor<4x8xf32>, %weight: tensor<8x8xf32>):
      %product = graph.matmul %before, %weight batch [] x [] contract [1] x [0]
         : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %sum = graph.add %x, %product : tensor<4x8xf32>
      %next = graph.tanh %sum : tensor<4x8xf32>
      graph.scan_yield stack(%next) carry(%next) : tensor<4x8xf32>, tensor<4x8xf32>
    } : (tensor<16x4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<16x4x8xf32>, tensor<4x8xf32>)
    ```

    1. There is at least one iteration, and each `of` operand has as many elements
       along dim 0 as there are iterations.
    2. Block arguments are the elements, the carried values, the uses.
    3. The terminator yields the elements of the stacks, which have as many along
       dim 0 as there are iterations, then the carried values, whose types do not
       change.
    4. The body consists of `graph` ops without layouts. It has no loops and no
       random ops, which would give the same numbers in each iteration.
  }];
  let arguments = (ins I64Attr:$count, Variadic<Graph_Tensor>:$of, Variadic<Graph_Tensor>:$carry,
                       Variadic<Graph_Tensor>:$uses, UnitAttr:$reversed);
  let results = (outs Variadic<Graph_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`reversed` $reversed^)? `of` `(` $of `)` `carry` `(` $carry `)` `uses` `(` $uses `)` $body attr-dict
    `:` functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "int64_t":$count, "bool":$isReversed, "::mlir::ValueRange":$of,
      "::mlir::ValueRange":$carry, "::mlir::ValueRange":$uses, "::std::unique_ptr<::mlir::Region>":$body)>];
  let extraClassDeclaration = [{
    ::mlir::Block::BlockArgListType getElements() {
      return getBody().getArguments().take_front(getOf().size());
    }
    ::mlir::Block::BlockArgListType getCarried() {
      return getBody().getArguments().slice(getOf().size(), getCarry().size());
    }
    ::mlir::Block::BlockArgListType getUsed() {
      return getBody().getArguments().take_back(getUses().size());
    }
    unsigned getNumStacks() { return getNumResults() - getCarry().size(); }
    ::mlir::ResultRange getStacks() { return getResults().take_front(getNumStacks()); }
    ::mlir::ResultRange getLast() { return getResults().drop_front(getNumStacks()); }
    ScanYieldOp getYield();
    /// The type of one element of a stack: without dim 0 and layout.
    static ::mlir::RankedTensorType getElementType(::mlir::Type stack);
    /// Returns true if the type has `count` elements along dim 0.
    static bool isStack(::mlir::Type type, int64_t count);
    /// The type of a stack of `count` elements of this type.
    static ::mlir::RankedTensorType getStackType(int64_t count, ::mlir::Type element);
  }];
  let hasVerifier = 1;
}

def Graph_ScanYieldOp : Op<Graph_Dialect, "scan_yield",
    [AttrSizedOperandSegments, Terminator, Pure, ParentOneOf<["ScanOp"]>]> {
  let summary = "The stack elements and carried values of one iteration";
  let description = [{
    ```mlir
    graph.scan_yield stack(%y) carry(%next) : tensor<4x8xf32>, tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$stack, Variadic<Graph_Tensor>:$carry);
  let assemblyFormat = "`stack` `(` $stack `)` `carry` `(` $carry `)` attr-dict `:` type(operands)";
}

#endif
