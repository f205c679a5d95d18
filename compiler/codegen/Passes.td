// The passes that form and lower kernels.

#ifndef POLYRANK_CODEGEN_PASSES_TD
#define POLYRANK_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormKernels : Pass<"form-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups the remaining graph ops into kernels";
  let description = [{
    Runs after localize and form-gemms. Every graph op on local tensors ends in a
    `rank.kernel`, except those that move nothing: reshapes become `rank.view`.
    Composites are decomposed and their parts fused, so that a row is read from
    memory once. Neighbours are fused if one set of loops computes both, in the
    order of the block, and the target says that they are better as one kernel.
    Fusion never changes a bit of a result. Long sums are cut into parts where the
    target wants it. What a `scatter_add` is added to becomes its `init`, in place if
    possible: its updates are then added to it one after another, instead of being
    summed first. Kernels that are equal up to names are merged.
  }];
  let options = [
    Option<"fuse", "fuse", "bool", "true", "One kernel for several ops">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect",
                           "::polyrank::kernel::KernelDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def LowerKernels : Pass<"lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Lowers the graph ops in kernels to loops over elements";
  let description = [{
    Runs after form-kernels. The body of each `rank.kernel` becomes one
    `kernel.loops` of scalar ops. The module's target then chooses how these run
    (`schedule`), and which arguments' buffers results may take (`in_place`).
  }];
  let dependentDialects = ["::polyrank::kernel::KernelDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif
