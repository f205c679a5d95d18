// The passes from a partitioned step to a program of one device.
//
// A pass without `dependentDialects` makes no ops, types or attributes.

#ifndef POLYRANK_LOWERING_PASSES_TD
#define POLYRANK_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def Localize : Pass<"localize", "::mlir::ModuleOp"> {
  let summary = "From global tensors with layouts to the tensors of one device";
  let description = [{
    Builds each function anew in local shapes: graph ops by their `localize`,
    `sharding` ops as collectives or local ops of the rank dialect, coordinates as
    `rank.axis_index`. Arguments and results keep their attributes and record
    their global types as `rank.global`. Collectives are numbered in program
    order: an id is equal on all devices.

    Needs a partitioned program: no `sharding.reshard`, every tensor with a layout,
    or none at all (one device).
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def ChooseOrders : Pass<"choose-orders", "::mlir::ModuleOp"> {
  let summary = "Lets tensors lie in memory in the order in which products have them";
  let description = [{
    Elementwise ops, reductions, windows, pads, slices and the other ops of
    shapes work in any order of dims. Where transposes stand between them and
    ops that do not, as around the product of each convolution, all of them take
    the order that the largest of these products has, so that the transposes
    cancel each other: the activations of a convolutional network lie in memory
    as [N, H, W, C]. A region of ops is changed only where fewer elements are
    transposed then. Sums over several dims may be added up in another order.
  }];
  let options = [
    Option<"always", "always", "bool", "false",
           "Change regions that gain nothing too: for tests">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect"];
}

def FormSegments : Pass<"form-segments", "::mlir::ModuleOp"> {
  let summary = "Cuts microbatches into segments, and says in which order they run";
  let description = [{
    A `graph.microbatches` becomes a `rank.microbatches`: segments, and a
    schedule of which of them runs for which microbatch. As a rule a microbatch
    is one segment. With `ahead` it is two, its forward and its backward (what
    the backward computes, and what reads it): so many microbatches go forward,
    then one goes backward and another one forward, in turn. What the forward
    computes and the backward reads is stashed, in as many slots as the schedule
    needs; constants, reshapes and broadcasts are made again instead.

    The first run of a segment that adds to sums starts them, and is a segment of
    its own. The last run of the schedule stands behind the loop, in one block
    with the update, so that a gradient can be reduced as soon as its sum is
    final, while the backward goes on. However many microbatches there are, the
    program has the same size.
  }];
  let options = [
    Option<"ahead", "ahead", "int64_t", "0",
           "Microbatches that go forward before one goes backward; 0: a microbatch is not cut">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def FormLoops : Pass<"form-loops", "::mlir::ModuleOp"> {
  let summary = "Scans become loops of commands";
  let description = [{
    A `graph.scan` becomes a `rank.loop`, in which the passes behind it form
    products and kernels as elsewhere. Stacks and carried values that nobody
    reads are left out; a scan of one iteration is its body. A matrix that all of
    eight iterations or more multiply with is transposed in front of the loop
    where the library would do so in each iteration.
  }];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
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
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def ChooseGemms : Pass<"choose-gemms", "::mlir::ModuleOp"> {
  let summary = "Names the library call that computes each product";
  let description = [{
    Every `rank.gemm` gets the `call` that the target chooses, for a team of
    `threads`. It may run large ones on this machine to find the fastest; with
    `measure=false` it takes what usually is, so that the choice is the same each
    time. (Of a CPU: `#rank.cpu_call`, chosen in
    `compiler/target/cpu/ChooseCalls.h`.)
  }];
  let options = [
    Option<"threads", "threads", "int64_t", "1", "Threads of a rank">,
    Option<"measure", "measure", "bool", "true", "Run large products to choose">
  ];
  let dependentDialects = ["::polyrank::rank::RankDialect"];
}

def AssignBuffers : Pass<"assign-buffers", "::mlir::ModuleOp"> {
  let summary = "Gives every value its place in the arena";
  let description = [{
    Runs when kernels are formed. Every argument and result of a function gets
    `#rank.buffer`s: `rank.buffer` on arguments, `buffers` on commands, `scratch`
    on products; the function gets `rank.arena`.

    What collectives touch lies in the shared region, all else in the private
    one. Views share the buffer of what they view; microbatches, slices of their
    operand's; a device's block of an argument, the argument's. Result i of the
    step takes the buffer of the argument that it replaces, a microbatch sum one
    buffer throughout, a gemm's result that of its addend; where a value is still needed, or comes from elsewhere, a
    `rank.copy` is inserted. A kernel's result takes the buffer of an operand
    that ends there and that its `in_place` allows; all_reduce and broadcast
    work in place likewise, and reduce_scatter and all_gather on the device's own
    block of the whole. The operands of one collective (a bucket) lie one
    behind the other where nothing else determines their places.

    What is sent to a rank that runs another function lies in a channel, a range
    of the shared region that nothing else uses: 64 bytes of counters, and a slot
    of whole lines for each value that may be on its way. All sends of one value
    (`id`) have the same one. Its place is written on the receives as well, which
    stand in the other function.

    Objective: the size of the arena. With `report`, a remark says it, the lower
    bound (the largest sum of live bytes over the command order) and the gap.
  }];
  let options = [
    Option<"threads", "threads", "int64_t", "1", "Threads of a rank: library scratch depends on it">,
    Option<"report", "report", "bool", "false", "Print the objective, its lower bound and the gap">
  ];
  let dependentDialects = ["::polyrank::graph::GraphDialect", "::polyrank::rank::RankDialect"];
}

def CheckBuffers : Pass<"check-buffers", "::mlir::ModuleOp"> {
  let summary = "Every read finds the value that was written";
  let description = [{
    Runs the commands of a step symbolically over the arena: each write puts a
    value's name into its bytes, each read must find it in all of them, in the
    first microbatch, in the second and in the third, and in a second step; as
    the devices that are first, in the middle or last along each axis over which
    blocks lie at different places. It trusts neither lifetimes nor the packing.
    Also: bytes outside the arena, buffers of another size than their value,
    collectives on private bytes, results and scratch of a command that overlap,
    or overlap what it reads where it must not.

    The channels of what is sent are aligned to 64 bytes and meet no other bytes
    that are used, each value has one, and who receives it names the same one.
  }];
}

def CheckRanks : Pass<"check-ranks", "::mlir::ModuleOp"> {
  let summary = "The communication of all ranks agrees and ends";
  let description = [{
    Runs the programs of all ranks symbolically, one segment after another: a
    collective happens when all members of its group have started it, a wait
    returns when that has happened, and a start that is beyond what a transport
    can have in flight (16 of a group) first waits for older ones. All members
    must come with the same id, kind, sizes and group, each start needs one wait
    in its segment, and every rank must reach the segment's end. An error shows
    the shortest counterexample: ranks that wait for each other in a circle, each
    with its command.

    Ranks that run one program do the same at the same time, so one of them is
    run for all: how many ranks there are costs nothing
    (runtime/progress/CheckPrograms.h).

    Functions of different places (`rank.at`) are run together, from a step's
    begin to its end, each by its own schedule
    (compiler/lowering/PipelinePrograms.h). A receive waits for the next value of
    its id, and a send while no slot of its channel is free. Both ends must be of
    one type, with one number of slots, and move the values of one microbatch
    after the other in the same order. What stands outside of the microbatches moves
    the value of the first one that these do not. Each function does so once for a
    microbatch, at an end that is that of its ranks. A step leaves all channels
    empty, so one that ends can be followed by any number.
  }];
}

def ReportPipeline : Pass<"report-pipeline", "::mlir::ModuleOp"> {
  let summary = "How long a step of a pipeline takes by its schedule";
  let description = [{
    A remark with the time of a step, a lower bound that no schedule of these
    stages is below (compiler/stage_order/Simulate.h), what it costs that updates
    wait for all stages, and of each coordinate the share of the step in which it
    stands and the microbatches that it holds at once.
  }];
  let options = [
    ListOption<"links", "links", "std::string", "AXIS=MICROSECONDS:GB_PER_S: latency and bandwidth along an axis">,
    Option<"rates", "rates", "std::string", "\"\"", "GFLOPS:GB_PER_S: what a rank reaches; without this what the target says">,
    Option<"threads", "threads", "int64_t", "1", "Threads of a rank">
  ];
}

#endif
