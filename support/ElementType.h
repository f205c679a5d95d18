// The element types of tensors, in programs and in files: one table says what
// each is and what every format calls it.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace polyrank {

/// The types that a program may hold come first, with the numbers that the plan
/// gives them (runtime/plan/plan.fbs); the others occur in files only.
enum class ElementType : int8_t {
  F32,
  F64,
  BF16,
  F16,
  I8,
  U8,
  I32,
  I64,
  BOOL,
  I16,
  U16,
  U32,
  U64,
  C32,
  C64,
  C128,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F8E8M0,
  F6E2M3,
  F6E3M2,
  F4E2M1,
  I4,
  U4,
  I2,
  U2,
  QI8,
  QU8,
  QI32,
  QU4X2,
  QU2X4,
  STRING,
  UNDEFINED
};
inline constexpr int numProgramTypes = 9;
inline constexpr int numElementTypes = 35;

enum class ElementKind : int8_t {
  Float,    // of IEEE 754's form: a sign, an exponent, a significand
  Signed,   // an integer, as two's complement
  Unsigned, // an integer
  Boolean,  // a byte that is not 0 for true
  Complex,  // two floats of half the size, the real part first
  Other     // only its size is known
};

/// A type's properties and names. The name is empty, or the number -1, where a
/// format lacks the type.
struct ElementTypeRow {
  ElementType type;
  ElementKind kind;
  /// The size of an element. 0 if it varies.
  int bits;
  /// A float's digits in base 2, the one that is not stored included: integers
  /// up to 2^digits are exact, and 2^-digits is half a unit in the last place
  /// of 1. 0 for types that are not of kind Float.
  int digits;
  /// The type in which sums and products of such elements are formed before
  /// they are rounded once.
  ElementType accumulator;
  std::string_view name;        // in messages, plans and manifests
  std::string_view longName;    // in NumPy, PyTorch and ml_dtypes
  std::string_view npy;         // in .npy files, without the byte order
  std::string_view safetensors; // in the header
  int onnx;                     // TensorProto.DataType
  int torch;                    // c10::ScalarType, which TorchScript uses
  int exported;                 // torch.export's schema
  std::string_view storage;     // the class of a tensor's storage in pickles
};

// clang-format off
inline constexpr std::array<ElementTypeRow, numElementTypes> elementTypes{{
    {ElementType::F32, ElementKind::Float, 32, 24, ElementType::F32, "f32", "float32", "f4", "F32", 1, 6, 7, "FloatStorage"},
    {ElementType::F64, ElementKind::Float, 64, 53, ElementType::F64, "f64", "float64", "f8", "F64", 11, 7, 8, "DoubleStorage"},
    {ElementType::BF16, ElementKind::Float, 16, 8, ElementType::F32, "bf16", "bfloat16", "", "BF16", 16, 15, 13, "BFloat16Storage"},
    {ElementType::F16, ElementKind::Float, 16, 11, ElementType::F32, "f16", "float16", "f2", "F16", 10, 5, 6, "HalfStorage"},
    {ElementType::I8, ElementKind::Signed, 8, 0, ElementType::I8, "i8", "int8", "i1", "I8", 3, 1, 2, "CharStorage"},
    {ElementType::U8, ElementKind::Unsigned, 8, 0, ElementType::U8, "u8", "uint8", "u1", "U8", 2, 0, 1, "ByteStorage"},
    {ElementType::I32, ElementKind::Signed, 32, 0, ElementType::I32, "i32", "int32", "i4", "I32", 6, 3, 4, "IntStorage"},
    {ElementType::I64, ElementKind::Signed, 64, 0, ElementType::I64, "i64", "int64", "i8", "I64", 7, 4, 5, "LongStorage"},
    {ElementType::BOOL, ElementKind::Boolean, 8, 0, ElementType::BOOL, "bool", "bool", "b1", "BOOL", 9, 11, 12, "BoolStorage"},
    {ElementType::I16, ElementKind::Signed, 16, 0, ElementType::I16, "i16", "int16", "i2", "I16", 5, 2, 3, "ShortStorage"},
    {ElementType::U16, ElementKind::Unsigned, 16, 0, ElementType::U16, "u16", "uint16", "u2", "U16", 4, 27, 28, ""},
    {ElementType::U32, ElementKind::Unsigned, 32, 0, ElementType::U32, "u32", "uint32", "u4", "U32", 12, 28, 34, ""},
    {ElementType::U64, ElementKind::Unsigned, 64, 0, ElementType::U64, "u64", "uint64", "u8", "U64", 13, 29, 35, ""},
    {ElementType::C32, ElementKind::Complex, 32, 0, ElementType::C32, "c32", "complex32", "", "", -1, 8, 9, "ComplexHalfStorage"},
    {ElementType::C64, ElementKind::Complex, 64, 0, ElementType::C64, "c64", "complex64", "", "C64", 14, 9, 10, "ComplexFloatStorage"},
    {ElementType::C128, ElementKind::Complex, 128, 0, ElementType::C128, "c128", "complex128", "", "", 15, 10, 11, "ComplexDoubleStorage"},
    {ElementType::F8E4M3FN, ElementKind::Other, 8, 0, ElementType::F32, "f8e4m3fn", "float8_e4m3fn", "", "F8_E4M3", 17, 24, 29, ""},
    {ElementType::F8E4M3FNUZ, ElementKind::Other, 8, 0, ElementType::F32, "f8e4m3fnuz", "float8_e4m3fnuz", "", "F8_E4M3FNUZ", 18, 26, 31, ""},
    {ElementType::F8E5M2, ElementKind::Other, 8, 0, ElementType::F32, "f8e5m2", "float8_e5m2", "", "F8_E5M2", 19, 23, 30, ""},
    {ElementType::F8E5M2FNUZ, ElementKind::Other, 8, 0, ElementType::F32, "f8e5m2fnuz", "float8_e5m2fnuz", "", "F8_E5M2FNUZ", 20, 25, 32, ""},
    {ElementType::F8E8M0, ElementKind::Other, 8, 0, ElementType::F32, "f8e8m0", "float8_e8m0fnu", "", "F8_E8M0", 24, 44, 33, ""},
    {ElementType::F6E2M3, ElementKind::Other, 6, 0, ElementType::F32, "f6e2m3", "float6_e2m3fn", "", "F6_E2M3", 27, -1, -1, ""},
    {ElementType::F6E3M2, ElementKind::Other, 6, 0, ElementType::F32, "f6e3m2", "float6_e3m2fn", "", "F6_E3M2", 28, -1, -1, ""},
    {ElementType::F4E2M1, ElementKind::Other, 4, 0, ElementType::F32, "f4e2m1", "float4_e2m1fn", "", "F4", 23, -1, -1, ""},
    {ElementType::I4, ElementKind::Other, 4, 0, ElementType::I4, "i4", "int4", "", "", 22, -1, -1, ""},
    {ElementType::U4, ElementKind::Other, 4, 0, ElementType::U4, "u4", "uint4", "", "", 21, -1, -1, ""},
    {ElementType::I2, ElementKind::Other, 2, 0, ElementType::I2, "i2", "int2", "", "", 26, -1, -1, ""},
    {ElementType::U2, ElementKind::Other, 2, 0, ElementType::U2, "u2", "uint2", "", "", 25, -1, -1, ""},
    {ElementType::QI8, ElementKind::Other, 8, 0, ElementType::QI8, "qi8", "qint8", "", "", -1, 12, -1, "QInt8Storage"},
    {ElementType::QU8, ElementKind::Other, 8, 0, ElementType::QU8, "qu8", "quint8", "", "", -1, 13, -1, "QUInt8Storage"},
    {ElementType::QI32, ElementKind::Other, 32, 0, ElementType::QI32, "qi32", "qint32", "", "", -1, 14, -1, "QInt32Storage"},
    {ElementType::QU4X2, ElementKind::Other, 8, 0, ElementType::QU4X2, "qu4x2", "quint4x2", "", "", -1, 16, -1, "QUInt4x2Storage"},
    {ElementType::QU2X4, ElementKind::Other, 8, 0, ElementType::QU2X4, "qu2x4", "quint2x4", "", "", -1, 17, -1, "QUInt2x4Storage"},
    {ElementType::STRING, ElementKind::Other, 0, 0, ElementType::STRING, "string", "string", "", "", 8, -1, -1, ""},
    {ElementType::UNDEFINED, ElementKind::Other, 0, 0, ElementType::UNDEFINED, "undefined", "undefined", "", "", 0, -1, -1, ""},
}};
// clang-format on

