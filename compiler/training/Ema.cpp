// Moving averages of the parameters.

#include "compiler/training/Ema.h"

#include "dialects/graph/ElementTypes.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Parts;

void Ema::buildScalars(Parts &parts, Value step) {
  auto type = RankedTensorType::get(
      {}, graph::statisticType(parts.builder.getContext()));
  auto number = [&](double value) {
    return graph::splat(parts.builder, parts.location, type, value);
  };
  Value isFirst =
      parts.compare(step, graph::Comparison::EQ, parts.splat(step, 0));
  share = parts.select(isFirst, number(1), number(1 - decay));
}

Value Ema::buildNext(Parts &parts, Value mean, Value value) const {
  Value way = parts.sub(value, mean);
  return parts.add(mean, parts.mul(way, parts.spread(share, way)));
}
