// Python stack traces, which exporters keep for each node: they show where the
// file has lost gradient information.

#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends {

/// A frame: `  File "model.py", line 12, in forward`, and the source on the
/// next line.
struct Frame {
  llvm::StringRef file, function, source;
};

/// The frames of a trace, the innermost last.
llvm::SmallVector<Frame> framesOf(llvm::StringRef trace);

/// Returns true if the node comes from a part of the model that `torch.export`
/// turned into a graph of its own, as for `torch.no_grad()` and
/// `torch.autocast()`.
bool isOfRegion(llvm::ArrayRef<Frame> frames);

/// The name of the custom autograd.Function whose forward created the node, as
/// the source calls it; empty if there is none.
llvm::StringRef functionOf(llvm::ArrayRef<Frame> frames);

/// Warnings about gradients that the file has lost: for a region of unknown
/// kind, and for the autograd.Function `name`. `leaving` are the values that
/// leave it, at least one.
/// @{
std::string warnOfRegion(const std::vector<std::string> &leaving);
std::string warnOfFunction(const std::string &name,
                           const std::vector<std::string> &leaving);
/// @}

} // namespace polyrank::frontends
