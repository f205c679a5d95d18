// The sharding passes: from constraints to collectives.
//
// A pass without `dependentDialects` creates no ops, types or attributes.

#ifndef POLYRANK_SHARDING_PASSES_TD
#define POLYRANK_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def ApplyStrategy : Pass<"apply-strategy", "::mlir::ModuleOp"> {
  let summary = "Write the user's constraints into the program";
  let description = [{
    Writes `sharding.constraint` on the arguments of @step and on the ops that
    compute a module's output: the required layout, and the user's text that
    requires it. propagate-layouts extends these to all tensors.
    The mesh is the module's attribute `sharding.mesh`.

    A constraint is PATTERN=DIMS, with @PRIORITY or without:

    ```
    *.c_fc.weight=[-,tensor]                  parameters, and inputs, by name
    out(transformer.h.*.ln_*)=[data,tensor,-] outputs of modules
    wte.weight=[data+tensor,?]@1              two axes on one dim; an open dim
    ```

    PATTERN is a glob over names in which leading modules may be left out. DIMS
    has one entry for each dim: `-` not split, `?` as propagation likes, or axes
    of the mesh, major to minor, joined by `+`. If two constraints conflict, the
    one with the smaller PRIORITY (0 to 6, by default 0) is kept; of two on the
    same tensor with the same priority, the last one. A remark names both.

    A pattern on a parameter refers to its stored dims. If the program uses a
    view of it, such as [768, 3, 12, 64] of [768, 2304], an axis splits the most
    major factor of the stored dim that is never sliced; factors that are batch
    dims of attention (whole heads) take precedence. A dim of a parameter that
    the axis does not divide is padded with zeros. Remarks name the dims.

    The axes `batch-axes` split the batch (dim 1) of every input that no pattern
    names, with less priority than all that the user wrote. A batch is not
    padded.

    It is an error if a pattern matches nothing, has another number of dims, an
    unknown or repeated axis, or more blocks than the dim has elements; if the
    axes do not divide the batch; and if nothing uses an axis of the mesh.
  }];
  let dependentDialects = ["::polyrank::sharding::ShardingDialect"];
  let options = [
    ListOption<"shards", "shard", "std::string", "PATTERN=DIMS">,
    Option<"file", "shard-file", "std::string", "\"\"", "A file of PATTERN=DIMS, one a line">,
    Option<"batchAxes", "batch-axes", "std::string", "\"\"", "What splits the batch, A+B; by default replica and data">
  ];
}

def PropagateLayouts : Pass<"propagate-layouts", "::mlir::func::FuncOp"> {
  let summary = "Extend the constraints to a layout of every tensor";
  let description = [{
    Each axis spreads from the constraints along the dims that correspond by the
    ops' sharding rules, which gives each op a few candidate layouts. One is
    chosen for each op so that the following numbers are least, compared in this
    order:

    1. violations, the most important level of constraints first: ops that an
       axis reaches but that are not split over it, and uses of a parameter in
       another layout than the user fixed;
    2. the bytes that one device sends in a step;
    3. the FLOPs of one device in a step;
    4. ops that pass a partial value on: among equals a partial value is reduced
       at its producer;
    5. a hash of the layouts and the structure of the program, which makes the
       choice unique whatever the order of its ops.

    If producer and user of a value disagree, a `sharding.reshard` is inserted
    between them, with its reason `why`. The function's attribute
    `sharding.objective` records the first three numbers of the choice and a
    lower bound for them. Constraints are erased.
  }];
  let dependentDialects = ["::polyrank::sharding::ShardingDialect"];
  let options = [
    Option<"report", "report", "bool", "false", "Print the objective and its lower bound">
  ];
}

