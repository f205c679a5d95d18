// Builds the sums and counts of a step's losses and metrics.

#include "compiler/training/StepBuilder.h"

#include "compiler/training/LossParts.h"
#include "mlir/IR/IRMapping.h"
#include "support/Names.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

LogicalResult StepBuilder::findMeans() {
  for (unsigned i = 0, size = forward.getNumResults(); i < size; ++i) {
    auto role = boundary().getResult<graph::MeanAttr>(i);
    if (!role)
      continue;
    FloatAttr weight = role.getWeight();
    if (weight && !means.empty() && !means.back().weight)
      return forward.emitError("result ")
             << i << " is a term of the loss after other means";
    auto count = boundary().getResult<graph::CountAttr>(i + 1);
    Mean &mean = means.emplace_back();
    mean = {i,
            role.getName().str(),
            std::nullopt,
            count.getTargets(),
            role.getKind(),
            role.getFurther(),
            std::nullopt};
    if (weight)
      mean.weight = weight.getValueAsDouble();
    if (FloatAttr least = count.getLeast())
      mean.least = least.getValueAsDouble();
  }
  return success();
}

bool polyrank::training::isStatic(Value count) {
  return !!count.getDefiningOp<graph::ConstantOp>();
}

Value StepBuilder::buildIsNone(Value count) {
  return parts.convert(
      parts.compare(count, graph::Comparison::EQ, parts.splat(count, 0)),
      graph::getGlobalType(count).getElementType());
}

Value StepBuilder::addTerms(ArrayRef<Value> values) {
  Value total;
  for (auto [mean, value] :
       llvm::zip(ArrayRef(means).take_front(getNumTerms()), values)) {
    Value term = parts.mul(value, *mean.weight);
    total = total ? parts.add(total, term) : term;
  }
  return total;
}

Value StepBuilder::buildWeightedSum(ArrayRef<Value> sums,
                                    ArrayRef<Value> counts) {
  SmallVector<Value> values;
  for (auto [sum, count] : llvm::zip(sums.take_front(getNumTerms()), counts)) {
    // A sum of nothing has gradient zero, though its mean is NaN.
    Value over = isStatic(count) ? count : parts.add(count, buildIsNone(count));
    values.push_back(buildMean(sum, over));
  }
  return addTerms(values);
}

/// Terms count labels or their weights, so few ops of @forward are cloned.
SmallVector<Value> StepBuilder::countAhead() {
  auto integer = RankedTensorType::get({}, builder.getI64Type());
  Operation *terminator = forward.getBody().front().getTerminator();
  SmallVector<Value> counts;
  for (const Mean &mean : ArrayRef(means).take_front(getNumTerms())) {
    Value all;
    if (Value count = terminator->getOperand(mean.result + 1);
        isStatic(count)) {
      all = parts.splat(count, *graph::getSplat(count) *
                                   static_cast<double>(microbatches));
    } else {
      for (int64_t i = 0; i < microbatches; ++i) {
        SmallVector<Value> slices;
        for (BlockArgument input : inputs)
          slices.push_back(takeOnly(graph::SliceOp::create(
              builder, input.getLoc(), input, /*dim=*/0, i, i + 1)));
        Value one = cloneForward(slices, getCarried(),
                                 graph::splat(builder, parts.location, integer,
                                              static_cast<double>(i)),
                                 mean.result + 1)[0];
        all = all ? parts.add(all, one) : one;
      }
    }
    counts.push_back(boundCount(mean, all));
  }
  return counts;
}

Value StepBuilder::boundCount(const Mean &mean, Value count) {
  if (!mean.least)
    return count;
  return parts.apply<graph::MaxOp>(count, parts.splat(count, *mean.least));
}

Sums StepBuilder::takeMeans(ArrayRef<Value> results) {
  Sums sums;
  for (const Mean &mean : means) {
    sums.sums.push_back(results[mean.result]);
    Value count = results[mean.result + 1];
    // With several microbatches, counts are added before they are bounded.
    sums.counts.push_back(microbatches == 1 ? boundCount(mean, count) : count);
  }
  // The sum of a single term includes its weight.
  if (getNumTerms() == 1 && *means[0].weight != 1)
    sums.sums[0] = parts.mul(sums.sums[0], *means[0].weight);
  return sums;
}

Value StepBuilder::buildMean(Value sum, Value count) {
  Type element = graph::getGlobalType(sum).getElementType();
  if (graph::getGlobalType(count).getElementType() != element)
    count = parts.convert(count, element);
  return parts.div(sum, count);
}

SmallVector<StepOutput> StepBuilder::buildMetrics(ArrayRef<Value> sums,
                                                  ArrayRef<Value> counts) {
  SmallVector<StepOutput> metrics;
  SmallVector<Value> values;
  for (auto [mean, sum, count] : llvm::zip_equal(means, sums, counts)) {
    Value value = buildMean(sum, count);
    values.push_back(mean.kind == graph::MeanKind::Geometric ? parts.exp(value)
                                                             : value);
  }
  unsigned numTerms = 0; // terms, whatever the number of their parts
  for (const Mean &mean : means)
    numTerms += mean.weight && !mean.isFurther;
  if (getNumTerms() > 0)
    metrics.push_back(
        {"loss", getNumTerms() == 1 ? values[0] : addTerms(values)});
  for (unsigned first = 0; first < means.size(); ++first) {
    const Mean &mean = means[first];
    if (mean.isFurther)
      continue;
    if (numTerms == 1 && first == 0) {
      addCounts(metrics, first, countName("loss"), values, counts);
      continue;
    }
    Value value = values[first];
    for (unsigned i = first + 1; i < means.size() && means[i].isFurther; ++i)
      value = parts.add(value, values[i]);
    std::string name = metricName(mean.name);
    metrics.push_back({name, value, mean.kind});
    addCounts(metrics, first, countName(name), values, counts);
  }
  return metrics;
}

void StepBuilder::addCounts(SmallVectorImpl<StepOutput> &metrics,
                            unsigned first, StringRef nameOfCount,
                            ArrayRef<Value> values, ArrayRef<Value> counts) {
  SmallVector<unsigned> counted;
  unsigned end = first;
  do {
    if (!isStatic(counts[end]))
      counted.push_back(end);
  } while (++end < means.size() && means[end].isFurther);
  bool isTerm = means[first].weight.has_value();
  if (counted.empty() && isTerm)
    counted.push_back(first);
  if (counted.size() == 1)
    metrics.push_back({nameOfCount.str(), counts[counted[0]]});
  if (counted.size() < 2)
    return;
  for (auto [number, i] : llvm::enumerate(counted)) {
    std::string name = partName(metricName(means[first].name), number);
    metrics.push_back({name, values[i]});
    metrics.push_back({countName(name), counts[i]});
  }
}
