// The buffers of attention and its gradient on a CPU.

#include "runtime/plan/CallRules.h"
#include "runtime/plan/TileProducts.h"
#include "runtime/plan/Verifier.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace polyrank::runtime {

using namespace plan;

/// The most queries or keys of a tile: scratch has a few numbers for each pair.
static constexpr int64_t largestBlock = 4096;

/// The bytes of a float, and of a counter of dropout.
static const uint64_t floatBytes = elementSize(ElementType::F32),
                      counterBytes = elementSize(ElementType::I64);

namespace {

struct Dim {
  int64_t size, stride;
};

/// A tensor of which a buffer holds a part, or all.
struct StridedTensor {
  const char *name;
  std::array<Dim, 4> dims;
  uint64_t element; // bytes
};

StridedTensor rowsOf(const char *name, const RowStrides &strides, int64_t batch,
                     int64_t heads, int64_t rows, int64_t width,
                     uint64_t element) {
  return {name,
          {Dim{batch, strides.batch()}, Dim{heads, strides.head()},
           Dim{rows, strides.row()}, Dim{width, 1}},
          element};
}

StridedTensor scoresOf(const char *name, const ScoreStrides &strides,
                       const CpuAttention &attention, uint64_t element) {
  return {name,
          {Dim{attention.batch(), strides.batch()},
           Dim{attention.heads(), strides.head()},
           Dim{attention.queries(), strides.query()},
           Dim{attention.keys(), strides.key()}},
          element};
}

/// One tensor of the call, with its strides where the plan has them.
struct RowTensor {
  const char *name;
  const RowStrides *strides;
  int64_t heads, rows, width;
  bool isWritten;

  StridedTensor in(const CpuAttention &attention) const {
    return rowsOf(name, *strides, attention.batch(), heads, rows, width,
                  elementSize(attention.type()));
  }
};

/// The tensors of rows, those that are read first.
std::vector<RowTensor> tensorsOf(const CpuAttention &a) {
  const CpuAttentionGrad *grad = a.grad();
  RowTensor query{"query", a.query(), a.heads(), a.queries(), a.width(), false};
  RowTensor key{"key", a.key(), a.groups(), a.keys(), a.width(), false};
  RowTensor value{"value",  a.value(),       a.groups(),
                  a.keys(), a.value_width(), false};
  RowTensor result{"result",    a.result(),      a.heads(),
                   a.queries(), a.value_width(), !grad};
  if (!grad)
    return {query, key, value, result};
  auto gradient = [](const char *name, const RowStrides *strides,
                     RowTensor like, bool isWritten) {
    like.name = name, like.strides = strides, like.isWritten = isWritten;
    return like;
  };
  return {gradient("result's gradient", grad->result_gradient(), result, false),
          query,
          key,
          value,
          result,
          gradient("query's gradient", grad->query_gradient(), query, true),
          gradient("key's gradient", grad->key_gradient(), key, true),
          gradient("value's gradient", grad->value_gradient(), value, true)};
}

/// The least number of bytes of a buffer that has all elements.
CallOperand operandOf(const StridedTensor &tensor) {
  Checked elements = 1;
  for (Dim dim : tensor.dims)
    elements = elements + Checked::of(dim.size - 1) * Checked::of(dim.stride);
  auto [a, b, c, d] = tensor.dims;
  return {tensor.name, tensor.element, elements * Checked(tensor.element),
          fmt::format("{} x {} x {} x {} elements with strides {}, {}, {}, {}",
                      a.size, b.size, c.size, d.size, a.stride, b.stride,
                      c.stride, d.stride)};
}

/// Names a stride with which two elements would be in one place. `isSummed`:
/// dims of stride 0 are there once.
std::string findOverlap(StridedTensor tensor, bool isSummed) {
  auto isOnce = [&](Dim dim) {
    return dim.size == 1 || (isSummed && dim.stride == 0);
  };
  std::sort(tensor.dims.begin(), tensor.dims.end(),
            [](Dim a, Dim b) { return a.stride < b.stride; });
  Checked reach = 1;
  for (Dim dim : tensor.dims) {
    if (isOnce(dim))
      continue;
    if (dim.stride < 0 || !reach.fits(dim.stride))
      return fmt::format("{}: {} of its parts are {} elements apart, so that "
                         "two of them are written to one place",
                         tensor.name, dim.size, dim.stride);
    reach = Checked::of(dim.size - 1) * Checked::of(dim.stride) + reach;
  }
  return "";
}

std::string nameOf(ElementType type) {
  if (type < ElementType::MIN || type > ElementType::MAX)
    return std::to_string(int(type));
  return std::string(rowOf(static_cast<polyrank::ElementType>(type)).name);
}

std::string findTypeFault(const CpuAttention &a) {
  if (a.type() != ElementType::F32 && a.type() != ElementType::BF16 &&
      a.type() != ElementType::F16)
    return fmt::format("elements of type {}; attention has f32, bf16 and f16",
                       nameOf(a.type()));
  if (a.products() < TileProducts::MIN || a.products() > TileProducts::MAX)
    return fmt::format("tile products of kind {} do not exist",
                       int(a.products()));
  if (!multiplies(a.products(), a.type()))
    return fmt::format("tile products of kind {} do not multiply {}",
                       EnumNameTileProducts(a.products()), nameOf(a.type()));
  return "";
}

std::string findSizeFault(const CpuAttention &a) {
  for (auto [name, size] :
       {std::pair<const char *, int64_t>("batch", a.batch()),
        {"heads", a.heads()},
        {"groups", a.groups()},
        {"queries", a.queries()},
        {"keys", a.keys()},
        {"width", a.width()},
        {"value_width", a.value_width()}})
    if (size < 1)
      return fmt::format("{}={}", name, size);
  if (a.heads() % a.groups() != 0)
    return fmt::format("{} heads of queries are no multiple of {} heads of "
                       "keys",
                       a.heads(), a.groups());
  for (auto [name, size] :
       {std::pair<const char *, int64_t>("queries", a.block_queries()),
        {"keys", a.block_keys()}})
    if (size < 1 || size > largestBlock)
      return fmt::format("tiles of {} {}, they have 1 to {}", size, name,
                         largestBlock);
  return "";
}

std::string findScoreFault(const CpuAttention &a) {
  if (a.window() < 0 || (a.window() > 0 && !a.causal()))
    return fmt::format("a window of {} keys, {}", a.window(),
                       a.causal() ? "which is negative"
                                  : "which needs causal attention");
  if (!(a.softcap() >= 0) || !std::isfinite(a.softcap()))
    return fmt::format("a softcap of {}", a.softcap());
  if (!std::isfinite(a.scale()))
    return fmt::format("a scale of {}", a.scale());
  if (a.masked() < MaskedScores::MIN || a.masked() > MaskedScores::MAX)
    return fmt::format("hidden keys of kind {} do not exist", int(a.masked()));
  if (std::isnan(a.fill()))
    return "hidden keys count what is not a number";
  return "";
}

std::string findRowFault(const CpuAttention &a) {
  for (const RowTensor &tensor : tensorsOf(a)) {
    if (!tensor.strides)
      return fmt::format("{}: has no strides", tensor.name);
    if (tensor.strides->row() < tensor.width)
      return fmt::format("{}: rows of {} elements are {} elements apart",
                         tensor.name, tensor.width, tensor.strides->row());
    if (!tensor.isWritten)
      continue;
    std::string overlap = findOverlap(tensor.in(a), false);
    if (!overlap.empty())
      return overlap;
  }
  return "";
}

std::string findBiasFault(const CpuAttention &a) {
  const ScoreStrides *gradient = a.grad() ? a.grad()->bias_gradient() : nullptr;
  for (auto [name, strides] :
       {std::pair<const char *, const ScoreStrides *>("bias", a.bias()),
        {"mask", a.mask()},
        {"bias's gradient", gradient}})
    if (strides && strides->key() != 0 && strides->key() != 1)
      return fmt::format("{}: keys are {} elements apart, not 0 or 1", name,
                         strides->key());
  if (!gradient)
    return "";
  if (!a.bias())
    return "bias's gradient: there is no bias";
  return findOverlap(scoresOf("bias's gradient", *gradient, a, floatBytes),
                     true);
}

std::string findDropoutFault(const CpuAttention &a) {
  const AttentionDropout *dropout = a.dropout();
  if (!dropout)
    return "";
  if (!(dropout->rate() >= 0 && dropout->rate() < 1))
    return fmt::format("a dropout rate of {}", dropout->rate());
  return dropout->strides() ? "" : "dropout: has no strides";
}

} // namespace

