// The pipeline dialect: stages of a model on the coordinates of a mesh axis.

#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"

#include "dialects/pipeline/PipelineDialect.h.inc"

#define GET_OP_CLASSES
#include "dialects/pipeline/PipelineOps.h.inc"

namespace polyrank::pipeline {

/// Attributes of a module; see the dialect.
inline constexpr llvm::StringLiteral axisAttrName = "pipeline.axis";
inline constexpr llvm::StringLiteral coordinatesAttrName =
    "pipeline.coordinates";
inline constexpr llvm::StringLiteral scheduleAttrName = "pipeline.schedule";

/// The stages of a module's pipeline.
struct Stages {
  llvm::StringRef axis;
  /// The coordinate of each stage along the axis.
  llvm::ArrayRef<int64_t> coordinates;

  int64_t getNumStages() const { return coordinates.size(); }
  /// The index of `stage` among the stages at its coordinate, in ascending
  /// order.
  int64_t getChunk(int64_t stage) const {
    return llvm::count(coordinates.take_front(stage), coordinates[stage]);
  }
};

/// Returns nullopt for a module without a pipeline.
std::optional<Stages> getStages(mlir::ModuleOp module);
/// The name of the module's pipe axis; empty if it has no pipeline.
inline llvm::StringRef getAxis(mlir::ModuleOp module) {
  std::optional<Stages> stages = getStages(module);
  return stages ? stages->axis : llvm::StringRef();
}

} // namespace polyrank::pipeline
