// Builds the function that one device runs, next to the global one.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace polyrank::lowering {

/// The ids of the values that ops move, the same for all coordinates.
using Ids = llvm::DenseMap<mlir::Operation *, int64_t>;

/// The place of the ranks that run a function of a pipeline.
struct PipePlace {
  int32_t axis;
  int64_t coordinate;
  int64_t slots; // of each transfer in the microbatches
};

/// Builds one function in local shapes next to the global one.
class Localizer {
public:
  /// `place` is that of the ranks that run the function; nullopt if all run it.
  Localizer(mlir::func::FuncOp global, const Ids &ids,
            std::optional<PipePlace> place)
      : global(global), ids(ids), place(place), builder(global),
        context{builder, makeIndex} {}

  mlir::LogicalResult run();
  /// Adds the arguments that the function reads, by their global numbers.
  void addRead(llvm::DenseSet<unsigned> &read);
  /// Erases those arguments of `read` that the function does not read itself.
  void eraseUnread(const llvm::DenseSet<unsigned> &read);

private:
  /// The value's coordinate along the pipe axis; nullopt if it lives
  /// everywhere.
  std::optional<int64_t> getCoordinate(mlir::Value value) const;
  bool isHere(mlir::Value value) const {
    std::optional<int64_t> at = getCoordinate(value);
    return !at || at == place->coordinate;
  }
  void createFunction();
  void finishBoundary();
  mlir::LogicalResult localizeReturn(mlir::func::ReturnOp op);
  mlir::LogicalResult localizeTransfer(pipeline::TransferOp op);
  void localizeJoin(pipeline::JoinOp op);
  mlir::LogicalResult checkPartitioned();
  mlir::Value axisIndex(llvm::ArrayRef<sharding::AxisRef> axes);
  mlir::Type localType(mlir::Type type) {
    return sharding::getLocalType(llvm::cast<mlir::RankedTensorType>(type));
  }
  llvm::SmallVector<mlir::Type> localTypes(mlir::TypeRange types) {
    return llvm::map_to_vector(
        types, [&](mlir::Type type) { return localType(type); });
  }
  mlir::DictionaryAttr boundaryAttributes(mlir::DictionaryAttr attributes,
                                          mlir::Type type, unsigned number);
  llvm::SmallVector<mlir::Value> lookup(mlir::ValueRange values) {
    return llvm::map_to_vector(
        values, [&](mlir::Value value) { return mapping.lookupOrNull(value); });
  }
  mlir::LogicalResult localizeBlock(mlir::Block &block);
  mlir::LogicalResult localizeOp(mlir::Operation &op);
  mlir::LogicalResult localizeMicrobatches(graph::MicrobatchesOp op);

  mlir::func::FuncOp global, local;
  const Ids &ids;
  std::optional<PipePlace> place;
  mlir::OpBuilder builder;
  std::function<mlir::Value(llvm::ArrayRef<sharding::AxisRef>)> makeIndex =
      [this](llvm::ArrayRef<sharding::AxisRef> axes) {
        return axisIndex(axes);
      };
  graph::LocalContext context;
  mlir::IRMapping mapping;
  sharding::MeshAttr mesh;
  /// The coordinates in use, made once at the function's start.
  llvm::SmallVector<std::pair<rank::AxesAttr, mlir::Value>> indices;
  /// The global number of each argument.
  llvm::SmallVector<unsigned> numbers;
};

} // namespace polyrank::lowering
