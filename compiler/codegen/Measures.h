// A cache of what the target says that kernels cost.

#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/codegen/BuildLoops.h"
#include "compiler/target/Target.h"

namespace polyrank::codegen {

/// Measures bodies, equal bodies only once: the layers of a model are alike.
class Measures {
public:
  explicit Measures(target::TargetInterface target) : target(target) {}
  /// Returns nullopt if one kernel cannot compute the body.
  std::optional<target::KernelMeasure> get(Body body);

private:
  /// A body's ops by name, properties, operands and types, from the results
  /// back to the arguments, as addresses of objects that the context uniques.
  using Key = std::vector<uintptr_t>;
  static Key keyOf(Body body);
  std::optional<target::KernelMeasure> measure(Body body);

  target::TargetInterface target;
  std::map<Key, std::optional<target::KernelMeasure>> known;
};

} // namespace polyrank::codegen
