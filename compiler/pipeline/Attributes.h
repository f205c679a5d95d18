// The attributes by which stages are known before layouts say where values are.
//
//   pipeline.axis         on the module: the axis of the mesh, a string
//   pipeline.coordinates  on the module: each stage's coordinate along the axis
//   pipeline.schedule     on the module: --schedule, a string
//   pipeline.stage        on ops of @forward: an i64

#pragma once

#include <optional>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::pipeline {

inline constexpr llvm::StringLiteral axisAttrName = "pipeline.axis",
                                     coordinatesAttrName =
                                         "pipeline.coordinates",
                                     scheduleAttrName = "pipeline.schedule",
                                     stageAttrName = "pipeline.stage";

/// Empty where the module has no stages.
inline llvm::StringRef getAxis(mlir::ModuleOp module) {
  auto axis = module->getAttrOfType<mlir::StringAttr>(axisAttrName);
  return axis ? axis.getValue() : llvm::StringRef();
}

/// None of an op that each stage which needs it computes.
inline std::optional<int64_t> getStage(mlir::Operation *op) {
  auto stage = op->getAttrOfType<mlir::IntegerAttr>(stageAttrName);
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

} // namespace polyrank::pipeline
