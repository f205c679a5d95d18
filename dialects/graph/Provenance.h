// Where an op comes from in the user's model: attributes of any op.
//
//   graph.scope   the module that computes it, "h.0.mlp.c_fc"
//   graph.origin  of a derivative: the op that it differentiates
//
// On the module, `graph.model` is the name of the user's file.

#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace polyrank::graph {

/// Empty where the op has none.
llvm::StringRef getScope(mlir::Operation *op);
/// Null changes nothing.
void setScope(mlir::Operation *op, mlir::StringAttr scope);

/// Null where the op is no derivative.
mlir::StringAttr getOrigin(mlir::Operation *op);
void setOrigin(mlir::Operation *op, mlir::StringAttr origin);
/// Whether autodiff made the op, or a pass out of one that autodiff made.
inline bool isDerivative(mlir::Operation *op) { return bool(getOrigin(op)); }

/// Gives `to` the scope and the origin of `from` where it has none.
void copyProvenance(mlir::Operation *from, mlir::Operation *to);

/// Of ops that have become one: the scope of the last that has one, and its
/// origin where all are derivatives. What computes something of the forward too
/// is none.
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
/// which have the scope and the origin of the whole. No part has a layout.
void decomposeComposites(mlir::Operation *root,
                         llvm::function_ref<bool(mlir::Operation *)> filter);

/// For tests: the op's sharding rule as text.
void setPrintedRule(mlir::Operation *op, llvm::StringRef rule);

/// Empty where the module has none.
llvm::StringRef getModelName(mlir::ModuleOp module);
void setModelName(mlir::ModuleOp module, llvm::StringRef name);

/// That an attribute of the dialect on an op is one of these, a string.
mlir::LogicalResult verifyProvenance(mlir::Operation *op,
                                     mlir::NamedAttribute attribute);

} // namespace polyrank::graph
