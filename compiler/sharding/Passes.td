// The sharding passes: from constraints to collectives.
//
// A pass without `dependentDialects` makes no ops, types or attributes.

#ifndef POLYRANK_SHARDING_PASSES_TD
#define POLYRANK_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def ApplyStrategy : Pass<"apply-strategy", "::mlir::ModuleOp"> {
  let summary = "Write the user's constraints into the program";
  let description = [{
    Writes `sharding.constraint` on the arguments of @step and on the ops that
    compute a module's output: the layout that each shall have, and from which
    text of the user it comes. propagate-layouts extends these to all tensors.
    The mesh is the module's attribute `sharding.mesh`.

    A constraint is PATTERN=DIMS, with @PRIORITY or without:

    ```
    *.c_fc.weight=[-,tensor]                  parameters, and inputs, by name
    out(transformer.h.*.ln_*)=[data,tensor,-] outputs of modules
    wte.weight=[data+tensor,?]@1              two axes on one dim; an open dim
    ```

    PATTERN is a glob over names in which leading modules may be left out. DIMS
    has one entry for each dim: `-` not split, `?` as propagation likes, or axes
    of the mesh, major to minor, joined by `+`. Where two constraints conflict,
    the one of the smaller PRIORITY (0 to 6, by default 0) is kept; of two that
    name the same tensor with the same priority, the last one. A remark says so.

    A pattern on a parameter speaks of its dims as they are stored. Where the
    program uses a view of it, such as [768, 3, 12, 64] of [768, 2304], an axis
    goes to the most major factor of the stored dim that is never sliced, and
    before others to one that is a batch dim of attention (whole heads). A dim of
    a parameter that the axis does not divide is padded with zeros. Remarks say
    which.

    The axes `batch-axes` split the batch (dim 1) of every input that no pattern
    names, less important than all that the user wrote. A batch is not padded.

    Errors name the pattern: it matches nothing, has another number of dims, an
    unknown or repeated axis, or more blocks than the dim has elements; and a
    batch that the axes do not divide; and an axis of the mesh that nothing uses.
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
    Each axis spreads from the constraints along the dims that the sharding
    rules of ops say are the same, which gives each op a few layouts to choose
    from. One is chosen for each op so that the following is least, the first
    number first:

    1. violations, the most important level of constraints first: ops that an
       axis reaches but that are not split over it, and uses of a parameter in
       another layout than the user fixed;
    2. the bytes that one device sends in a step;
    3. the FLOPs of one device in a step;
    4. ops that pass a partial value on: among equals a partial value is reduced
       where it is made;
    5. a number drawn from the structure of the program, which makes the choice
       unique whatever the order of its ops.

    Where producer and user of a value disagree, a `sharding.reshard` stands
    between them, and says `why`. The function's attribute `sharding.objective`
    keeps the first three numbers of the choice, and a lower bound of them.
    Constraints are erased.
  }];
  let dependentDialects = ["::polyrank::sharding::ShardingDialect"];
  let options = [
    Option<"report", "report", "bool", "false", "Print the objective and its lower bound">
  ];
}

