// The passes from a partitioned step to a program of one device.
//
// A pass without `dependentDialects` creates no ops, types or attributes.

#ifndef POLYRANK_LOWERING_PASSES_TD
#define POLYRANK_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def Localize : Pass<"localize", "::mlir::ModuleOp"> {
  let summary = "Lowers global tensors with layouts to the tensors of one device";
  let description = [{
    Rebuilds each function in local shapes: graph ops by their `localize`,
    `sharding` ops as collectives or local ops of the rank dialect, coordinates as
    `rank.axis_index`. Arguments and results keep their attributes and record their
    global types as `rank.global`. Collectives are numbered in program order, so a
    collective has the same id on all devices.

    Needs a partitioned program: no `sharding.reshard`, and either every tensor has
    a layout or none has (one device).
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def NormalizeCollectives : Pass<"normalize-collectives", "::mlir::ModuleOp"> {
  let summary = "Writes collectives that the target's communicator lacks as those that it has";
  let description = [{
    The target says which collectives its communicator has
    (runtime/plan/CommunicatorProperties.h). If it lacks strides, a collective along
    another dim than the first becomes one along the first, between transposes: the
    blocks of the members are then one after another in memory. If it lacks halos, the
    borders of the blocks come by a permute for each neighbour, and are concatenated
    with the block. The results have the same bits. What cannot be written as something
    else is an error.

    The communicator of ranks of one machine has everything, and the pass changes
    nothing.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def ChooseOrders : Pass<"choose-orders", "::mlir::ModuleOp"> {
  let summary = "Chooses the memory order of tensor dims that GEMMs read and write";
  let description = [{
    Elementwise ops, reductions, windows, pads, slices and the other shape ops work
    in any order of dims. Where transposes separate them from ops that do not, as
    around the product of each convolution, all of them take the order of the
    largest of these products, so that the transposes cancel: the activations of a
    convolutional network lie in memory as [N, H, W, C]. A region of ops is changed
    only if fewer elements are transposed afterwards. Sums over several dims may
    then be added in another order.
  }];
  let options = [
    Option<"always", "always", "bool", "false",
           "Change regions that gain nothing too: for tests">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
}

def FormSegments : Pass<"form-segments", "::mlir::ModuleOp"> {
  let summary = "Cuts microbatches into segments and decides the order in which they run";
  let description = [{
    A `graph.microbatches` becomes a `rank.microbatches`: segments, and a list of
    runs that says which segment runs for which microbatch. Usually a microbatch is
    one segment. With `ahead` it is two, its forward and its backward (what the
    backward computes, and what reads it): `ahead` microbatches go forward, then one
    goes backward and another one forward, alternately. A value that the forward
    computes and the backward reads is stashed, in as many slots as the runs need;
    constants, reshapes and broadcasts are recomputed instead.

    The first run of a segment that adds to sums starts them, and is a segment of
    its own. The last run is placed after the loop, in one block with the update, so
    that a gradient can be reduced as soon as its sum is final, while the backward
    continues. The size of the program does not depend on the number of
    microbatches.
  }];
  let options = [
    Option<"ahead", "ahead", "int64_t", "0",
           "Microbatches that go forward before one goes backward; 0: a microbatch is not cut">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def FormLoops : Pass<"form-loops", "::mlir::ModuleOp"> {
  let summary = "Lowers scans to loops of commands";
  let description = [{
    A `graph.scan` becomes a `rank.loop`, in which the following passes form
    products and kernels as elsewhere. Stacks and carried values that nobody reads
    are left out; a scan of one iteration is replaced by its body. A matrix that
    every iteration multiplies with is transposed before the loop if the target says
    that this is better: a CPU does where there are at least eight iterations, and
    its library would otherwise transpose the matrix in each of them.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def FormAttention : Pass<"form-attention", "::mlir::ModuleOp"> {
  let summary = "Lowers attention to library calls";
  let description = [{
    A `graph.attention` or `graph.attention_grad` becomes a `rank.attention` or
    `rank.attention_grad` where the target has such a call and it is faster than the
    parts. Reshapes, transposes and slices of its operands become strides, as do
    reshapes and transposes that are the only use of a result. What is left is
    decomposed by form-gemms.

    With `attention=fused` every attention is a call, and it is an error if the
    target has none; with `parts` none is.
  }];
  let options = [
    Option<"attention", "attention", "::polyrank::lowering::AttentionKind",
      "::polyrank::lowering::AttentionKind::Auto", "auto, fused or parts",
      [{::llvm::cl::values(
        clEnumValN(::polyrank::lowering::AttentionKind::Auto, "auto", "what the target says is faster"),
        clEnumValN(::polyrank::lowering::AttentionKind::Fused, "fused", "one call"),
        clEnumValN(::polyrank::lowering::AttentionKind::Parts, "parts", "products and kernels"))}]>
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def FormGemms : Pass<"form-gemms", "::mlir::ModuleOp"> {
  let summary = "Lowers contractions to library calls";
  let description = [{
    `graph.attention` and its gradient that are no calls are decomposed first. Each `graph.matmul`
    becomes a `rank.gemm`. Reshapes, transposes, slices and broadcasts of its
    operands become strides, as do reshapes and transposes that are the only use of
    its result; if no call can read such an operand, a kernel transposes it first. A
    factor that is the only use becomes `alpha`; a sum of the result with a
    microbatch accumulator, or with another product that has no other use, becomes
    the `add` operand, and so happens in place. Products of bf16 and f16 are added
    in f32. If they are then rounded to a narrow result, factors and sums remain ops
    of their own, which round too.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def ChooseCalls : Pass<"choose-calls", "::mlir::ModuleOp"> {
  let summary = "Chooses the library function that computes each call";
  let description = [{
    Every op that a library computes (`LibraryCallOp`, such as `rank.gemm`) gets the
    `call` that the target chooses, for as many threads as a rank of the module's
    machine has (`rank.machine`). The target may run large calls on this machine to
    find the fastest; with `measure=false` it takes the one that usually wins, so
    that the choice is the same each time. (On a CPU: `#cpu.call`, chosen in
    `compiler/target/cpu/ChooseCalls.h`.)
  }];
  let options = [
    Option<"measure", "measure", "bool", "true", "Run large calls to choose">
  ];
  let dependentDialects = ["::polyrank::rank::RankDialect"];
}

def AssignBuffers : Pass<"assign-buffers", "::mlir::ModuleOp"> {
  let summary = "Gives every value its place in the arena";
  let description = [{
    Runs after kernels are formed. Every argument and result of a function gets
    `#rank.buffer`s: `rank.buffer` on arguments, `buffers` on commands, `scratch` on
    library calls (as much as the threads of a rank need, by `rank.machine`); the
    function gets `rank.arena`.

    What collectives touch lies in the shared region, everything else in the private
    one. These share a buffer: a view and what it views; a microbatch slice and its
    operand; a device's block of an argument and the argument; result i of the step
    and the argument that it replaces; a microbatch sum in all microbatches; a
    library call's result and its addend. If the old value is still needed, or the new one
    comes from elsewhere, a `rank.copy` is inserted. A kernel's result takes the
    buffer of an operand that ends there and that its `in_place` allows; all_reduce
    and broadcast work in place likewise, and reduce_scatter and all_gather on the
    device's own block of the whole. The operands of one collective (a bucket) lie
    next to each other unless something else determines their places.

    A value on its way to a rank with another function lies in memory of the
    communicator, which is no part of the arena.

    Objective: the size of the arena. With `report`, a remark states the size, the
    lower bound (the largest sum of live bytes over the command order) and the gap.
  }];
  let options = [
    Option<"report", "report", "bool", "false", "Print the objective, its lower bound and the gap">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def CheckBuffers : Pass<"check-buffers", "::mlir::ModuleOp"> {
  let summary = "Checks that every read finds the value that was written";
  let description = [{
    Runs the commands of a step symbolically over the arena. Each write puts a
    value's name into its bytes, and each read must find that name in all of them:
    in the first, the second and the third microbatch, and in a second step; on
    devices that are first, in the middle or last along each axis over which blocks
    lie at different places. The pass trusts neither lifetimes nor the packing. It
    also rejects bytes outside the arena, buffers whose size is not that of their
    value, collectives on private bytes, and results and scratch of a command that
    overlap each other, or that overlap its operands where they must not.

    The arena, and the memory of communicators for what is sent (a slot of whole cache
    lines for each value that may be on its way), are no larger together than the
    memory that the module's machine states for a rank (`rank.machine`). One function
    sends each value that is received, with the type and from as many slots.
  }];
}

def CheckRanks : Pass<"check-ranks", "::mlir::ModuleOp"> {
  let summary = "Checks that the communication of all ranks agrees and terminates";
  let description = [{
    Runs the programs of all ranks symbolically, one segment after another. A
    collective happens when all members of its group have started it; a wait returns
    when its collective has happened; a start beyond what a communicator can have in
    flight (16 of a group) first waits for older ones. All members must agree on id,
    kind, sizes and group, each start needs one wait in its segment, and every rank
    must reach the segment's end. An error shows the shortest counterexample: ranks
    that wait for each other in a circle, each with its command.

    Ranks that run one program do the same at the same time, so one of them is run
    for all: the cost does not depend on the number of ranks
    (runtime/progress/CheckPrograms.h).

    Functions of different places (`rank.at`) are run together, from a step's begin
    to its end, each by its own schedule (compiler/lowering/PipelinePrograms.h). A
    receive waits for the next value of its id, and a send waits until a slot of its
    channel is free. Both ends must have the same type and number of slots, and move
    the values of the microbatches in the same order. A transfer outside of the
    microbatches moves the value of the first microbatch that those inside do not.
    Each function moves a value once per microbatch, at an end that belongs to its
    ranks. A step leaves all channels empty, so if one step terminates, any number
    of them do.
  }];
}

#endif
