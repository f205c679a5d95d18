// Attention and its gradient as library calls.

#ifndef POLYRANK_RANK_ATTENTION_OPS_TD
#define POLYRANK_RANK_ATTENTION_OPS_TD

include "dialects/graph/GraphEnums.td"
include "dialects/rank/LibraryCallInterface.td"
include "dialects/rank/Rank.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

defvar Rank_AttentionInputs = (ins Rank_Tensor:$q, Rank_Tensor:$k, Rank_Tensor:$v);
// Operands and attributes that graph.attention has too, and where rows are.
defvar Rank_AttentionOptions = (ins
    Optional<Rank_Tensor>:$bias, Optional<Rank_Tensor>:$mask, Variadic<Rank_Tensor>:$counters,
    DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$query_access, DenseI64ArrayAttr:$key_access,
    DenseI64ArrayAttr:$value_access, DenseI64ArrayAttr:$result_access,
    F64Attr:$scale, BoolAttr:$causal, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$softcap,
    DefaultValuedAttr<Graph_Masked, "::polyrank::graph::Masked::Zero">:$masked, OptionalAttr<F64Attr>:$fill,
    OptionalAttr<F64Attr>:$rate, OptionalAttr<I64Attr>:$rng_id, OptionalAttr<DenseI64ArrayAttr>:$global_shape);
defvar Rank_CallState = (ins
    OptionalAttr<AnyAttr>:$call, OptionalAttr<Rank_BufferAttr>:$scratch, OptionalAttr<Rank_BufferArray>:$buffers);

class Rank_AnyAttention<string mnemonic> : Rank_LibraryCall<mnemonic, [Pure, AttrSizedOperandSegments]> {
  let hasVerifier = 1;
  code attentionDeclarations = [{
    ::polyrank::graph::AttentionForm getForm();
    int64_t getBatchSize() { return getSizes()[0]; }
    int64_t getHeads() { return getSizes()[1]; }
    int64_t getGroups() { return getSizes()[2]; }
    int64_t getQueries() { return getSizes()[3]; }
    int64_t getKeys() { return getSizes()[4]; }
    int64_t getWidth() { return getSizes()[5]; }
    int64_t getValueWidth() { return getSizes()[6]; }
    int64_t getReadBegin(unsigned operand);
    int64_t getFlops();
    ::std::string getText();
    ::llvm::LogicalResult evaluate(::llvm::ArrayRef<::polyrank::graph::Tensor> operands,
                                   ::llvm::MutableArrayRef<::polyrank::graph::Tensor> results);
  }];
  let extraClassDeclaration = attentionDeclarations;
}

def Rank_AttentionOp : Rank_AnyAttention<"attention"> {
  let summary = "Attention of operands read with strides: one library call";
  let description = [{
    `graph.attention` of operands that are parts of larger ones, as those of one
    projection to queries, keys and values are. `sizes` are [batch, heads, groups,
    queries, keys, width, value width]; strides and offsets count elements. With an
    access [offset, batch, head, row], element i of row r of head h of sample b is
    element offset + b batch + h head + r row + i of the operand in row-major order.
    The access of the result has no offset. Bias, mask and lse have the shapes that
    they have in `graph.attention`.

    ```mlir
    // Heads are next to each other in the rows of what is read and written.
    %y, %lse = rank.attention %q at [0, 12, 3, 6], %k at [0, 12, 3, 6], %v at [0, 12, 3, 6]
       to [12, 3, 6] sizes [2, 2, 2, 2, 2, 3, 3] {scale = 0.5 : f64, causal = true}
       : (tensor<2x2x6xf32>, tensor<2x2x6xf32>, tensor<2x2x6xf32>) -> (tensor<2x2x6xf32>, tensor<2x2x2xf32>)
    ```

    1. Query, key, value and result have one float type; lse and bias have the type
       of sums of such elements: f32 for bf16 and f16. The mask has booleans, and
       counters are i64 scalars.
    2. There are seven sizes, of at least 1; heads are a multiple of groups.
    3. No element outside an operand is read, and rows are at least as far apart
       as they are long.
    4. Every element of a result is written exactly once.
    5. lse is [batch, heads, queries]; bias and mask are [batch, heads, queries,
       keys], where each dim may be 1.
    6. Window, softcap, fill and dropout are as conditions 5 to 8 of
       `graph.attention` say.
  }];
  let arguments = !con(Rank_AttentionInputs, Rank_AttentionOptions, Rank_CallState);
  let results = (outs Rank_Tensor:$result, Rank_Tensor:$lse);
  let assemblyFormat = [{
    $q `at` $query_access `,` $k `at` $key_access `,` $v `at` $value_access
    (`bias` $bias^)? (`mask` $mask^)? (`masked` $masked^)? (`dropout` $counters^)?
    `to` $result_access `sizes` $sizes attr-dict `:` functional-type(operands, results)
  }];
}

