// PyTorch's element types, with the numbers that its files give them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace polyrank::frontends::archive {

/// c10::ScalarType, with its numbers; TorchScript's code uses them as `dtype`.
/// (torch.export counts differently.) aten::isSupported says which of them the
/// import supports.
enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Bool = 11,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  BFloat16 = 15,
  QUInt4x2 = 16,
  QUInt2x4 = 17,
  Float8e5m2 = 23,
  Float8e4m3fn = 24,
  Float8e5m2fnuz = 25,
  Float8e4m3fnuz = 26,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
};

/// The name as in `torch.float32`: "float32", "int64", ..; "type 99" for
/// numbers that PyTorch does not have.
std::string nameOf(ScalarType type);

/// The bytes of one element; 0 if the type is unknown or not of whole bytes.
uint64_t byteSize(ScalarType type);

/// The type called "float32", .. (`torch.float32` without its module).
std::optional<ScalarType> scalarTypeOf(std::string_view name);

/// The element type of the class "FloatStorage", .. (without its module).
std::optional<ScalarType> storageTypeOf(std::string_view className);

} // namespace polyrank::frontends::archive
