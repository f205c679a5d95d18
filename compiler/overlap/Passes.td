// Passes that order the commands of a rank in time.
//
// A pass without `dependentDialects` makes no ops, types or attributes.

#ifndef POLYRANK_SCHEDULE_PASSES_TD
#define POLYRANK_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def OrderCommands : Pass<"order-commands", "::mlir::ModuleOp"> {
  let summary = "Moves what is computed to where a rank would wait for a reduction";
  let description = [{
    Runs when all commands are formed, in front of start-collectives. Where a
    reduction takes longer than what is computed between its operands and its
    first use,

    - commands in front of it that are used only behind it are put off until it
      has started: so the product for a weight's gradient stands behind the
      reduction of the input's gradient that tensor parallelism waits for,
    - and then commands behind its first use that need nothing of that are brought
      forward.

    What is looked at is no further away than 128 commands. What each command
    computes stays the same, so results keep their bits. Sends and receives keep
    their order; nothing that stands behind a send comes in front of it, since
    another rank waits for that, and nothing in front of a receive is put off behind
    it, since it fills the time until something is there. No move is made that
    would let values take more memory at once than they did, that would have a
    value copied since it is overwritten before its last reader, and none at all
    where the simulated time does not get shorter.

    Objective: the makespan of the same timeline as start-collectives', where
    gathers are prefetched. With `report`, a remark says it, as it was and as it
    is, the lower bound and the gap, and the most bytes that values take at once.
  }];
  let options = [
    ListOption<"links", "links", "std::string", "AXIS=MICROSECONDS:GB_PER_S: latency and bandwidth along an axis">,
    Option<"rates", "rates", "std::string", "", "GFLOPS:GB_PER_S: what a rank reaches; without this what the target says">,
    Option<"threads", "threads", "int64_t", "1", "Threads of a rank: what commands take depends on it">,
    Option<"report", "report", "bool", "false", "Print the objective, its lower bound and the gap">
  ];
}

def StartCollectives : Pass<"start-collectives", "::mlir::ModuleOp"> {
  let summary = "Starts collectives early, and waits for them late";
  let description = [{
    Runs when all commands are formed, before buffers are assigned. A collective
    that has something to overlap with is started (its results become
    `!rank.pending`) and a `rank.wait` gives the results:

    - What is no larger than what it is made of, such as a reduction of gradients,
      is started as soon as its operands are there. All ranks wait for it at its
      first use, or, where its operands take memory of their own until then, as
      soon as it should have ended.
    - What is larger, such as gathered parameters, is started so late that it has
      just ended at its first use, and not before the gather that is `prefetch`
      uses earlier is used. `prefetch=0` starts none early.

    When something has ended is read from a timeline (compiler/overlap/Timeline.h):
    what commands take by the target's rates, and collectives by the alpha-beta
    model of `links`, one after another on each group's queue. Commands keep the
    order that order-commands gave them, and results their bits. Of each group at most 8 are in flight.

    Functions of different places (`rank.at`) are scheduled one by one, by timelines
    in which nobody waits for what another function sends. A collective among
    ranks of several functions stays where it is, as sends and receives do: their order
    is one that all functions have together. Those among the ranks of one function
    may pass them, since these ranks are always at the same command.

    With `report`, a remark says how long a step takes by that timeline, the lower
    bound (the time of all computation, and of all communication of each group) and
    the gap, and how long it would take with nothing overlapped.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", "1", "Gathers that are started ahead of the one in use">,
    ListOption<"links", "links", "std::string", "AXIS=MICROSECONDS:GB_PER_S: latency and bandwidth along an axis">,
    Option<"rates", "rates", "std::string", "", "GFLOPS:GB_PER_S: what a rank reaches; without this what the target says">,
    Option<"threads", "threads", "int64_t", "1", "Threads of a rank: what commands take depends on it">,
    Option<"report", "report", "bool", "false", "Print the objective, its lower bound and the gap">
  ];
  let dependentDialects = ["::polyrank::rank::RankDialect"];
}

#endif
