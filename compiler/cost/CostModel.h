// The cost of communication: the alpha-beta model, and exact bytes.
//
// A collective takes as long as runtime/plan/CollectiveTime.h says, with the
// latency and the bandwidth of the slowest mesh axes that take part, and the
// bytes that follow from its kind (runtime/plan/Collectives.h). Ops without
// communication cost nothing.

#pragma once

#include "compiler/cost/Reach.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/LinkLevel.h"
#include "support/LinkTime.h"

namespace polyrank::cost {

/// The link of an axis of which nothing is known: 10 us and 10 GB/s.
inline constexpr LinkTime defaultLink = LinkTime::of(10, 10);

/// The link that `machine`, which may be null, states for an axis; the default
/// link if it states none.
LinkTime getLink(rank::MachineAttr machine, llvm::StringRef axis);

/// Bytes of one device's block; a boolean takes one byte.
int64_t getLocalBytes(mlir::RankedTensorType type);

/// The error "the mesh has no axis 'tensr'; it has data, tensor; nearest:
/// 'tensor'".
std::string explainMissingAxis(sharding::MeshAttr mesh, llvm::StringRef name);

/// How often a step executes `op`: the product of the counts of the surrounding
/// microbatch regions.
int64_t getExecutions(mlir::Operation *op);

/// FLOPs of a step of `function` if each op is computed once, not once per
/// device.
int64_t getFlops(mlir::func::FuncOp function);

class CostModel {
public:
  /// Uses the links of `machine`, and the default link where it states none.
  explicit CostModel(sharding::MeshAttr mesh, rank::MachineAttr machine = {});
  /// Uses the levels of `reach` for groups along axes without a link of their
  /// own, if it has levels.
  CostModel(sharding::MeshAttr mesh, rank::MachineAttr machine,
            const Reach &reach);
  /// Time is the number of bytes: latency zero, one picosecond per byte.
  static CostModel countingBytes(sharding::MeshAttr mesh);

  sharding::MeshAttr getMesh() const { return mesh; }
  /// The slowest link along these axes.
  LinkTime getLink(llvm::ArrayRef<sharding::AxisRef> axes) const;

  /// Bytes that a device sends in an op over `devices` devices, with blocks of
  /// `before` and `after` bytes.
  static int64_t getBytes(sharding::MovementKind kind, int64_t devices,
                          int64_t before, int64_t after);
  int64_t getPicoseconds(sharding::MovementKind kind,
                         llvm::ArrayRef<sharding::AxisRef> axes, int64_t before,
                         int64_t after) const;

  /// Time of one collective in which a device sends `sentBytes` bytes.
  int64_t getPicoseconds(runtime::CollectiveKind kind,
                         llvm::ArrayRef<sharding::AxisRef> axes,
                         int64_t sentBytes) const;

  /// The same in fractions, which are to be added.
  double getExactTime(runtime::CollectiveKind kind,
                      llvm::ArrayRef<sharding::AxisRef> axes,
                      int64_t sentBytes) const;

  /// The bytes of a whole op: the sum over its operands.
  static int64_t getBytes(sharding::MovementOp op);

private:
  sharding::MeshAttr mesh;
  /// Where the group along these axes lies on the nodes of `levels`.
  GroupPlaces getPlaces(llvm::ArrayRef<sharding::AxisRef> axes) const;

  llvm::SmallVector<LinkTime> links; // by axis
  std::optional<LinkLevels> levels;
  llvm::SmallVector<bool> isLinked; // by axis: has a link of its own
};

} // namespace polyrank::cost
