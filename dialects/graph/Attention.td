// Attention and its gradient.

#ifndef POLYRANK_GRAPH_ATTENTION_TD
#define POLYRANK_GRAPH_ATTENTION_TD

include "dialects/graph/Composite.td"

// The operands and attributes that attention and its gradient share.
defvar Graph_AttentionInputs = (ins Graph_FloatTensor:$query, Graph_FloatTensor:$key, Graph_FloatTensor:$value);
defvar Graph_AttentionOptions = (ins
    Optional<Graph_FloatTensor>:$bias, Optional<Graph_BoolTensor>:$mask, Variadic<Graph_IntegerTensor>:$counters,
    F64Attr:$scale, BoolAttr:$causal, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$softcap,
    DefaultValuedAttr<Graph_Masked, "::polyrank::graph::Masked::Zero">:$masked, OptionalAttr<F64Attr>:$fill,
    OptionalAttr<F64Attr>:$rate, OptionalAttr<I64Attr>:$rng_id, OptionalAttr<DenseI64ArrayAttr>:$global_shape);

class Graph_AnyAttention<string mnemonic, Trait precision, list<string> methods, list<Trait> traits = []>
    : Graph_Composite<mnemonic, precision, !listconcat(["localize", "getCost"], methods),
                      !listconcat([AttrSizedOperandSegments], traits)> {
  let extraClassDeclaration = [{
    ::polyrank::graph::AttentionForm getForm();
    ::polyrank::graph::AttentionSizes getSizes();
  }];
}

def Graph_AttentionOp : Graph_AnyAttention<"attention", Graph_ComputesLow, ["buildGradient"],
                                           [DeclareOpInterfaceMethods<DroppingOpInterface>]> {
  let summary = "softmax(scale * q k^T, with masks and biases) v";
  let description = [{
    q [batch, heads, queries, width], k [batch, groups, keys, width] and
    v [batch, groups, keys, value width] give result [batch, heads, queries,
    value width] and lse [batch, heads, queries], the logarithm of the sum of
    the exponentials of the scores. Head h of q uses head h / (heads / groups) of
    k and v (Ainslie et al. 2023, grouped-query attention).

    The score of a query and a key is s = scale * q k; with a `softcap` C it becomes
    C tanh(s / C) (Gemma 2). Then the optional `bias` is added. Dims of bias and
    mask are those of the scores [batch, heads, queries, keys], or 1.

    A key is hidden from a query where the optional `mask` is false; if `causal`,
    where key > query + keys - queries; and with a `window` W, where
    key <= query + keys - queries - W. Hidden keys have no weight, and a query that
    sees no key gives zero, with -inf as its lse. With `masked` = add the number
    `fill` is instead added to the score of each hidden key, and with replace it
    takes the place of the score, so that a query that sees no key has weights.

    With a `rate` the probabilities are dropped: element [b, h, q, k] as
    `graph.dropout` with this `rng_id` drops it. `counters` are its seed, step and
    microbatch, and in the program of one device the offsets of its block in
    `global_shape`.

    ```mlir
    %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = true}
       : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
    %z, %lse2 = graph.attention %q, %k1, %v1 mask %padding masked add {scale = 0.5 : f64, causal = true, fill = -1.0e9 : f64}
       : (tensor<2x2x4x2xf32>, tensor<2x1x4x2xf32>, tensor<2x1x4x2xf32>, tensor<2x1x1x4xi1>) -> (tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
    ```

    1. Query, key, value and result have one type of elements; bias and lse have
       that in which its sums are formed.
    2. Query, key, value and result have rank 4, and so have bias and mask.
    3. Their dims, and those of lse, agree; dims of bias and mask may be 1.
    4. The heads of queries are a multiple of those of keys.
    5. A window is at least 1, and `causal`.
    6. A softcap is a positive number.
    7. There is a `fill`, which is a number, where hidden keys have a score, and only
       there.
    8. There are three scalar counters, an `rng_id` and a rate in [0, 1), or none of
       these. `global_shape` has four numbers, with an offset for each.
  }];
  let arguments = !con(Graph_AttentionInputs, Graph_AttentionOptions);
  let results = (outs Graph_FloatTensor:$result, Graph_FloatTensor:$lse);
  let builders = [
    OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key, "::mlir::Value":$value,
      "const ::polyrank::graph::AttentionForm &":$form, CArg<"::mlir::Value", "{}">:$bias,
      CArg<"::mlir::Value", "{}">:$mask, CArg<"::mlir::ValueRange", "{}">:$counters)>];
  let assemblyFormat = [{
    $query `,` $key `,` $value (`bias` $bias^)? (`mask` $mask^)? (`masked` $masked^)? (`dropout` $counters^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Graph_AttentionGradOp : Graph_AnyAttention<"attention_grad", Graph_ComputesLow, []> {
  let summary = "Gradients of attention's query, key, value and bias";
  let description = [{
    The gradient of the bias, if it is a result, is summed over the dims that the bias
    has once.

    ```mlir
    %dq, %dk, %dv = graph.attention_grad %dy, %q, %k, %v, %y, %lse {scale = 0.5 : f64, causal = true}
       : (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4xf32>)
       -> (tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>)
    ```

    1. Query, key, value and result have one type of elements; bias and lse have
       that in which its sums are formed.
    2. Query, key, value and result have rank 4, and so have bias and mask.
    3. Their dims, and those of lse, agree; dims of bias and mask may be 1.
    4. The heads of queries are a multiple of those of keys.
    5. A window is at least 1, and `causal`.
    6. A softcap is a positive number.
    7. There is a `fill`, which is a number, where hidden keys have a score, and only
       there.
    8. There are three scalar counters, an `rng_id` and a rate in [0, 1), or none of
       these. `global_shape` has four numbers, with an offset for each.
    9. Gradients have the types of their values; that of the bias is there only if
       the bias is.
  }];
  let arguments = !con((ins Graph_FloatTensor:$resultGradient), Graph_AttentionInputs,
                       (ins Graph_FloatTensor:$result_value, Graph_FloatTensor:$lse), Graph_AttentionOptions);
  let results = (outs Graph_FloatTensor:$queryGradient, Graph_FloatTensor:$keyGradient,
                      Graph_FloatTensor:$valueGradient, Optional<Graph_FloatTensor>:$biasGradient);
  let assemblyFormat = [{
    $resultGradient `,` $query `,` $key `,` $value `,` $result_value `,` $lse
    (`bias` $bias^)? (`mask` $mask^)? (`masked` $masked^)? (`dropout` $counters^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif
