// The origin of an op in the user's model: attributes that any op may have.
//
//   graph.scope   the module that computes it, "h.0.mlp.c_fc"
//   graph.origin  on a derivative: the op that it differentiates
//   graph.phase   the phase of the training step that it is in (Phase.h)
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

/// The op's name in the user's model, that of the nearest NameLoc, or else the
/// op's kind, "matmul".
std::string getUserName(mlir::Operation *op);
/// Formats as "matmul 'h.0.mlp/MatMul'", or "matmul" if the op has no name.
std::string describe(mlir::Operation *op);

/// Empty if the op has none.
llvm::StringRef getScope(mlir::Operation *op);
/// A null scope changes nothing.
void setScope(mlir::Operation *op, mlir::StringAttr scope);

/// Null if the op is not a derivative.
mlir::StringAttr getOrigin(mlir::Operation *op);
void setOrigin(mlir::Operation *op, mlir::StringAttr origin);

/// Returns nullopt if the op is not marked.
std::optional<Phase> getMarkedPhase(mlir::Operation *op);
void markPhase(mlir::Operation *op, Phase phase);

/// Returns nullopt if the op has no stage of its own: without a pipeline, or if
/// each stage that needs the op computes it.
std::optional<int64_t> getStage(mlir::Operation *op);
void setStage(mlir::Operation *op, std::optional<int64_t> stage);

/// Gives `to` the scope, origin, phase and stage of `from` where it has none.
void copyProvenance(mlir::Operation *from, mlir::Operation *to);

/// Gives the op `to`, into which the ops `from` were merged, the scope of the
/// last of them that has one; an origin if all are derivatives; the earliest
/// phase, since some op of that phase may wait for the result; and the stage of
/// the last that has one.
void copyProvenance(llvm::ArrayRef<mlir::Operation *> from,
                    mlir::Operation *to);

/// Copies the provenance of `from` to every op that is built while this
/// listens.
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

/// Replaces the composites inside `root` that `filter` chooses by their parts,
/// which get the provenance of the composite. No part has a layout.
void decomposeComposites(mlir::Operation *root,
                         llvm::function_ref<bool(mlir::Operation *)> filter);

/// For tests: the op's sharding rule as text.
void setPrintedRule(mlir::Operation *op, llvm::StringRef rule);

/// Empty if the module has none.
llvm::StringRef getModelName(mlir::ModuleOp module);
void setModelName(mlir::ModuleOp module, llvm::StringRef name);

/// Verifies that an attribute of the dialect on an op is one of these and has
/// its type.
mlir::LogicalResult verifyProvenance(mlir::Operation *op,
                                     mlir::NamedAttribute attribute);

} // namespace polyrank::graph
