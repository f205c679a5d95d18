// Ops that move data between the devices of a group.

#ifndef POLYRANK_RANK_COLLECTIVE_OPS_TD
#define POLYRANK_RANK_COLLECTIVE_OPS_TD

include "dialects/rank/CollectiveInterface.td"
include "dialects/rank/Rank.td"
include "dialects/sharding/Sharding.td"
include "mlir/IR/BuiltinAttributes.td"

// Collectives run over the group of `axes`, with g devices in group order. They are
// variadic (a bucket): operand i becomes result i. `id` names the global value that
// moves and is equal on all devices; `why` is for people, and holds strings: value,
// user, from, to, constraint. They do not implement the side-effect interface, so
// that nothing reorders or removes them.
//
// A collective whose results are `!rank.pending` is started, and runs concurrently
// with the following commands until the `rank.wait` that takes the results.
//
// `kind` is runtime::CollectiveKind, which has the rules of all kinds
// (runtime/plan/Collectives.h); `methods` are the interface methods that the op
// overrides.
class Rank_Collective<string mnemonic, string kind, dag options, string format, string methods = "">
    : Rank_Command<mnemonic, [Rank_CollectiveOpInterface]> {
  let arguments = !con((ins Variadic<Rank_Tensor>:$inputs, Rank_AxesAttr:$axes), options,
                       (ins I64Attr:$id, Sharding_Why:$why,
                            OptionalAttr<Rank_BufferArray>:$buffers));
  let results = (outs Variadic<Rank_TensorOrPending>:$outputs);
  let assemblyFormat = format # " `over` $axes `id` $id attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
  let extraClassDeclaration =
      "::polyrank::runtime::CollectiveKind getCollectiveKind() { return ::polyrank::runtime::CollectiveKind::"
      # kind # "; }\n" # "::polyrank::graph::Tensor evaluate(::llvm::ArrayRef<::polyrank::graph::Tensor> parts, int64_t me, unsigned number);\n"
      # "::polyrank::runtime::InPlace getInPlace(unsigned operand, unsigned result) {\n"
      # "  return operand == result ? ::llvm::cast<CollectiveOp>(getOperation()).getInPlace(operand) : ::polyrank::runtime::InPlace::Never;\n}\n"
      # methods;
}

defvar Rank_reduces = "::polyrank::runtime::Reduction getReduction();";
defvar Rank_hasRows = "::polyrank::runtime::TransferShape getTransferShape(unsigned number);";

def Rank_AllReduceOp : Rank_Collective<"all_reduce", "AllReduce",
    (ins Sharding_ReductionKind:$kind), "$kind $inputs", Rank_reduces> {
  let summary = "Reduces elementwise over the group; every device gets the result";
  let description = [{
    ```mlir
    %y = rank.all_reduce sum %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
    ```

    1. Results have the types of the operands.
  }];
}
def Rank_ReduceScatterOp : Rank_Collective<"reduce_scatter", "ReduceScatter",
    (ins Sharding_ReductionKind:$kind, DenseI64ArrayAttr:$dims), "$kind $inputs `dims` $dims",
    !strconcat(Rank_reduces, Rank_hasRows)> {
  let summary = "Reduces over the group; member p gets block p of dim dims[i]";
  let description = [{
    ```mlir
    %y = rank.reduce_scatter sum %x dims [0] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<2xf32>
    ```

    1. Results have the types of the operands, but dim dims[i] is g times smaller.
  }];
}
def Rank_AllGatherOp : Rank_Collective<"all_gather", "AllGather",
    (ins DenseI64ArrayAttr:$dims), "$inputs `dims` $dims", Rank_hasRows> {
  let summary = "Concatenates the members' operands along dim dims[i]";
  let description = [{
    ```mlir
    %y = rank.all_gather %x dims [0] over <#mesh, {"data"}> id 1 : (tensor<2xf32>) -> tensor<4xf32>
    ```

    1. Results have the types of the operands, but dim dims[i] is g times larger.
  }];
}
def Rank_AllToAllOp : Rank_Collective<"all_to_all", "AllToAll",
    (ins DenseI64ArrayAttr:$split, DenseI64ArrayAttr:$concat), "$inputs `split` $split `concat` $concat",
    Rank_hasRows> {
  let summary = "Block p of dim split[i] goes to member p, which concatenates along dim concat[i]";
  let description = [{
    ```mlir
    %y = rank.all_to_all %x split [0] concat [1] over <#mesh, {"data"}> id 1 : (tensor<4x2xf32>) -> tensor<2x4xf32>
    ```

    1. Results have the types of the operands, but dim split[i] is g times
       smaller and dim concat[i] g times larger; the two are different.
  }];
}
def Rank_PermuteOp : Rank_Collective<"permute", "Permute",
    (ins DenseI64ArrayAttr:$sources), "$inputs `from` $sources",
    "::llvm::ArrayRef<int64_t> getSourceMembers() { return getSources(); }"> {
  let summary = "Member p gets the operands of member sources[p]";
  let description = [{
    ```mlir
    %y = rank.permute %x from [1, 0] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
    ```

    1. Results have the types of the operands.
    2. `sources` is a permutation of [0, g).
  }];
}
def Rank_HaloOp : Rank_Collective<"halo", "Halo",
    (ins DenseI64ArrayAttr:$dims, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high),
    "$inputs `dims` $dims `low` $low `high` $high", Rank_hasRows> {
  let summary = "Each member's block with the low[i] elements before it and the high[i] after it in dim dims[i]";
  let description = [{
    The members' operands are adjacent blocks along dim dims[i]; elements outside of
    them are not written.

    ```mlir
    %y = rank.halo %x dims [0] low [1] high [2] over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<7xf32>
    ```

    1. Results have the types of the operands, but dim dims[i] is low[i] +
       high[i] larger.
    2. Borders are not negative.
  }];
}
def Rank_HaloAddOp : Rank_Collective<"halo_add", "HaloAdd",
    (ins DenseI64ArrayAttr:$dims, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high),
    "$inputs `dims` $dims `low` $low `high` $high", 
    !strconcat(Rank_hasRows,
               "::polyrank::runtime::Reduction getReduction() { return ::polyrank::runtime::Reduction::Sum; }")> {
  let summary = "The transpose of halo: the members' widened blocks are added where they overlap, in group order";
  let description = [{
    ```mlir
    %y = rank.halo_add %x dims [0] low [1] high [2] over <#mesh, {"data"}> id 1 : (tensor<7xf32>) -> tensor<4xf32>
    ```

    1. Results have the types of the operands, but dim dims[i] is low[i] +
       high[i] smaller.
    2. Borders are not negative.
  }];
}
def Rank_BroadcastOp : Rank_Collective<"broadcast", "Broadcast", (ins), "$inputs"> {
  let summary = "Every member gets the operands of member 0";
  let description = [{
    ```mlir
    %y = rank.broadcast %x over <#mesh, {"data"}> id 1 : (tensor<4xf32>) -> tensor<4xf32>
    ```

    1. Results have the types of the operands.
  }];
}

#endif
