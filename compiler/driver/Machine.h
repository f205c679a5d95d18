// The machine that the options say: target, threads, links and rates.

#pragma once

#include "compiler/driver/Driver.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Layout.h"
#include "support/Result.h"

namespace polyrank::driver {

struct PlannedMachine {
  rank::MachineAttr attribute; // `rank.machine` of the plan's module
  mlir::DictionaryAttr reach;  // `rank.reach`; null if the file says nothing
  /// "two nodes (cluster.toml), with --link", as reports of the plan call it.
  std::string name;
};

/// Gives a module its `rank.machine` and `rank.reach`.
void setMachine(mlir::ModuleOp module, const PlannedMachine &machine);

/// Returns what a plan is for. Fails, with the name of the option, if one
/// cannot be meant; an axis of --link must be one of `mesh`, which must lie
/// evenly on the nodes of --machine. If several links are along one axis, the
/// last one holds. A remark says where each number of --machine is from.
Result<PlannedMachine> makeMachine(mlir::MLIRContext &context,
                                   const Options &options,
                                   sharding::MeshAttr mesh);

} // namespace polyrank::driver
