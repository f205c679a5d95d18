// The checked conversion of values in data files to the types of a plan's
// inputs.

#pragma once

#include "support/ElementType.h"
#include "support/Result.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

namespace polyrank {

/// The allowed values of an integer input that is used as an index: [0, limit),
/// or `ignore`. Without a limit (0) all values are allowed.
struct IndexRange {
  int64_t limit = 0;
  int64_t ignore = std::numeric_limits<int64_t>::min();
};

/// Returns true if values of this type can be converted at all: integers and
/// booleans to all types, floats only to floats.
bool canConvert(ElementType from, ElementType to);

/// Converts `count` values. Integers must be represented exactly; floats may be
/// rounded but must not overflow. Returns the first value that cannot be
/// converted, as text, or nullopt. Requires canConvert.
struct BadValue {
  int64_t index = 0;
  std::string value;
};
std::optional<BadValue> convertValues(ElementType from, const std::byte *source,
                                      int64_t count, ElementType to,
                                      const IndexRange &range,
                                      std::byte *result);

/// The index of the first NaN among `count` values, or `count`; integers have
/// none.
int64_t findNan(ElementType dtype, const std::byte *data, int64_t count);

/// Returns true if no value is NaN or infinite.
bool areFinite(ElementType dtype, const std::byte *data, int64_t count);

/// Returns true if no finite value of a float type becomes infinite when it is
/// rounded to the float type `to`.
bool areWithin(ElementType to, ElementType dtype, const std::byte *data,
               int64_t count);

} // namespace polyrank
