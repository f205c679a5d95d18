// The passes that cut a model into the stages of a pipeline.

#ifndef POLYRANK_PIPELINE_PASSES_TD
#define POLYRANK_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def InsertTransfers : Pass<"insert-transfers", "::mlir::ModuleOp"> {
  let summary = "From ops that say their stage to values that go from one stage to another";
  let description = [{
    Each value of @forward that an op of another stage needs goes there by one
    `pipeline.transfer`, however many ops need it: activations and skip
    connections alike. What depends on no parameter (masks, positions) does not:
    each stage that needs it computes it.

    A parameter is on the first stage that uses it, which `graph.stage` of its
    `graph.parameter` says; other stages get its value. What a mean is over is
    counted where its sum is.
  }];
  let dependentDialects = ["::polyrank::pipeline::PipelineDialect"];
}

def JoinStages : Pass<"join-stages", "::mlir::ModuleOp"> {
  let summary = "Numbers that the update needs of several stages, or of another one";
  let description = [{
    A sum of numbers of several stages (the norm of all gradients) becomes one sum
    for each stage and a `pipeline.join` of these. Another number that a stage
    needs of another one (a count, a factor) is joined alone, so that all stages
    have it, and each computes what follows from it.
  }];
  let dependentDialects = ["::polyrank::pipeline::PipelineDialect"];
}

def MarkStages : Pass<"mark-stages", "::mlir::func::FuncOp"> {
  let summary = "Writes down on which stage each op is (`graph.stage`)";
}

def PlaceValues : Pass<"place-values", "::mlir::func::FuncOp"> {
  let summary = "Writes where each value lives along the pipe axis into its layout";
  let description = [{
    The last pass of a partition: those before it neither split anything over the
    pipe axis nor look at it. What is joined becomes partial over the axis, and is
    reduced at once.

    ```mlir
    %y = pipeline.transfer %x from 0 to 1 : tensor<8xf32, #sharding.layout<#mesh, [{} ], at {"pipe" = 0}>> -> tensor<8xf32, #sharding.layout<#mesh, [{} ], at {"pipe" = 1}>>
    ```
  }];
  let dependentDialects = ["::polyrank::pipeline::PipelineDialect", "::polyrank::sharding::ShardingDialect"];
}

#endif
