// What a target says that kernels cost, asked once.

#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/codegen/BuildLoops.h"
#include "compiler/target/Target.h"

namespace polyrank::codegen {

/// Measures bodies, equal ones once: the layers of a model are alike.
class Measures {
public:
  explicit Measures(target::TargetInterface target) : target(target) {}
  /// None where one kernel cannot compute the body.
  std::optional<target::KernelMeasure> get(Body body);

private:
  /// Ops by name, properties, operands and types, from the results back to the
  /// arguments; addresses are of what the context holds once.
  using Key = std::vector<uintptr_t>;
  static Key keyOf(Body body);
  std::optional<target::KernelMeasure> measure(Body body);

  target::TargetInterface target;
  std::map<Key, std::optional<target::KernelMeasure>> known;
};

} // namespace polyrank::codegen
