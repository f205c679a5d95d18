// Conversions from the plan's enums to those of the parts of the runtime that
// do not read plans. The values are equal, which is checked here and nowhere
// else.

#pragma once

#include "runtime/plan/Collectives.h"
#include "runtime/plan/plan_generated.h"
#include "support/ElementType.h"
#include "support/EnumNames.h"

namespace polyrank::runtime {

/// True if the plan's first enumerators have the same names, in order.
template <typename Here, typename InPlan, int... number>
constexpr bool mirrors(std::integer_sequence<int, number...>) {
  return (isCalled(nameOf(static_cast<Here>(number)),
                   enumeratorName<static_cast<InPlan>(number)>()) &&
          ...);
}
template <typename Here, typename InPlan, int count>
constexpr bool mirrorsAll =
    static_cast<int>(InPlan::MAX) == count - 1 &&
    mirrors<Here, InPlan>(std::make_integer_sequence<int, count>());

static_assert(
    mirrorsAll<CollectiveKind, plan::CollectiveKind, numCollectiveKinds>);
static_assert(mirrorsAll<Reduction, plan::Reduction, numReductions>);
static_assert(mirrorsAll<ElementType, plan::ElementType, numProgramTypes>);

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
