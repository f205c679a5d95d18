// Ops of the training step: seed gradient, order, randomness, microbatches.

#ifndef POLYRANK_GRAPH_STEP_TD
#define POLYRANK_GRAPH_STEP_TD

include "dialects/graph/Graph.td"
include "dialects/graph/Elementwise.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Graph_SeedOp : Op<Graph_Dialect, "seed",
    [DeclareOpInterfaceMethods<GraphOpInterface, ["getShardingRule", "evaluate"]>, LayoutChecked, Graph_ComputesWidest]> {
  let summary = "The gradient that the backward starts from";
  let description = [{
    A scalar constant that is never folded. The backward is everything that depends
    on it, and everything that is computed for that alone (Phase.h).

    ```mlir
    %s = graph.seed 1.0 : tensor<f32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Graph_FloatTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Graph_GradientOp : Graph_Unary<"gradient", "x", Graph_ComputesWidest, "t", "y", "y", []> {
  let summary = "x, marked as the gradient of a parameter that the update takes";
  let description = [{
    x is the gradient of the sum over all microbatches. Everything that depends on
    the op is the update: `shard-updates` chooses its layouts, and erases the op.

    ```mlir
    %y = graph.gradient %x of @w : tensor<4x3xf32>
    ```

    1. Operands and result have one shape.
    2. Their elements have one type.
  }];
  let arguments = (ins Graph_Tensor:$input, FlatSymbolRefAttr:$parameter, OptionalAttr<DenseI64ArrayAttr>:$view);
  let assemblyFormat = "$input `of` $parameter (`view` $view^)? attr-dict `:` custom<AlikeTypes>(type($input), type($result))";
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::FlatSymbolRefAttr":$parameter,
                             "::mlir::DenseI64ArrayAttr":$view), [{
    build($_builder, $_state, input.getType(), input, parameter, view);
  }]>];
}

def Graph_AfterOp : Op<Graph_Dialect, "after",
    [DeclareOpInterfaceMethods<GraphOpInterface, ["getShardingRule", "evaluate", "localize", "getCost"]>, Pure, Graph_ComputesWidest]> {
  let summary = "x, available only after the token";
  let description = [{
    An op that reads the result cannot run before the token is computed, and is not
    a duplicate of an op that reads x itself: so a value is recomputed, or gathered
    again, where a later part of the step needs it. The token is any value with any
    layout; it is not read. In the program of one device, whose ops have an order,
    the op becomes x.

    ```mlir
    %w2 = graph.after %w, %dy : tensor<4x3xf32>, tensor<2x5xf32>
    ```

    1. The result has the type of x, layout included.
    2. x and the token have layouts over one mesh, or none.
  }];
  let arguments = (ins Graph_Tensor:$input, Graph_Tensor:$token);
  let results = (outs Graph_Tensor:$result);
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$token), [{
    build($_builder, $_state, input.getType(), input, token);
  }]>];
  let assemblyFormat = "$input `,` $token attr-dict `:` custom<AlikeTypes>(type($input), type($result)) `,` type($token)";
}

def Graph_DropoutOp : Graph_Op<"dropout", Graph_ComputesWidest, ["localize", "buildGradient"], [DeclareOpInterfaceMethods<DroppingOpInterface>]> {
  let summary = "Zero with probability `rate`, else x / (1 - rate)";
  let description = [{
    Srivastava et al. (2014). The decision for an element depends on (seed, step,
    microbatch, rng_id, its index in the global tensor) alone, by Philox-4x32-10
    (Salmon et al. 2011), so neither the layout nor recompute changes it. The op is
    linear in x: its gradient is itself.

    Key: the low and high half of seed ^ (rng_id * 0x9E3779B97F4A7C15).
    Counter: (index, index >> 32, step, microbatch). The element is kept where
    the first output word >= rate * 2^32.

    In the program of one device `offsets` (one i64 scalar per dim) and
    `global_shape` say where the block lies in the global tensor.

    ```mlir
    %y = graph.dropout %x, %seed, %step, %microbatch {rate = 0.5 : f64, rng_id = 3 : i64}
       : (tensor<4x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
    ```

    1. Seed, step and microbatch are scalars.
    2. `offsets` and `global_shape` have a number for each dim, or are both not
       there.
    3. Floats have one type.
    4. The result has the shape of the input.
    5. 0 <= `rate` < 1.
  }];
  let arguments = (ins Graph_FloatTensor:$input, Graph_IntegerTensor:$seed, Graph_IntegerTensor:$step,
                       Graph_IntegerTensor:$microbatch, Variadic<Graph_IntegerTensor>:$offsets,
                       F64Attr:$rate, I64Attr:$rng_id, OptionalAttr<DenseI64ArrayAttr>:$global_shape);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$seed, "::mlir::Value":$step,
      "::mlir::Value":$microbatch, "double":$rate, "int64_t":$rngId)>];
  let hasVerifier = 1;
}

def Graph_UniformOp : Graph_Op<"uniform", Graph_ComputesWidest, ["localize"]> {
  let summary = "Random numbers, uniform in [0, 1)";
  let description = [{
    Each number is the upper 24 bits of the element's random word (see `dropout`,
    which shares `rng_id`), as a fraction: exact in f32.

    ```mlir
    %u = graph.uniform %seed, %step, %microbatch {rng_id = 3 : i64}
       : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>
    ```

    1. Seed, step and microbatch are scalars.
    2. `offsets` and `global_shape` have a number for each dim, or are both not
       there.
  }];
  let arguments = (ins Graph_IntegerTensor:$seed, Graph_IntegerTensor:$step,
                       Graph_IntegerTensor:$microbatch, Variadic<Graph_IntegerTensor>:$offsets,
                       I64Attr:$rng_id, OptionalAttr<DenseI64ArrayAttr>:$global_shape);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::RankedTensorType":$type, "::mlir::Value":$seed, "::mlir::Value":$step,
      "::mlir::Value":$microbatch, "int64_t":$rngId)>];
  let hasVerifier = 1;
}

def Graph_MicrobatchesOp : Op<Graph_Dialect, "microbatches",
    [AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Runs its region once per microbatch";
  let description = [{
    Microbatch i takes element i of dim 0 of each `of` operand, and hands the
    `carry` values to the next. `sum` results are added in ascending order,
    starting from the first value; `carry` results are the last ones.

    ```mlir
    %loss, %stats1 = graph.microbatches count = 4 of(%ids) carry(%stats) {
    ^bb0(%index: tensor<i64>, %ids_i: tensor<8x128xi64>, %stats_i: tensor<16xf32>):
      ...
      graph.yield sum(%loss_i) carry(%stats_next)
    } : (tensor<4x8x128xi64>, tensor<16xf32>) -> (tensor<f32>, tensor<16xf32>)
    ```

    1. Dim 0 of each `of` operand is `count` and not split.
    2. Block arguments are the index (i64 scalar), the slices, the carried values.
    3. The terminator yields the results: sums first, then carried values, of
       the types of the results; carried types do not change.
  }];
  let arguments = (ins I64Attr:$count, Variadic<Graph_Tensor>:$of, Variadic<Graph_Tensor>:$carry);
  let results = (outs Variadic<Graph_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `count` `=` $count `of` `(` $of `)` `carry` `(` $carry `)` $body attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    ::mlir::BlockArgument getIndex() { return getBody().getArgument(0); }
    ::mlir::Block::BlockArgListType getSlices() {
      return getBody().getArguments().slice(1, getOf().size());
    }
    ::mlir::Block::BlockArgListType getCarried() {
      return getBody().getArguments().drop_front(1 + getOf().size());
    }
    unsigned getNumSums() { return getNumResults() - getCarry().size(); }
    /// The type of one microbatch of an `of` operand: without dim 0, layout included.
    static ::mlir::RankedTensorType getSliceType(::mlir::RankedTensorType type);
  }];
  let hasVerifier = 1;
}

def Graph_YieldOp : Op<Graph_Dialect, "yield",
    [AttrSizedOperandSegments, Terminator, Pure, ParentOneOf<["MicrobatchesOp"]>]> {
  let summary = "The summands and carried values of one microbatch";
  let description = [{
    ```mlir
    graph.yield sum(%loss) carry(%stats) : tensor<f32>, tensor<16xf32>
    ```
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$sum, Variadic<Graph_Tensor>:$carry);
  let assemblyFormat = "`sum` `(` $sum `)` `carry` `(` $carry `)` attr-dict `:` type(operands)";
}

#endif