def Recompute : Pass<"recompute", "::mlir::func::FuncOp"> {
  let summary = "Let the backward compute again what the forward would keep for it";
  let description = [{
    Activation checkpointing (Chen et al., Training Deep Nets with Sublinear
    Memory Cost, 2016). Ops of the forward are built again in front of the first
    op of the backward that reads their result; what they take of what is kept,
    they take behind `graph.after`. Random ops draw the same numbers again, since
    these are a function of counters.

    With `full` the forward is cut into segments: the instances of a repeated
    block (`transformer.h.3`), or, in a model without blocks, about as many as
    the square root of the number of values that it keeps. With patterns the
    segments are the modules that they name. What leaves a segment is kept; the
    ops within may be computed again. With `selective` there are no segments: an
    op may be computed again where that takes few FLOPs for each byte of its
    result. What communicates is computed again only with `gathers`.

    Of all ways to keep enough for the backward, the one that keeps the fewest
    bytes is chosen, and of several such the one that computes least
    again: a minimum cut between what must be kept and what the backward reads. A
    remark says how many bytes that saves, and what it costs.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
  let options = [
    Option<"what", "what", "std::string", "\"none\"", "none, full, selective, or PATTERN[,PATTERN] of modules">,
    Option<"gathers", "gathers", "bool", "false", "Communicate again too">
  ];
}

def MarkPhases : Pass<"mark-phases", "::mlir::func::FuncOp"> {
  let summary = "Write down which ops are of the backward, and which of the update";
  let description = [{
    As `graph.phase`, before `shard-updates` erases the `graph.gradient` ops from
    which it follows.
  }];
}

def ShardUpdates : Pass<"shard-updates", "::mlir::func::FuncOp"> {
  let summary = "Each device keeps and updates its part of a parameter (ZeRO)";
  let description = [{
    Stage 1: where the gradient of a parameter (`graph.gradient`) is a partial sum
    over some axes, these become the most minor ones of a dim of the gradient, of
    the state and of all ops on each element between, and the new parameter is
    gathered. That moves as much as reducing the gradient whole. A tensor whose
    first dim does not divide is updated as a row. State keeps the split layout.
    What else depends on gradients, such as their norm, is laid out again, with
    the layouts around it as they are.

    Stage 2: the gradient of each microbatch is reduced, and the sum over them is
    split as the state is.

    Stage 3: the parameter is split as the state is, and gathered where it is
    used: in front of its first use in the forward, and again in front of the
    first one in the backward, where `graph.after` keeps the two apart.
    Parameters that are not trained are split over the axes that split the inputs.

    What cannot be split is said. `graph.gradient` ops are erased.
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
    Propagation leaves such an op whole, between reshards that gather what it
    takes and split what it gives, and marks the three `sharding.composite`. Its
    parts are laid out as their neighbours want; the reshards around go.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::sharding::ShardingDialect"];
}

def PlanReshards : Pass<"plan-reshards", "::mlir::func::FuncOp"> {
  let summary = "Lower each sharding.reshard to the cheapest sequence of collectives";
  let description = [{
    Of all sequences of movements from the one layout to the other it is the
    one that takes the least time under the alpha-beta model: a collective takes
    a latency for each of its rounds, and the bytes that a device sends over a
    bandwidth, both those of the slowest mesh axis that takes part. What a device
    does alone takes no time. Each op of the sequence keeps the reshard's `why`.
  }];
  let dependentDialects = ["::polyrank::sharding::ShardingDialect"];
  let options = [
    ListOption<"links", "link", "std::string",
      "AXIS=MICROSECONDS:GB_PER_S, latency and bandwidth along a mesh axis; 10:10 where nothing is said">
  ];
}

def BucketCollectives : Pass<"bucket-collectives", "::mlir::func::FuncOp"> {
  let summary = "Merge reductions of gradients, and gathers of parameters, over the same axes into buckets";
  let description = [{
    In the step and in its microbatches. A bucket of gradients, or of new
    parameters, stands where its last member stood. Parameters that are gathered
    where they are used are gathered where the first of a bucket is needed, in
    the forward and in the backward; so many at once have no more bytes than the
    largest of them.

    Buckets of gradients fill in the order in which the backward makes them. The
    first one over the same axes holds less (`first`), so that it is full, and can
    be reduced, soon after the backward has begun.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::sharding::ShardingDialect"];
  let options = [
    Option<"megabytes", "mb", "std::string", "\"25\"",
           "The most that a bucket holds, in MiB: 25 for all kinds, or all-gather=50,reduce-scatter=25,first=1">
  ];
}

def CheckPartition : Pass<"check-partition", "::mlir::func::FuncOp"> {
  let summary = "State what holds of a partitioned program";
  let description = [{
    The verifier proves of each op on its own that a device can compute its part.
    What is left to say of the whole:

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
    axes and with how many bytes, the ops that give the value and those that take
    it, each with its layout, and the constraint of the user that forced the
    change. Layers that are alike are one entry. Then the products that every
    device of an axis computes whole, because no constraint reaches them, where
    they are at least one percent of the step's FLOPs. For example:

    ```
    2 x all_reduce over tensor, 64 bytes each
        matmul 'h.[0-1].up' gives [-,-] partial sum over tensor
        add 'h.[0-1].sum' takes [-,-]
        because of up=[tensor,-]
    matmul 'head' is replicated over tensor: no constraint reaches it (32% of the step's FLOPs)
    ```

    Changes nothing.
  }];
}

#endif
