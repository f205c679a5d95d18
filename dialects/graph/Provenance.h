// Where an op comes from in the user's model: attributes of any op.
//
//   graph.scope   the module that computes it, "h.0.mlp.c_fc"
//   graph.origin  of a derivative: the op that it differentiates
//   graph.phase   the part of a training step that it is of (Phase.h)
//   graph.stage   the stage of a pipeline that it is on
//
// On the module, `graph.model` is the name of the user's file.

#pragma once

#include <optional>
#include <string>

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::graph {

enum class Phase : uint32_t;

/// The name in the user's model, of the nearest NameLoc; else the op's kind,
/// "matmul".
std::string getUserName(mlir::Operation *op);
/// "matmul 'h.0.mlp/MatMul'", or "matmul" where it has no name.
std::string describe(mlir::Operation *op);

/// Empty where the op has none.
llvm::StringRef getScope(mlir::Operation *op);
/// Null changes nothing.
void setScope(mlir::Operation *op, mlir::StringAttr scope);

/// Null where the op is no derivative.
mlir::StringAttr getOrigin(mlir::Operation *op);
void setOrigin(mlir::Operation *op, mlir::StringAttr origin);

/// None where nobody has written one.
std::optional<Phase> getMarkedPhase(mlir::Operation *op);
void markPhase(mlir::Operation *op, Phase phase);

/// None where it is on no stage of its own: without a pipeline, and of what all
/// stages compute that need it.
std::optional<int64_t> getStage(mlir::Operation *op);
void setStage(mlir::Operation *op, std::optional<int64_t> stage);

/// Gives `to` the scope, origin, phase and stage of `from` where it has none.
void copyProvenance(mlir::Operation *from, mlir::Operation *to);

/// Of ops that have become one: the scope of the last that has one, its origin
/// where all are derivatives, the earliest phase, as something of that may wait
/// for the result, and the stage of the last that has one.
void copyProvenance(llvm::ArrayRef<mlir::Operation *> from,
                    mlir::Operation *to);

/// Copies them to all that is built while it listens.
class ProvenanceCopier : public mlir::OpBuilder::Listener {
public:
  explicit ProvenanceCopier(mlir::Operation *from) : from(from) {}
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override {
    copyProvenance(from, op);
  }

private:
  mlir::Operation *from;
};

/// Replaces the composites below `root` that `filter` chooses by their parts,
/// which come from where the whole does. No part has a layout.
void decomposeComposites(mlir::Operation *root,
                         llvm::function_ref<bool(mlir::Operation *)> filter);

/// For tests: the op's sharding rule as text.
void setPrintedRule(mlir::Operation *op, llvm::StringRef rule);

/// Empty where the module has none.
llvm::StringRef getModelName(mlir::ModuleOp module);
void setModelName(mlir::ModuleOp module, llvm::StringRef name);

/// That an attribute of the dialect on an op is one of these, of its type.
mlir::LogicalResult verifyProvenance(mlir::Operation *op,
                                     mlir::NamedAttribute attribute);

} // namespace polyrank::graph
