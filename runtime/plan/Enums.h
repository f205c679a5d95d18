// The plan's enums as those of the parts of the runtime that do not read plans.
// The values are equal, which is checked here and nowhere else.

#pragma once

#include "runtime/plan/Collectives.h"
#include "runtime/plan/plan_generated.h"
#include "support/DType.h"

namespace polyrank::runtime {

template <typename To, typename From>
constexpr bool sameValue(To to, From from) {
  return static_cast<int>(to) == static_cast<int>(from);
}

// VerifyPlanTest compares the names of all collectives.
static_assert(sameValue(numCollectiveKinds - 1, plan::CollectiveKind::MAX));
static_assert(sameValue(Reduction::None, plan::Reduction::None) &&
              sameValue(Reduction::Sum, plan::Reduction::Sum) &&
              sameValue(Reduction::Max, plan::Reduction::Max) &&
              sameValue(Reduction::Min, plan::Reduction::Min) &&
              sameValue(Reduction::Min, plan::Reduction::MAX));
static_assert(sameValue(DType::F32, plan::DType::F32) &&
              sameValue(DType::F64, plan::DType::F64) &&
              sameValue(DType::BF16, plan::DType::BF16) &&
              sameValue(DType::F16, plan::DType::F16) &&
              sameValue(DType::I8, plan::DType::I8) &&
              sameValue(DType::U8, plan::DType::U8) &&
              sameValue(DType::I32, plan::DType::I32) &&
              sameValue(DType::I64, plan::DType::I64) &&
              sameValue(DType::BOOL, plan::DType::BOOL) &&
              sameValue(numDTypes - 1, plan::DType::MAX));

constexpr CollectiveKind kindOf(plan::CollectiveKind kind) {
  return static_cast<CollectiveKind>(kind);
}
constexpr Reduction reductionOf(plan::Reduction reduction) {
  return static_cast<Reduction>(reduction);
}

inline TransferShape shapeOf(const plan::Transfer &transfer) {
  TransferShape shape;
  shape.outer = transfer.outer(), shape.inner = transfer.inner();
  shape.x = transfer.x(), shape.middle = transfer.middle();
  shape.y = transfer.y(), shape.splitFirst = transfer.split_first();
  shape.low = transfer.low(), shape.high = transfer.high();
  return shape;
}

} // namespace polyrank::runtime
