// Host tensors in .npz and .npy files, for the evaluator's arguments and
// results.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dialects/graph/Tensor.h"
#include "support/Result.h"

namespace polyrank::evaluate {

/// Arrays read from files, by name.
class NpzTensors {
public:
  NpzTensors();
  ~NpzTensors();
  /// Adds the arrays of `SET.npz` under their names, or the one of
  /// `NAME=FILE.npy`.
  Result<void> open(const std::string &text);
  /// Replaces the elements of `tensor` by the array of this name, if there is
  /// one; it must have the tensor's shape and a convertible type.
  Result<void> read(const std::string &name, graph::Tensor &tensor);
  /// The arrays that were never read, by name.
  std::vector<std::string> getUnread() const;

private:
  struct Arrays;
  std::unique_ptr<Arrays> arrays;
};

/// Writes floats as float64, integers and booleans as int64.
Result<void>
writeNpz(const std::string &path,
         const std::vector<std::pair<std::string, graph::Tensor>> &tensors);

} // namespace polyrank::evaluate
