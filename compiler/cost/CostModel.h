// What communication costs: the alpha-beta model, and exact bytes.
//
// A collective over n devices takes rounds * alpha + bytes / beta, where alpha
// and beta are those of the slowest mesh axis that takes part, and `bytes` is
// what one device sends (and receives), with I and R the bytes of its block
// before and after:
//
//   all_gather      R - I           rounds 1      slice, to_partial,
//   reduce_scatter  I - R           rounds 1      fill, repad        nothing
//   all_reduce      2 I (n - 1) / n rounds 2
//   all_to_all      I (n - 1) / n   rounds 1
//   permute         I               rounds 1
//   halo            R - I           rounds 1      halo_add           I - R
//
// Thakur, Rabenseifner, Gropp, Optimization of Collective Communication
// Operations in MPICH (2005). An all_reduce is a reduce_scatter and an
// all_gather. Where I is not a multiple of n the bytes are rounded up: the
// devices differ by an element.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/shard/Shard.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::cost {

/// Latency and speed of the links along one mesh axis, in integers, so that
/// costs compare equally everywhere.
struct Link {
  /// Of one round: 10 us where nothing else is said.
  int64_t picoseconds = 10'000'000;
  /// 10 GB/s where nothing else is said.
  int64_t picosecondsPerByte = 100;
};

/// Bytes of one device's block; a boolean takes one byte.
int64_t getLocalBytes(mlir::RankedTensorType type);

/// "the mesh has no axis 'tensr'; it has data, tensor; nearest: 'tensor'".
std::string explainMissingAxis(shard::MeshAttr mesh, llvm::StringRef name);

/// How often a step executes `op`: the product of the counts of the microbatch
/// regions around it.
int64_t getExecutions(mlir::Operation *op);

/// What a step of `function` computes on all devices together, were each op
/// computed once.
int64_t getFlops(mlir::func::FuncOp function);

class CostModel {
public:
  /// Default links along each axis.
  explicit CostModel(shard::MeshAttr mesh);
  /// With the links of `specifications`, each `AXIS=MICROSECONDS:GB_PER_S`.
  /// `error` says what is wrong with one.
  static mlir::FailureOr<CostModel>
  parse(shard::MeshAttr mesh, llvm::ArrayRef<std::string> specifications,
        std::string &error);
  /// Time is the number of bytes: latency zero, one picosecond per byte.
  static CostModel countingBytes(shard::MeshAttr mesh);

  shard::MeshAttr getMesh() const { return mesh; }
  Link getLink(llvm::ArrayRef<shard::AxisRef> axes) const;

  /// Bytes that a device sends in the op named `mnemonic` over `devices`
  /// devices, with blocks of `before` and `after` bytes.
  static int64_t getBytes(llvm::StringRef mnemonic, int64_t devices,
                          int64_t before, int64_t after);
  int64_t getPicoseconds(llvm::StringRef mnemonic,
                         llvm::ArrayRef<shard::AxisRef> axes, int64_t before,
                         int64_t after) const;

  /// The same of a shard op: the sum over its operands.
  static int64_t getBytes(mlir::Operation *op);

private:
  shard::MeshAttr mesh;
  llvm::SmallVector<Link> links;
};

} // namespace polyrank::cost
