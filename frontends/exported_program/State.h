// Parameters, buffers and constants of a program.

#pragma once

#include <string>
#include <string_view>
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

/// `bytes` is the mapped file. On failure `error` says which entry is wrong.
std::optional<State> findState(const Archive &archive, std::string_view bytes,
                               std::string &error);

} // namespace polyrank::frontends::exported_program
