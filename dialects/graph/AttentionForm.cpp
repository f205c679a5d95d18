// The reference implementations of attention and its gradient.

#include "dialects/graph/AttentionForm.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/Random.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::graph;

std::pair<int64_t, int64_t>
polyrank::graph::getVisibleKeys(const AttentionForm &form,
                                const AttentionSizes &sizes, int64_t query) {
  if (!form.causal)
    return {0, sizes.keys};
  int64_t end = query + sizes.keys - sizes.queries + 1;
  int64_t begin = form.window ? end - *form.window : 0;
  return {std::clamp<int64_t>(begin, 0, sizes.keys),
          std::clamp<int64_t>(end, 0, sizes.keys)};
}

int64_t polyrank::graph::countPairs(const AttentionForm &form,
                                    const AttentionSizes &sizes) {
  if (!form.causal || form.masked != Masked::Zero)
    return sizes.queries * sizes.keys;
  int64_t pairs = 0;
  for (int64_t query = 0; query < sizes.queries; ++query) {
    auto [begin, end] = getVisibleKeys(form, sizes, query);
    pairs += end - begin;
  }
  return pairs;
}

namespace {

/// The rows of an attention: one query of one head with all keys.
class Rows {
public:
  Rows(const AttentionForm &form, const AttentionTensors &tensors)
      : form(form), tensors(tensors),
        sizes(tensors.query->shape, tensors.value->shape), scores(sizes.keys),
        slopes(sizes.keys), isReplaced(sizes.keys), hasWeight(sizes.keys),
        dropped(sizes.keys, 1.0) {}

  /// Calls `body` for each row.
  void forEach(function_ref<void()> body) {
    for (batch = 0; batch < sizes.batch; ++batch)
      for (head = 0; head < sizes.heads; ++head)
        for (query = 0; query < sizes.queries; ++query) {
          read();
          body();
        }
  }
  /// The row's number, and that of a key, among all.
  int64_t getRow() const {
    return (batch * sizes.heads + head) * sizes.queries + query;
  }
  int64_t getColumn(int64_t key) const {
    int64_t group = head / (sizes.heads / sizes.groups);
    return (batch * sizes.groups + group) * sizes.keys + key;
  }
  /// The element of a tensor like the bias for this row and a key.
  int64_t getElement(const Tensor &tensor, int64_t key) const {
    int64_t element = 0;
    for (auto [size, i] : llvm::zip_equal(
             tensor.shape, std::array<int64_t, 4>{batch, head, query, key}))
      element = element * size + (size == 1 ? 0 : i);
    return element;
  }

private:
  void read();
  void readDropped();

  const AttentionForm &form;
  const AttentionTensors &tensors;
  int64_t batch = 0, head = 0, query = 0;

public:
  AttentionSizes sizes;
  /// The score of each key, with what was added to it.
  std::vector<double> scores;
  /// The derivative of the score by scale * q k.
  std::vector<double> slopes;
  /// True where the score of a hidden key depends on nothing.
  std::vector<bool> isReplaced;
  /// False where a hidden key counts nothing.
  std::vector<bool> hasWeight;
  /// By what dropout multiplies the probability.
  std::vector<double> dropped;
};

} // namespace

static double dot(const double *x, const double *y, int64_t count) {
  double result = 0;
  for (int64_t i = 0; i < count; ++i)
    result += x[i] * y[i];
  return result;
}

void Rows::read() {
  auto [begin, end] = getVisibleKeys(form, sizes, query);
  const double *q = &tensors.query->floats[getRow() * sizes.width];
  for (int64_t key = 0; key < sizes.keys; ++key) {
    bool isVisible = key >= begin && key < end &&
                     (!tensors.mask ||
                      tensors.mask->integers[getElement(*tensors.mask, key)]);
    hasWeight[key] = isVisible || form.masked != Masked::Zero;
    double &score = scores[key];
    score =
        form.scale *
        dot(q, &tensors.key->floats[getColumn(key) * sizes.width], sizes.width);
    slopes[key] = 1;
    if (form.softcap) {
      double bent = std::tanh(score / *form.softcap);
      score = *form.softcap * bent;
      slopes[key] = 1 - bent * bent;
    }
    if (tensors.bias)
      score += tensors.bias->floats[getElement(*tensors.bias, key)];
    if (!isVisible && form.masked == Masked::Add)
      score += form.fill;
    isReplaced[key] = !isVisible && form.masked == Masked::Replace;
    if (isReplaced[key])
      score = form.fill;
  }
  if (form.rate)
    readDropped();
}