static_assert([] {
  for (int number = 0; number < numElementTypes; ++number)
    if (elementTypes[number].type != static_cast<ElementType>(number))
      return false;
  return true;
}());

/// Requires an enumerator: readers check the numbers of their files first.
constexpr const ElementTypeRow &rowOf(ElementType type) {
  return elementTypes[static_cast<size_t>(type)];
}

/// The bytes of an element; 0 for types whose elements are not whole bytes.
constexpr int64_t bytesOf(ElementType type) {
  return rowOf(type).bits % 8 == 0 ? rowOf(type).bits / 8 : 0;
}

/// The short name: "f32", "i64", "bool". Every view in the table ends in a
/// null character.
constexpr const char *nameOf(ElementType type) {
  return rowOf(type).name.data();
}

/// The name in NumPy and PyTorch: "float32", "int64", "bool".
inline std::string longNameOf(ElementType type) {
  return std::string(rowOf(type).longName);
}

constexpr bool isFloat(ElementType type) {
  return rowOf(type).kind == ElementKind::Float;
}

/// Returns true for integers; a boolean is none.
constexpr bool isInteger(ElementType type) {
  return rowOf(type).kind == ElementKind::Signed ||
         rowOf(type).kind == ElementKind::Unsigned;
}

/// The largest finite value of a float type.
constexpr double largestOf(ElementType type) {
  const ElementTypeRow &row = rowOf(type);
  double largest = 2 - 1 / static_cast<double>(uint64_t(1) << (row.digits - 1));
  int most = (1 << (row.bits - row.digits - 1)) - 1; // the exponent
  for (int exponent = 0; exponent < most; ++exponent)
    largest *= 2;
  return largest;
}

/// Returns true if a plan may have tensors of this type.
constexpr bool isInPrograms(ElementType type) {
  return static_cast<int>(type) < numProgramTypes;
}

/// The type that a format calls `name`, as in
/// `findElementType(&ElementTypeRow::onnx, 10)`; nullopt if there is none.
template <typename Name>
constexpr std::optional<ElementType>
findElementType(Name ElementTypeRow::*format, std::type_identity_t<Name> name) {
  Name lacking{};
  if constexpr (std::is_same_v<Name, int>)
    lacking = -1;
  for (const ElementTypeRow &row : elementTypes)
    if (row.*format == name && name != lacking)
      return row.type;
  return std::nullopt;
}

} // namespace polyrank
