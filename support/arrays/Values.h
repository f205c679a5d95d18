// Element types of data files, and their checked conversion to what a plan's
// inputs take.

#pragma once

#include "support/DType.h"
#include "support/Result.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace polyrank {

/// What a data file may hold, little-endian.
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
const char *nameOf(ValueType type); // as numpy says: uint16
std::optional<ValueType> valueTypeNamed(std::string_view name);
bool isInteger(ValueType type);
bool isInteger(DType dtype);

/// Values of an integer input that is used as an index lie in [0, limit), or
/// are `ignore`. Without a limit (0) all are allowed.
struct IndexRange {
  int64_t limit = 0;
  int64_t ignore = std::numeric_limits<int64_t>::min();
};

/// May values of this type be converted at all? Integers go to integers and
/// floats, floats only to floats.
bool canConvert(ValueType from, DType to);

/// Converts `count` values. Integers must be kept exactly, and floats may be
/// rounded but not overflow. Returns the first value that cannot be converted,
/// as text, or nothing. Needs canConvert.
struct BadValue {
  int64_t index = 0;
  std::string value;
};
std::optional<BadValue> convertValues(ValueType from, const std::byte *source,
                                      int64_t count, DType to,
                                      const IndexRange &range,
                                      std::byte *result);

/// The first NaN among `count` values, or `count`. Integers have none.
int64_t findNan(DType dtype, const std::byte *data, int64_t count);

/// Is none of them NaN or infinite?
bool areFinite(DType dtype, const std::byte *data, int64_t count);

} // namespace polyrank