CallRules rulesOf(const CpuAttention &attention) {
  CallRules rules;
  for (auto findFault : {findTypeFault, findSizeFault, findScoreFault,
                         findRowFault, findBiasFault, findDropoutFault})
    if (rules.fault = findFault(attention); !rules.fault.empty())
      return rules;
  const CpuAttentionGrad *grad = attention.grad();
  for (const RowTensor &tensor : tensorsOf(attention))
    (tensor.isWritten ? rules.writes : rules.reads)
        .push_back(operandOf(tensor.in(attention)));
  auto dense = [](const char *name, std::array<int64_t, 3> sizes,
                  uint64_t element) {
    auto [batch, heads, rows] = sizes;
    Checked elements =
        Checked::of(batch) * Checked::of(heads) * Checked::of(rows);
    return CallOperand{name, element, elements * Checked(element),
                       fmt::format("{} x {} x {} numbers", batch, heads, rows)};
  };
  (grad ? rules.reads : rules.writes)
      .push_back(dense(
          "lse", {attention.batch(), attention.heads(), attention.queries()},
          floatBytes));
  auto addScores = [&](std::vector<CallOperand> &to, const char *name,
                       const ScoreStrides *strides, uint64_t element) {
    if (strides)
      to.push_back(operandOf(scoresOf(name, *strides, attention, element)));
  };
  addScores(rules.reads, "bias", attention.bias(), floatBytes);
  addScores(rules.reads, "mask", attention.mask(), 1);
  if (const AttentionDropout *dropout = attention.dropout()) {
    for (const char *name : {"seed", "step", "microbatch"})
      rules.reads.push_back(dense(name, {1, 1, 1}, counterBytes));
    if (dropout->offsets())
      for (const char *name : {"batch's offset", "heads' offset",
                               "queries' offset", "keys' offset"})
        rules.reads.push_back(dense(name, {1, 1, 1}, counterBytes));
  }
  if (grad)
    addScores(rules.writes, "bias's gradient", grad->bias_gradient(),
              floatBytes);
  return rules;
}

} // namespace polyrank::runtime
