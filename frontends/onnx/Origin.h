// The place of a node in the user's model: its module and source line.

#pragma once

#include "frontends/onnx/Model.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// The path and class of the module whose forward made the node, from PyTorch's
/// metadata or else from a node name that is a path ("/h.0/attn/MatMul").
/// `scope` is "" for the model itself and if nothing is known.
struct Origin {
  std::string scope;
  std::string moduleClass;
};
Origin originOf(const Node &node);

/// Parses a Python list of strings, "['', 'h', 'h.0']".
llvm::SmallVector<llvm::StringRef> parseList(llvm::StringRef text);

/// The location "h.0.attn.c_attn/node_addmm" at the line of the user's source.
mlir::Location locationOf(mlir::MLIRContext *context, const Node &node,
                          const Origin &origin);

} // namespace polyrank::frontends::onnx
