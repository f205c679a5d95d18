// Products of rows with the matrices of their groups, as in a mixture of experts.

#ifndef POLYRANK_GRAPH_GROUPED_TD
#define POLYRANK_GRAPH_GROUPED_TD

include "dialects/graph/Graph.td"

// Group numbers of rows or of matrices.
def Graph_GroupNumbers : RankedTensorOf<[I64]>;

def Graph_GroupedMatmulOp : Graph_Op<"grouped_matmul", Graph_ComputesLow, ["buildGradient", "getCost"]> {
  let summary = "Each row times the matrix of its group";
  let description = [{
    With rows [s, k], matrices [e, k, n], a group for each row [s] and one for
    each matrix [e]:

        result[s, n] = sum over e with ids[e] = groups[s] of
                       sum_k rows[s, k] matrices[e, k, n]

    and zero for a row whose group has no matrix. Since it is a sum over matrices,
    each part of them can compute a summand: devices with different experts have
    different `ids`. Adjacent rows of one group are one product, so rows should be
    sorted by group. (MegaBlocks, Gale et al. 2022; the gmm of JAX's Megablox.)

    ```mlir
    %y = graph.grouped_matmul %x, %w, %groups, %ids
       : (tensor<6x4xf32>, tensor<2x4x3xf32>, tensor<6xi64>, tensor<2xi64>) -> tensor<6x3xf32>
    ```

    1. Rows and matrices have one type of elements. The result has it too, or the type in
       which products of such elements are added: f32 for bf16 and f16.
    2. Rows have two dims, matrices three, groups and ids one.
    3. There are as many groups as rows and as many ids as matrices; the dim that is
       summed over has one size.
    4. The result is [s, n].
  }];
  let arguments = (ins Graph_FloatTensor:$rows, Graph_FloatTensor:$matrices,
                       Graph_GroupNumbers:$groups, Graph_GroupNumbers:$ids);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$rows, "::mlir::Value":$matrices,
      "::mlir::Value":$groups, "::mlir::Value":$ids, CArg<"::mlir::Type", "{}">:$resultElement)>];
  let hasVerifier = 1;
}

def Graph_GroupedOuterOp : Graph_Op<"grouped_outer", Graph_ComputesLow, ["buildGradient", "getCost"]> {
  let summary = "For each group the sum of its rows' outer products";
  let description = [{
    The gradient of `grouped_matmul` with respect to its matrices. With rows
    [s, k], others [s, n], a group for each row [s] and one for each result [e]:

        result[e, k, n] = sum over s with groups[s] = ids[e] of
                          rows[s, k] others[s, n]

    (The tgmm of JAX's Megablox.)

    ```mlir
    %g = graph.grouped_outer %x, %dy, %groups, %ids
       : (tensor<6x4xf32>, tensor<6x3xf32>, tensor<6xi64>, tensor<2xi64>) -> tensor<2x4x3xf32>
    ```

    1. Rows and others have one type of elements. The result has it too, or the type in
       which products of such elements are added: f32 for bf16 and f16.
    2. Rows and others have two dims, groups and ids one.
    3. There are equally many rows, others and groups.
    4. The result is [e, k, n].
  }];
  let arguments = (ins Graph_FloatTensor:$rows, Graph_FloatTensor:$others,
                       Graph_GroupNumbers:$groups, Graph_GroupNumbers:$ids);
  let results = (outs Graph_FloatTensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$rows, "::mlir::Value":$others,
      "::mlir::Value":$groups, "::mlir::Value":$ids, CArg<"::mlir::Type", "{}">:$resultElement)>];
  let hasVerifier = 1;
}

#endif
