// Parameters, buffers and constants of a program.

#pragma once

#include <string>
#include <vector>

#include "frontends/aten/State.h"
#include "frontends/exported_program/Archive.h"

namespace polyrank::frontends::exported_program {

/// The tensors of the graph's inputs that are not fed by the user.
struct State {
  std::vector<aten::StateEntry> entries;
  /// For each entry, its name in the graph.
  std::vector<std::string> names;
  /// For each entry, true if it is a non-persistent buffer, which must not
  /// change.
  std::vector<bool> areTransient;
};

/// Finds the state of a program. An error names the entry that is wrong.
Result<State> findState(const Archive &archive);

} // namespace polyrank::frontends::exported_program
