// The names of a program's outputs.

#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::exported_program {

/// A name for each of `count` outputs: `output` of one, `output_0`, `output_1`,
/// .. of the elements of a tuple or list, and the keys of a dict or of a
/// dataclass as they are; joined with dots where these lie in each other.
/// `tree` is the TreeSpec that torch.export writes; where it is none, or has
/// another number of leaves, the outputs are taken as a tuple.
std::vector<std::string> nameOutputs(llvm::StringRef tree, size_t count);

} // namespace polyrank::frontends::exported_program