def Recompute : Pass<"recompute", "::mlir::func::FuncOp"> {
  let summary = "Let the backward recompute what the forward would keep for it";
  let description = [{
    Activation checkpointing (Chen et al., Training Deep Nets with Sublinear
    Memory Cost, 2016). Ops of the forward are cloned before the first op of the
    backward that reads their result; the clones read kept values through
    `graph.after`. Random ops draw the same numbers again, since these are a
    function of counters.

    With `full` the forward is cut into segments: the instances of a repeated
    block (`transformer.h.3`), or, in a model without blocks, about as many as
    the square root of the number of values to keep. With patterns the segments
    are the modules that they name. Values that leave a segment are kept; the ops
    within it may be recomputed. With `selective` there are no segments: an op
    may be recomputed if that takes few FLOPs per byte of its result.
    Communication is repeated only with `gathers`.

    Of all choices of kept values that suffice for the backward, the one with the
    fewest bytes is used, and of several such the one that recomputes least: a
    minimum cut between what must be kept and what the backward reads. A remark
    says how many bytes that saves and how many FLOPs it costs.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
  let options = [
    Option<"what", "what", "std::string", "\"none\"", "none, full, selective, or PATTERN[,PATTERN] of modules">,
    Option<"gathers", "gathers", "bool", "false", "Communicate again too">
  ];
}

def MarkPhases : Pass<"mark-phases", "::mlir::func::FuncOp"> {
  let summary = "Mark the ops of the backward and those of the update";
  let description = [{
    Sets `graph.phase`. Runs before `shard-updates`, which erases the
    `graph.gradient` ops from which the phase is derived.
  }];
}

def ShardUpdates : Pass<"shard-updates", "::mlir::func::FuncOp"> {
  let summary = "Each device keeps and updates its part of a parameter (ZeRO)";
  let description = [{
    Stage 1: if the gradient of a parameter (`graph.gradient`) is a partial sum
    over some axes, these become the most minor axes of a dim of the gradient, of
    the state and of the elementwise ops between them, and the new parameter is
    gathered. That moves as many bytes as all-reducing the gradient. A tensor
    whose first dim does not divide is updated as a row of all its elements. The
    state keeps the split layout. Other ops that depend on gradients, such as
    their norm, are laid out again between their neighbours' layouts.

    Stage 2: the gradient of each microbatch is reduced, and the sum over
    microbatches is split like the state.

    Stage 3: the parameter is split like the state, and gathered where it is
    used: before its first use in the forward, and again before the first use in
    the backward, where `graph.after` prevents that the two are merged.
    Parameters that are not trained are split over the axes that split the inputs.

    Remarks name what cannot be split. `graph.gradient` ops are erased.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::sharding::ShardingDialect"];
  let options = [
    Option<"stage", "stage", "int64_t", "1",
      "ZeRO stage: 0 leaves all whole">,
    Option<"axes", "axes", "std::string", "\"\"",
      "A+B: the axes instead of those over which the gradient is partial">,
    Option<"threshold", "threshold", "int64_t", "65536",
      "A parameter of which a device has fewer elements is left whole">,
    Option<"accumulate", "accumulate", "std::string", "\"parts\"",
      "In stages 2 and 3: parts, or full to reduce the sum of all microbatches once">,
    Option<"gatherWhen", "gather", "std::string", "\"use\"",
      "In stage 3: use, step, or keep=PATTERN[,PATTERN]: what is gathered once a step, or once a microbatch">
  ];
}

def DecomposeComposites : Pass<"decompose-composites", "::mlir::func::FuncOp"> {
  let summary = "Replace composites that are split on a composite factor by their parts";
  let description = [{
    Propagation leaves such an op whole, between reshards that gather its operands
    and split its results, and marks the op and the reshards with
    `sharding.composite`. This pass lays out the op's parts as their neighbours
    want, and removes the reshards.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::sharding::ShardingDialect"];
}

def PlanReshards : Pass<"plan-reshards", "::mlir::func::FuncOp"> {
  let summary = "Lower each sharding.reshard to the cheapest sequence of collectives";
  let description = [{
    Chooses, of all sequences of movements from one layout to the other, the one
    that takes the least time under the alpha-beta model: a collective takes a
    latency for each of its rounds, plus the bytes that a device sends divided by
    a bandwidth, both of the slowest mesh axis that takes part, by the links of the
    module's machine (`rank.machine`). Ops without communication take no time. Each
    op of the sequence keeps the reshard's `why`.
  }];
  let dependentDialects = ["::polyrank::sharding::ShardingDialect"];
}

def BucketCollectives : Pass<"bucket-collectives", "::mlir::func::FuncOp"> {
  let summary = "Merge reductions of gradients, and gathers of parameters, over the same axes into buckets";
  let description = [{
    Buckets are formed in the step and in its microbatches. A bucket of gradients,
    or of new parameters, stands where its last member stood. A bucket of
    parameters that are gathered where they are used stands where its first
    member is needed, in the forward and in the backward; it holds no more bytes
    than the largest such parameter.

    Buckets of gradients fill in the order in which the backward computes these.
    The first bucket over some axes holds less (`first`), so that it is full, and
    can be reduced, soon after the backward has begun.

    With `mb=auto` there are no sizes: each bucket ends where the clock of the
    module's machine says (`compiler/sharding/BucketClock.h`).
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect",
                           "::polyrank::sharding::ShardingDialect"];
  let options = [
    Option<"megabytes", "mb", "std::string", "\"25\"",
           "The most that a bucket holds, in MiB: 25 for all kinds, or all-gather=50,reduce-scatter=25,first=1; or auto">
  ];
}

def CheckPartition : Pass<"check-partition", "::mlir::func::FuncOp"> {
  let summary = "Check the invariants of a partitioned program";
  let description = [{
    The verifier proves for each single op that a device can compute its part.
    This pass checks the invariants of the whole function:

    P1. Every tensor has a layout, on one mesh.
    P2. Nothing is left to decompose or to plan: no composite that is marked
        `sharding.composite`, no `sharding.reshard`.
    P3. Arguments and results of the function are not partial: a device that
        holds a part of a sum would update its part.
    P4. The padding of parameters and state holds zeros.
    P5. Result i has the type of parameter or state i, whose buffer it takes.
  }];
}

def PrintWhy : Pass<"print-why", "::mlir::ModuleOp"> {
  let summary = "Print what moves, and the ops and constraints that forced it";
  let description = [{
    For each collective of a function: how often it runs in a step, over which
    axes and with how many bytes, the producers and the users of the value, each
    with its layout, and the constraint of the user that forced the change. Layers
    that are alike are one entry. Then the matrix products of at least one percent
    of the step's FLOPs that every device of an axis computes whole, because no
    constraint reaches them. For example:

    ```
    2 x all_reduce over tensor, 64 bytes each
        matmul 'h.[0-1].up' gives [-,-] partial sum over tensor
        add 'h.[0-1].sum' takes [-,-]
        because of up=[tensor,-]
    matmul 'head' is replicated over tensor: no constraint reaches it (32% of the step's FLOPs)
    ```

    The pass does not change the program.
  }];
}

#endif
