// Element types of data files, and their checked conversion to the types of a
// plan's inputs.

#pragma once

#include "support/DType.h"
#include "support/Result.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace polyrank {

/// The element types that a data file may hold, little-endian.
enum class ValueType : int8_t {
  U8,
  U16,
  U32,
  U64,
  I8,
  I16,
  I32,
  I64,
  F16,
  F32,
  F64,
  BOOL
};

int64_t bytesOf(ValueType type);
const char *nameOf(ValueType type); // numpy's name: uint16
std::optional<ValueType> valueTypeNamed(std::string_view name);
bool isInteger(ValueType type);
bool isInteger(DType dtype);

/// The allowed values of an integer input that is used as an index: [0, limit),
/// or `ignore`. Without a limit (0) all values are allowed.
struct IndexRange {
  int64_t limit = 0;
  int64_t ignore = std::numeric_limits<int64_t>::min();
};

/// Returns true if values of this type can be converted at all: integers to
/// integers and floats, floats only to floats.
bool canConvert(ValueType from, DType to);

/// Converts `count` values. Integers must be represented exactly; floats may be
/// rounded but must not overflow. Returns the first value that cannot be
/// converted, as text, or nullopt. Requires canConvert.
struct BadValue {
  int64_t index = 0;
  std::string value;
};
std::optional<BadValue> convertValues(ValueType from, const std::byte *source,
                                      int64_t count, DType to,
                                      const IndexRange &range,
                                      std::byte *result);

/// The index of the first NaN among `count` values, or `count`; integers have
/// none.
int64_t findNan(DType dtype, const std::byte *data, int64_t count);

/// Returns true if no value is NaN or infinite.
bool areFinite(DType dtype, const std::byte *data, int64_t count);

} // namespace polyrank
