// The passes from a partitioned step to a program of one device.

#ifndef POLYRANK_LOWERING_PASSES_TD
#define POLYRANK_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def Localize : Pass<"localize", "::mlir::ModuleOp"> {
  let summary = "From global tensors with layouts to the tensors of one device";
  let description = [{
    Builds each function anew in local shapes: graph ops by their `localize`,
    `shard` ops as collectives or local ops of the rank dialect, coordinates as
    `rank.axis_index`. Arguments and results keep their attributes and record
    their global types as `rank.global`. Collectives are numbered in program
    order: an id is equal on all devices.

    Needs a partitioned program: no `shard.reshard`, every tensor with a layout,
    or none at all (one device).
  }];
  let dependentDialects = ["::polyrank::rank::RankDialect"];
}

def FormSegments : Pass<"form-segments", "::mlir::ModuleOp"> {
  let summary = "Cuts the microbatch region into a first one and the rest";
  let description = [{
    `graph.microbatches` becomes `rank.microbatches`: in `first` the sums start,
    in `rest` they are added to. What stands before and after is the prologue
    and the update.
  }];
  let dependentDialects = ["::polyrank::rank::RankDialect"];
}

def FormGemms : Pass<"form-gemms", "::mlir::ModuleOp"> {
  let summary = "Contractions become library calls";
  let description = [{
    `graph.attention` and its gradient are decomposed first. Each `graph.matmul`
    becomes a `rank.gemm`. Reshapes, transposes, slices and broadcasts of its
    operands become strides, as do reshapes and transposes of its only use;
    where no call can read an operand so, it is transposed by a kernel first. A
    factor applied to the only use becomes `alpha`; a sum of the result with a
    microbatch accumulator, or with another product that has no other use,
    becomes the `add` operand, and so happens in place.
  }];
  let dependentDialects = ["::polyrank::rank::RankDialect"];
}

#endif
