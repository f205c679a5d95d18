// Answers passes what the programs of a module run on: what the module's
// `rank.machine` states, and the target's own answers where it states nothing.

#pragma once

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
  LinkTime getLink(llvm::StringRef axis) const;
  /// The cost of communication on `mesh`, over the links of this machine.
  CostModel getModel(sharding::MeshAttr mesh) const {
    return CostModel(mesh, attribute);
  }

private:
  Machine(target::TargetInterface target, rank::MachineAttr attribute)
      : target(target), attribute(attribute) {}

  target::TargetInterface target;
  rank::MachineAttr attribute; // may be null
};

} // namespace polyrank::cost
