// The passes that cut a model into the stages of a pipeline.

#ifndef POLYRANK_PIPELINE_PASSES_TD
#define POLYRANK_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignStages : Pass<"assign-stages", "::mlir::ModuleOp"> {
  let summary = "Cuts @forward into stages of about equal time";
  let description = [{
    Runs on @forward after its loss is attached, before build-step. There are
    `ranks` times `chunks` stages. Each op that depends on a parameter gets the
    number of its stage, `graph.stage`, which is at least that of every op whose
    result it takes. An op that depends on inputs and constants alone, such as a
    mask, gets none: each stage that needs it computes it.

    ```mlir
    %0 = graph.matmul %x, %w0 .. {graph.stage = 0 : i64}
    %1 = graph.tanh %0        .. {graph.stage = 0 : i64}
    %2 = graph.matmul %1, %w1 .. {graph.stage = 1 : i64}
    ```

    The module gets `pipeline.axis`, `pipeline.schedule` and
    `pipeline.coordinates`: stage k is at coordinate k mod `ranks` of the axis, or
    with zero-bubble-v at 0, 1, .., ranks - 1 and back.

    PATTERN=K of `patterns` puts what PATTERN names on stage K: modules with all
    that is in them, or single ops. If several patterns name an op, the last one
    holds. The rest is assigned optimally for the order of the ops: the time of the
    slowest stage, with its transfers, is the least possible; among these cuts, the
    fewest bytes cross between stages; and among these, the stage with the most
    memory needs least. A remark says what each stage has, the time, its lower bound
    and the gap.

    An op that has `stages.cost` (LaidOutCosts.h) costs that much on one device, in
    the layouts of the step, and a parameter with `stages.memory` takes that memory.
    The driver finds these numbers before this pass, which removes them. Without
    them whole tensors count: an op takes the larger of FLOPs / rate and bytes /
    rate, by the rates of the module's machine (`rank.machine`), whose link along the
    axis gives the time of transfers. With `train` its backward is added: a product takes its time again for
    each operand that has a gradient, another op takes its time once more; a value
    that crosses has a gradient that comes back; and memory holds weights, gradients
    and two optimizer states in addition to what the microbatches in flight keep.
  }];
  let dependentDialects = ["::polyrank::rank::RankDialect",
                           "::polyrank::sharding::ShardingDialect"];
  let options = [
    Option<"axis", "axis", "std::string", "\"pipe\"", "the axis of the mesh along which stages lie">,
    Option<"ranks", "ranks", "int64_t", "1", "its size">,
    Option<"chunks", "chunks", "int64_t", "1", "stages of each rank">,
    Option<"stages", "stages", "std::string", "\"auto\"", "auto, or how many: ranks times chunks">,
    ListOption<"patterns", "patterns", "std::string", "PATTERN=K: what is on stage K">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "in which order ranks run their stages">,
    Option<"train", "train", "bool", "true", "with the backward">,
    Option<"microbatches", "microbatches", "int64_t", "1", "of one step">
  ];
}

def InsertTransfers : Pass<"insert-transfers", "::mlir::ModuleOp"> {
  let summary = "Inserts transfers of the values that go from one stage to another";
  let description = [{
    Each value of @forward that an op of another stage needs goes there by one
    `pipeline.transfer`, however many ops need it: activations and skip connections
    alike. A value that depends on no parameter (a mask, positions) is not
    transferred: each stage that needs it computes it.

    A parameter is on the first stage that uses it, as `graph.stage` of its
    `graph.parameter` says; other stages receive its value. The count of a mean is
    computed on the stage of its sum.
  }];
  let dependentDialects = ["::polyrank::pipeline::PipelineDialect"];
}

def JoinStages : Pass<"join-stages", "::mlir::ModuleOp"> {
  let summary = "Joins the numbers that the update needs from several stages, or from another stage";
  let description = [{
    A sum of numbers from several stages (the norm of all gradients) becomes one sum
    for each stage and a `pipeline.join` of these. Any other number that a stage
    needs from another stage (a count, a factor) is joined alone, so that all stages
    have it, and each computes what follows from it.
  }];
  let dependentDialects = ["::polyrank::pipeline::PipelineDialect"];
}

def MarkStages : Pass<"mark-stages", "::mlir::func::FuncOp"> {
  let summary = "Writes the stage of each op as an attribute (`graph.stage`)";
}

def PlaceValues : Pass<"place-values", "::mlir::func::FuncOp"> {
  let summary = "Writes the place of each value along the pipe axis into its layout";
  let description = [{
    This is the last pass of the partition stage: the passes before it neither split
    anything over the pipe axis nor look at it. A joined value becomes partial over
    the axis and is reduced immediately.

    ```mlir
    %y = pipeline.transfer %x from 0 to 1 : tensor<8xf32, #sharding.layout<#mesh, [{} ], at {"pipe" = 0}>> -> tensor<8xf32, #sharding.layout<#mesh, [{} ], at {"pipe" = 1}>>
    ```
  }];
  let dependentDialects = ["::polyrank::pipeline::PipelineDialect", "::polyrank::sharding::ShardingDialect"];
}

#endif
