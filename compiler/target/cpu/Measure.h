// What it costs to compute a group of ops by one set of loops.

#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/codegen/Schedule.h"

namespace polyrank::codegen {

/// What grouping asks of a kernel's loops.
struct Measure {
  size_t nodes;
  /// See `stridedAccesses`.
  int64_t strided;
  Schedule::Kind kind;
  /// Whether a result has an element for each point of all variables.
  bool storesFull;
};

/// Measures bodies, equal ones once: the layers of a model are alike.
class Measures {
public:
  /// None where one set of loops cannot compute the body.
  std::optional<Measure> get(Body body);

private:
  /// Ops by name, properties, operands and types, from the results back to the
  /// arguments; addresses are of what the context holds once.
  using Key = std::vector<uintptr_t>;
  static Key keyOf(Body body);

  std::map<Key, std::optional<Measure>> known;
};

} // namespace polyrank::codegen