def Rank_AttentionGradOp : Rank_AnyAttention<"attention_grad"> {
  let summary = "Gradients of attention: one library call";
  let description = [{
    `graph.attention_grad` of operands that are read, and results that are written,
    with strides. Accesses are those of `rank.attention`. The gradient of the bias
    has the bias's shape.

    ```mlir
    %dq, %dk, %dv = rank.attention_grad %dy at [0, 12, 3, 6], %q at [0, 12, 3, 6], %k at [0, 12, 3, 6], %v at [0, 12, 3, 6], %y at [0, 12, 3, 6], %lse
       to [12, 3, 6], [12, 3, 6], [12, 3, 6] sizes [2, 2, 2, 2, 2, 3, 3] {scale = 0.5 : f64, causal = true}
       : (tensor<2x2x6xf32>, tensor<2x2x6xf32>, tensor<2x2x6xf32>, tensor<2x2x6xf32>, tensor<2x2x6xf32>, tensor<2x2x2xf32>)
       -> (tensor<2x2x6xf32>, tensor<2x2x6xf32>, tensor<2x2x6xf32>)
    ```

    1. Query, key, value, result and their gradients have one float type; lse and
       bias have the type of sums of such elements: f32 for bf16 and f16. The mask
       has booleans, and counters are i64 scalars.
    2. There are seven sizes, of at least 1; heads are a multiple of groups.
    3. No element outside an operand is read, and rows are at least as far apart
       as they are long.
    4. Every element of a result is written exactly once.
    5. lse is [batch, heads, queries]; bias and mask are [batch, heads, queries,
       keys], where each dim may be 1.
    6. Window, softcap, fill and dropout are as conditions 5 to 8 of
       `graph.attention` say.
    7. The bias's gradient has the bias's type, and is there only if the bias is.
  }];
  let arguments = !con((ins Rank_Tensor:$resultGradient), Rank_AttentionInputs,
                       (ins Rank_Tensor:$result_value, Rank_Tensor:$lse), Rank_AttentionOptions,
                       (ins DenseI64ArrayAttr:$gradient_access, DenseI64ArrayAttr:$query_gradient_access,
                            DenseI64ArrayAttr:$key_gradient_access, DenseI64ArrayAttr:$value_gradient_access),
                       Rank_CallState);
  let results = (outs Rank_Tensor:$queryGradient, Rank_Tensor:$keyGradient, Rank_Tensor:$valueGradient,
                      Optional<Rank_Tensor>:$biasGradient);
  let assemblyFormat = [{
    $resultGradient `at` $gradient_access `,` $q `at` $query_access `,` $k `at` $key_access `,`
    $v `at` $value_access `,` $result_value `at` $result_access `,` $lse
    (`bias` $bias^)? (`mask` $mask^)? (`masked` $masked^)? (`dropout` $counters^)?
    `to` $query_gradient_access `,` $key_gradient_access `,` $value_gradient_access
    `sizes` $sizes attr-dict `:` functional-type(operands, results)
  }];
}

#endif
