// Python stack traces, as exporters keep them of each node: they show where the
// file has lost what a gradient is.

#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends {

/// `  File "model.py", line 12, in forward`, and the source on the next line.
struct Frame {
  llvm::StringRef file, function, source;
};

/// The frames of a trace, the innermost last.
llvm::SmallVector<Frame> framesOf(llvm::StringRef trace);

/// Whether the node comes from a graph of operators that `torch.export` made of
/// a part of the model, which `torch.no_grad()` and `torch.autocast()` cause.
bool isOfRegion(llvm::ArrayRef<Frame> frames);

/// The name of the custom autograd.Function whose forward made the node, as the
/// source calls it; empty where none did.
llvm::StringRef functionOf(llvm::ArrayRef<Frame> frames);

/// Warnings of gradients that the file does not have: of a region of which it
/// does not say what it was, and of the autograd.Function `name`. `leaving` are
/// the values that leave it, at least one.
/// @{
std::string warnOfRegion(const std::vector<std::string> &leaving);
std::string warnOfFunction(const std::string &name,
                           const std::vector<std::string> &leaving);
/// @}

} // namespace polyrank::frontends
