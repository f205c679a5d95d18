// A cache of what the target measures of kernels.

#pragma once

#include <map>
#include <vector>

#include "compiler/codegen/BuildLoops.h"
#include "compiler/target/Target.h"

namespace polyrank::codegen {

/// Measures bodies, equal bodies only once: the layers of a model are alike.
class Measures {
public:
  explicit Measures(target::KernelTarget target) : target(target) {}
  /// Returns null if one kernel cannot compute the body.
  target::KernelMeasurePtr get(Body body);

private:
  /// A body's ops by name, properties, operands and types, from the results
  /// back to the arguments, as addresses of objects that the context uniques.
  using Key = std::vector<uintptr_t>;
  static Key keyOf(Body body);
  target::KernelMeasurePtr measure(Body body);

  target::KernelTarget target;
  std::map<Key, target::KernelMeasurePtr> known;
};

} // namespace polyrank::codegen
