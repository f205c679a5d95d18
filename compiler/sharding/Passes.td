// The sharding passes: from constraints to collectives.

#ifndef POLYRANK_SHARDING_PASSES_TD
#define POLYRANK_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def ApplyStrategy : Pass<"apply-strategy", "::mlir::ModuleOp"> {
  let summary = "Write the user's constraints into the program";
  let description = [{
    See Strategy.h for what it writes and ShardPattern.h for the grammar. The
    mesh is the module's attribute `sharding.mesh`.
  }];
  let options = [
    ListOption<"shards", "shard", "std::string", "PATTERN=DIMS">,
    Option<"file", "shard-file", "std::string", "\"\"", "A file of PATTERN=DIMS, one a line">,
    Option<"batchAxes", "batch-axes", "std::string", "\"\"", "What splits the batch, A+B; by default replica and data">
  ];
}

def PropagateLayouts : Pass<"propagate-layouts", "::mlir::func::FuncOp"> {
  let summary = "Extend the constraints to a layout of every tensor";
  let description = [{
    See Propagation.h. Where producer and user of a value disagree a
    `sharding.reshard` says `why`. The function's attribute `sharding.objective` keeps
    what was minimised, with a lower bound.
  }];
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
    they take behind `graph.after`. See RecomputeChoice.h for what is kept. Random
    ops draw the same numbers again, since these are a function of counters.
  }];
  let options = [
    Option<"what", "what", "std::string", "\"none\"", "none, full, selective, or PATTERN[,PATTERN] of modules">,
    Option<"gathers", "gathers", "bool", "false", "Communicate again too">
  ];
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
}

def PlanReshards : Pass<"plan-reshards", "::mlir::func::FuncOp"> {
  let summary = "Lower each sharding.reshard to the cheapest sequence of collectives";
  let description = [{
    The sequence is an exact shortest path over layouts under the alpha-beta
    model (compiler/cost). Each op of it keeps the reshard's `why`.
  }];
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
  }];
  let options = [
    Option<"megabytes", "mb", "double", "25", "The most that one bucket holds, in MiB">
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
}

#endif
