// The parts of a parameter's name: the path of its module, and its own name
// there.

#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::onnx {

/// "weight" of "h.0.attn.weight".
inline llvm::StringRef leafOf(llvm::StringRef name) {
  return name.contains('.') ? name.rsplit('.').second : name;
}

/// "h.0.attn" of "h.0.attn.weight".
inline llvm::StringRef moduleOf(llvm::StringRef name) {
  return name.contains('.') ? name.rsplit('.').first : "";
}

/// The name of `leaf` in the module `scope`.
inline std::string nameIn(llvm::StringRef scope, llvm::StringRef leaf) {
  return scope.empty() ? leaf.str() : (scope + "." + leaf).str();
}

} // namespace polyrank::frontends::onnx
