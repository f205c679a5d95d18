// PyTorch's element types: names, sizes, classes of storages.

#include "frontends/archive/ScalarType.h"

namespace polyrank::frontends::archive {
namespace {

struct Row {
  ScalarType type;
  const char *name;
  uint64_t bytes;
  const char *storage; // empty: only in an UntypedStorage
};
constexpr Row rows[] = {
    {ScalarType::Byte, "uint8", 1, "ByteStorage"},
    {ScalarType::Char, "int8", 1, "CharStorage"},
    {ScalarType::Short, "int16", 2, "ShortStorage"},
    {ScalarType::Int, "int32", 4, "IntStorage"},
    {ScalarType::Long, "int64", 8, "LongStorage"},
    {ScalarType::Half, "float16", 2, "HalfStorage"},
    {ScalarType::Float, "float32", 4, "FloatStorage"},
    {ScalarType::Double, "float64", 8, "DoubleStorage"},
    {ScalarType::ComplexHalf, "complex32", 4, "ComplexHalfStorage"},
    {ScalarType::ComplexFloat, "complex64", 8, "ComplexFloatStorage"},
    {ScalarType::ComplexDouble, "complex128", 16, "ComplexDoubleStorage"},
    {ScalarType::Bool, "bool", 1, "BoolStorage"},
    {ScalarType::QInt8, "qint8", 1, "QInt8Storage"},
    {ScalarType::QUInt8, "quint8", 1, "QUInt8Storage"},
    {ScalarType::QInt32, "qint32", 4, "QInt32Storage"},
    {ScalarType::BFloat16, "bfloat16", 2, "BFloat16Storage"},
    {ScalarType::QUInt4x2, "quint4x2", 1, "QUInt4x2Storage"},
    {ScalarType::QUInt2x4, "quint2x4", 1, "QUInt2x4Storage"},
    {ScalarType::Float8e5m2, "float8_e5m2", 1, ""},
    {ScalarType::Float8e4m3fn, "float8_e4m3fn", 1, ""},
    {ScalarType::Float8e5m2fnuz, "float8_e5m2fnuz", 1, ""},
    {ScalarType::Float8e4m3fnuz, "float8_e4m3fnuz", 1, ""},
    {ScalarType::UInt16, "uint16", 2, ""},
    {ScalarType::UInt32, "uint32", 4, ""},
    {ScalarType::UInt64, "uint64", 8, ""},
};

const Row *find(ScalarType type) {
  for (const Row &row : rows)
    if (row.type == type)
      return &row;
  return nullptr;
}

} // namespace

std::string nameOf(ScalarType type) {
  const Row *row = find(type);
  return row ? row->name : "type " + std::to_string(int(type));
}

uint64_t byteSize(ScalarType type) {
  const Row *row = find(type);
  return row ? row->bytes : 0;
}

std::optional<ScalarType> scalarTypeOf(std::string_view name) {
  for (const Row &row : rows)
    if (name == row.name)
      return row.type;
  return std::nullopt;
}

std::optional<ScalarType> storageTypeOf(std::string_view className) {
  for (const Row &row : rows)
    if (*row.storage && className == row.storage)
      return row.type;
  return std::nullopt;
}

} // namespace polyrank::frontends::archive
