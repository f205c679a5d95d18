// Passes that make kernels.

#ifndef POLYRANK_CODEGEN_PASSES_TD
#define POLYRANK_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormKernels : Pass<"form-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups the graph ops that are left into kernels";
  let description = [{
    Runs after localize and form-gemms. Every graph op on local tensors ends in
    a `rank.kernel`, but those that move nothing: reshapes become `rank.view`.
    Composites are taken apart and their parts fused, so that a row is read from
    memory once. Neighbours fuse where one set of loops computes both, in the
    order of the block. Fusion never changes a bit of a result. What a
    `scatter_add` is added to becomes its `init`, in place where it can: its
    updates are then added one after another, not their sum.
    Kernels that are equal up to names are one.
  }];
  let options = [
    Option<"fuse", "fuse", "bool", "true", "One kernel for several ops">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect",
                           "::polyrank::kernel::KernelDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def LowerKernels : Pass<"lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Makes loops over elements of the graph ops in kernels";
  let description = [{
    Runs after form-kernels. The body of each `rank.kernel` becomes one
    `kernel.loops` of scalar ops. The module's target then chooses how these run
    (`schedule`), and writes down what launches need of that: `range`, `grain`
    and `in_place`.
  }];
  let dependentDialects = ["::polyrank::kernel::KernelDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif
