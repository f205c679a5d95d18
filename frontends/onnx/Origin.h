// Where a node comes from in the user's model: its module and source line.

#pragma once

#include "frontends/onnx/Model.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// Path and class of the module whose forward made the node, from PyTorch's
/// metadata or else from a node name that is a path ("/h.0/attn/MatMul").
/// `scope` is "" for the model itself and where nothing is known.
struct Origin {
  std::string scope;
  std::string moduleClass;
};
Origin originOf(const Node &node);

/// The strings of a Python list, "['', 'h', 'h.0']".
llvm::SmallVector<llvm::StringRef> parseList(llvm::StringRef text);

/// "h.0.attn.c_attn/node_addmm" over the line of the user's source.
mlir::Location locationOf(mlir::MLIRContext *context, const Node &node,
                          const Origin &origin);

} // namespace polyrank::frontends::onnx
