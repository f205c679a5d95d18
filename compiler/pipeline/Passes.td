// The passes that cut a model into the stages of a pipeline.

#ifndef POLYRANK_PIPELINE_PASSES_TD
#define POLYRANK_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignStagesPass : Pass<"assign-stages", "::mlir::ModuleOp"> {
  let summary = "Cuts @forward into stages of about equal time";
  let description = [{
    Runs on @forward when its loss is attached, in front of build-step. There are
    `ranks` times `chunks` stages. Each op that depends on a parameter gets the
    number of its stage, `pipeline.stage`, which is never below that of an op
    whose result it takes. What depends on inputs and constants alone, such as a
    mask, gets none: each stage that needs it computes it.

    ```mlir
    %0 = graph.matmul %x, %w0 .. {pipeline.stage = 0 : i64}
    %1 = graph.tanh %0        .. {pipeline.stage = 0 : i64}
    %2 = graph.matmul %1, %w1 .. {pipeline.stage = 1 : i64}
    ```

    The module gets `pipeline.axis`, `pipeline.schedule` and
    `pipeline.coordinates`: stage k is at coordinate k mod `ranks` of the axis, or
    with zero-bubble-v at 0, 1, .., ranks - 1 and back.

    PATTERN=K of `patterns` puts what PATTERN names on stage K: modules with all
    that is in them, or single ops. The last pattern that names an op holds. The
    rest is cut where it is best: the time of the slowest stage, with its
    transfers, is the least possible for the order of the ops; of these cuts the
    one whose values that cross have the fewest bytes, and then the one whose
    stage with the most memory needs least. A remark says what each stage has,
    the time, its lower bound and the gap.

    An op takes the larger of FLOPs / rate and bytes / rate. With `train` its
    backward is added: of a product once more for each operand that has a
    gradient, of other ops once more; a value that crosses has a gradient that
    comes back, and memory has weights, gradients and two states of the optimizer
    beside what microbatches in flight keep.
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
    Option<"microbatches", "microbatches", "int64_t", "1", "of one step">,
    ListOption<"links", "links", "std::string", "AXIS=MICROSECONDS:GB_PER_S: latency and bandwidth along an axis">,
    Option<"rates", "rates", "std::string", "\"\"", "GFLOPS:GB_PER_S: what a rank reaches; without this what the target says">,
    Option<"threads", "threads", "int64_t", "1", "Threads of a rank">
  ];
}

#endif
