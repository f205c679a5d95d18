// The names of a program's outputs.

#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::exported_program {

/// Returns a name for each of `count` outputs: `output` for a single one,
/// `output_0`, `output_1`, .. for the elements of a tuple or list, and the keys
/// of a dict or dataclass; names of nested containers are joined with dots.
/// `tree` is the TreeSpec that torch.export writes; if it is invalid or has
/// another number of leaves, the outputs are treated as a tuple.
std::vector<std::string> nameOutputs(llvm::StringRef tree, size_t count);

} // namespace polyrank::frontends::exported_program
