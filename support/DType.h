// The element types of the plan, for parts of the runtime that do not read
// plans.

#pragma once

#include <cstdint>

namespace polyrank {

/// The values equal those of plan::DType (runtime/plan/plan.fbs), so that a
/// cast converts one into the other.
enum class DType : int8_t { F32, F64, BF16, F16, I8, U8, I32, I64, BOOL };
inline constexpr int numDTypes = 9;

constexpr int64_t bytesOf(DType dtype) {
  switch (dtype) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
  case DType::F16:
    return 2;
  case DType::I8:
  case DType::U8:
  case DType::BOOL:
    return 1;
  }
  return 0;
}

constexpr const char *nameOf(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "f32";
  case DType::F64:
    return "f64";
  case DType::BF16:
    return "bf16";
  case DType::F16:
    return "f16";
  case DType::I8:
    return "i8";
  case DType::U8:
    return "u8";
  case DType::I32:
    return "i32";
  case DType::I64:
    return "i64";
  case DType::BOOL:
    return "bool";
  }
  return "unknown";
}

} // namespace polyrank
