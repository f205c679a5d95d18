// The passes that order the commands of a rank.
//
// A pass without `dependentDialects` creates no ops, types or attributes.

#ifndef POLYRANK_SCHEDULE_PASSES_TD
#define POLYRANK_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def OrderCommands : Pass<"order-commands", "::mlir::ModuleOp"> {
  let summary = "Moves computation to where a rank would wait for a reduction";
  let description = [{
    Runs after all commands are formed, before start-collectives. Where a reduction
    takes longer than the commands between its operands and its first use,

    - commands before it whose results are used only after it are deferred until it
      has started: the GEMM for a weight's gradient then comes after the reduction
      of the input's gradient that tensor parallelism waits for,
    - and then commands after its first use that do not depend on it are moved
      before that use.

    Only commands within a distance of 128 are candidates. What each command
    computes stays the same, so results keep their bits. Sends and receives keep
    their order. Nothing after a send is moved before it, since another rank waits
    for the send, and nothing before a receive is deferred past it, since it fills
    the time until the value arrives. No move is made that would increase the peak
    memory of values, or that would force a copy because a value is overwritten
    before its last reader; and no move at all is made if the simulated time does
    not get shorter.

    Objective: the makespan on the timeline that start-collectives uses, with
    gathers prefetched. With `report`, a remark states the makespan before and
    after, the lower bound and the gap, and the peak bytes of values.
  }];
  let options = [
    Option<"report", "report", "bool", "false", "Print the objective, its lower bound and the gap">
  ];
}

def StartCollectives : Pass<"start-collectives", "::mlir::ModuleOp"> {
  let summary = "Starts collectives early, and waits for them late";
  let description = [{
    Runs after all commands are formed, before buffers are assigned. A collective
    that has something to overlap with is started (its results become
    `!rank.pending`) and a `rank.wait` gives the results:

    - A collective whose results are no larger than its operands, such as a
      reduction of gradients, is started as soon as its operands are there. All
      ranks wait for it at its first use or, if its operands occupy memory of their
      own until then, as soon as it should have ended.
    - A collective whose results are larger, such as a gather of parameters, is
      started just early enough to have ended at its first use, but not before the
      first use of the gather `prefetch` places earlier. `prefetch=0` starts none
      early.

    The time at which a command ends is read from a timeline
    (compiler/overlap/Timeline.h): commands take their time by the rates of the
    module's machine (`rank.machine`), and collectives by the alpha-beta model of its
    links, one after another on each group's queue. Commands keep the order that
    order-commands gave them, and results their bits. At most 8 collectives of each
    group are in flight.

    Functions of different places (`rank.at`) are handled one by one, on timelines
    in which no rank waits for what another function sends. A collective among ranks
    of several functions is not moved, nor are sends and receives: all functions
    agree on their order. Collectives among the ranks of one function may be moved
    past them, since these ranks are always at the same command.

    With `report`, a remark states the time of a step on that timeline, the lower
    bound (the time of all computation, and of all communication of each group), the
    gap, and the time of a step with nothing overlapped.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", "1", "Gathers that are started ahead of the one in use">,
    Option<"report", "report", "bool", "false", "Print the objective, its lower bound and the gap">
  ];
  let dependentDialects = ["::polyrank::rank::RankDialect"];
}

#endif
