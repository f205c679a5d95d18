// Parameters, buffers and constants of a program.

#pragma once

#include <string>
#include <vector>

#include "frontends/aten/State.h"
#include "frontends/exported_program/Archive.h"

namespace polyrank::frontends::exported_program {

/// What stands behind inputs of the graph that no user feeds.
struct State {
  std::vector<aten::StateEntry> entries;
  /// By entry: its name in the graph.
  std::vector<std::string> names;
  /// By entry: whether it is a buffer that is not saved, which must not change.
  std::vector<bool> areTransient;
};

/// An error names the entry that is wrong.
Result<State> findState(const Archive &archive);

} // namespace polyrank::frontends::exported_program