void Rows::readDropped() {
  SmallVector<int64_t> shape(form.globalShape);
  if (shape.empty())
    llvm::append_range(shape, sizes.getScoreShape());
  SmallVector<int64_t> strides = getStrides(shape);
  std::array<int64_t, 4> place{batch, head, query, 0};
  uint64_t element = 0;
  for (auto [dim, stride] : llvm::enumerate(strides)) {
    if (!form.globalShape.empty())
      place[dim] += tensors.counters[3 + dim].integers[0];
    element += place[dim] * stride;
  }
  for (int64_t key = 0; key < sizes.keys; ++key) {
    uint32_t word = getRandomWord(
        form.rngId, element + key, tensors.counters[0].integers[0],
        tensors.counters[1].integers[0], tensors.counters[2].integers[0]);
    dropped[key] = word >= *form.rate * 4294967296.0 ? 1 / (1 - *form.rate) : 0;
  }
}

void polyrank::graph::evaluateAttention(const AttentionForm &form,
                                        const AttentionTensors &tensors,
                                        Tensor &result, Tensor &lse) {
  Rows rows(form, tensors);
  int64_t width = rows.sizes.valueWidth;
  rows.forEach([&] {
    double largest = -INFINITY, total = 0;
    for (int64_t key = 0; key < rows.sizes.keys; ++key)
      if (rows.hasWeight[key])
        largest = maximum(largest, rows.scores[key]);
    for (int64_t key = 0; key < rows.sizes.keys; ++key)
      if (rows.hasWeight[key])
        total += std::exp(rows.scores[key] - largest);
    lse.floats[rows.getRow()] = largest + std::log(total);
    double *y = &result.floats[rows.getRow() * width];
    for (int64_t key = 0; key < rows.sizes.keys; ++key) {
      if (!rows.hasWeight[key])
        continue;
      double probability =
          rows.dropped[key] * std::exp(rows.scores[key] - largest) / total;
      const double *v = &tensors.value->floats[rows.getColumn(key) * width];
      for (int64_t i = 0; i < width; ++i)
        y[i] += probability * v[i];
    }
  });
}

void polyrank::graph::evaluateAttentionGrad(
    const AttentionForm &form, const AttentionTensors &tensors,
    const Tensor &gradient, const Tensor &result, const Tensor &lse,
    Tensor &queryGradient, Tensor &keyGradient, Tensor &valueGradient,
    Tensor *biasGradient) {
  Rows rows(form, tensors);
  int64_t width = rows.sizes.width, valueWidth = rows.sizes.valueWidth;
  rows.forEach([&] {
    int64_t row = rows.getRow();
    const double *dy = &gradient.floats[row * valueWidth];
    const double *q = &tensors.query->floats[row * width];
    double *dq = &queryGradient.floats[row * width];
    double delta = dot(dy, &result.floats[row * valueWidth], valueWidth);
    // The sum is 1, unless scores are so low that lse holds nothing else.
    double total = 0;
    for (int64_t key = 0; key < rows.sizes.keys; ++key)
      if (rows.hasWeight[key])
        total += std::exp(rows.scores[key] - lse.floats[row]);
    // Padding has an lse of zero, whatever its scores are.
    if (total == 0)
      return;
    for (int64_t key = 0; key < rows.sizes.keys; ++key) {
      if (!rows.hasWeight[key])
        continue;
      int64_t column = rows.getColumn(key);
      const double *k = &tensors.key->floats[column * width];
      const double *v = &tensors.value->floats[column * valueWidth];
      double *dk = &keyGradient.floats[column * width];
      double *dv = &valueGradient.floats[column * valueWidth];
      double probability = std::exp(rows.scores[key] - lse.floats[row]) / total;
      for (int64_t i = 0; i < valueWidth; ++i)
        dv[i] += rows.dropped[key] * probability * dy[i];
      if (rows.isReplaced[key])
        continue;
      double slope =
          probability * (rows.dropped[key] * dot(dy, v, valueWidth) - delta);
      if (biasGradient)
        biasGradient->floats[rows.getElement(*biasGradient, key)] += slope;
      slope *= form.scale * rows.slopes[key];
      for (int64_t i = 0; i < width; ++i) {
        dq[i] += slope * k[i];
        dk[i] += slope * q[i];
      }
    }
  });
}
