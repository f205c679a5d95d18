// Answers passes what the programs of a module run on: what the module's
// `rank.machine` states, and the target's own answers where it states nothing.

#pragma once

#include "compiler/cost/CommandTime.h"
#include "compiler/cost/CostModel.h"
#include "compiler/target/Target.h"
#include "dialects/rank/Rank.h"

namespace polyrank::cost {

class Machine {
public:
  /// The machine of the module around `op`; without `rank.machine` the default
  /// target with one thread and default links. Emits an error if there is no
  /// target (target::getTarget).
  static mlir::FailureOr<Machine> of(mlir::Operation *op);

  target::TargetInterface getTarget() const { return target; }
  int64_t getThreads() const;
  /// What a rank reaches with all its threads: the FLOPs of products of
  /// `elementType`, and the bytes that kernels read and write. Products whose
  /// type has no stated rate are as much faster than those of the type in which
  /// they are added as the target says.
  /// @{
  double getFlopsPerSecond(mlir::Type elementType) const;
  double getBytesPerSecond() const;
  /// @}
  /// Picoseconds of a command; `elementType` is that of the factors of its
  /// products.
  double getCommandTime(const CommandWork &work, mlir::Type elementType) const;
  /// Picoseconds of a kernel on the device beside its bytes.
  double getLaunchTime() const { return reach.launch; }
  /// Picoseconds that the host needs to issue a command.
  double getHostTime() const { return reach.host; }
  LinkTime getLink(llvm::StringRef axis) const;
  /// The cost of communication on `mesh`, over the links of this machine.
  CostModel getModel(sharding::MeshAttr mesh) const {
    return CostModel(mesh, attribute, reach);
  }

private:
  Machine(target::TargetInterface target, rank::MachineAttr attribute,
          Reach reach)
      : target(target), attribute(attribute), reach(std::move(reach)) {}

  target::TargetInterface target;
  rank::MachineAttr attribute; // may be null
  Reach reach;
};

} // namespace polyrank::cost
