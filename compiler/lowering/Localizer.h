// What one device runs of a function, built beside the function.

#pragma once

#include "dialects/graph/Graph.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace polyrank::lowering {

/// The ids of the values that ops move, the same for all coordinates.
using Ids = llvm::DenseMap<mlir::Operation *, int64_t>;

/// Of the ranks that run a function of a pipeline.
struct PipePlace {
  int32_t axis;
  int64_t coordinate;
  int64_t slots; // of what microbatches transfer
};

/// Builds one function in local shapes beside the global one.
class Localizer {
public:
  /// `place`: of those that run it; none where all do.
  Localizer(mlir::func::FuncOp global, const Ids &ids,
            std::optional<PipePlace> place)
      : global(global), ids(ids), place(place), builder(global),
        context{builder, makeIndex} {}

  mlir::LogicalResult run();
  /// The arguments that it reads, by their global numbers.
  void addRead(llvm::DenseSet<unsigned> &read);
  /// Erases those of `read` that it does not read itself.
  void eraseUnread(const llvm::DenseSet<unsigned> &read);

private:
  /// Where the value lives along the pipe axis; nullopt: everywhere.
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
  /// Of the arguments, the numbers that they have globally.
  llvm::SmallVector<unsigned> numbers;
};

} // namespace polyrank::lowering
