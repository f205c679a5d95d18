// Attention.

#include "frontends/emit/Attention.h"

#include "frontends/aten/Call.h"
#include "frontends/aten/Dropout.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// Reshapes [batch.., length, width] to [batch, heads, length, width]: the dim
/// before the last two is the heads, which may be absent.
Imported withHeads(Call &c, const Imported &x, ArrayRef<int64_t> lead) {
  Shape shape = x.getShape(), spread(lead);
  spread.append({shape[shape.size() - 2], shape.back()});
  Imported whole = c.emit.broadcast(x, spread, !x.isConstant());
  int64_t heads = lead.empty() ? 1 : lead.back();
  int64_t batch = heads == 0 ? 0 : countElements(lead) / heads;
  return c.emit.reshape(whole,
                        {batch, heads, shape[shape.size() - 2], shape.back()});
}

LogicalResult attention(Call &c) {
  Imported query = c.read("query"), key = c.read("key"),
           value = c.read("value");
  for (const Imported *each : {&query, &key, &value})
    if (each->getRank() < 2 || !isa<FloatType>(each->getElementType()))
      return c.fail("attention of " + c["query"].describe() + ", " +
                    c["key"].describe() + " and " + c["value"].describe());
  Shape q = query.getShape(), k = key.getShape(), v = value.getShape();
  auto leadOf = [](const Shape &shape) {
    return Shape(ArrayRef<int64_t>(shape).drop_back(2));
  };
  Shape lead = leadOf(q), keyLead = leadOf(k), valueLead = leadOf(v);
  bool groups = c.flag("enable_gqa");
  if (!groups) {
    // The batch dims are broadcast.
    for (const Shape *other : {&keyLead, &valueLead}) {
      auto common = broadcastShapes(lead, *other);
      if (failed(common))
        return c.fail("attention of " + toString(q) + ", " + toString(k) +
                      " and " + toString(v));
      lead = *common;
    }
    keyLead = valueLead = lead;
  }
  query = withHeads(c, query, lead);
  key = withHeads(c, key, keyLead);
  value = withHeads(c, value, valueLead);
  Imported mask = c.read("attn_mask");
  if (mask) {
    // The mask gets as many dims as [batch, heads, queries, keys].
    Shape shape = mask.getShape();
    if (lead.size() < 2)
      shape.insert(shape.begin(), 4 - std::min<size_t>(4, shape.size()), 1);
    if (lead.size() == 1 && shape.size() == 4 && shape[1] != 1) {
      shape = mask.getShape();
      shape.insert(shape.begin(), 1); // [heads, ..] is for a batch of one
    }
    if (lead.size() > 2 && mask.getRank() > 2) {
      Shape whole = lead;
      whole.append({q[q.size() - 2], k[k.size() - 2]});
      mask = c.emit.broadcast(mask, whole, !mask.isConstant());
      shape = {countElements(lead) / lead.back(), lead.back(), q[q.size() - 2],
               k[k.size() - 2]};
    }
    mask = c.emit.reshape(mask, shape);
    if (c.typeOf("attn_mask") != ElementType::BOOL)
      mask = c.as(mask, c.typeOf("query"));
  }
  std::optional<double> scale;
  if (c.has("scale"))
    scale = c.number("scale");
  auto rate = dropoutRate(c, c.number("dropout_p"), c.number("dropout_p") > 0);
  if (failed(rate))
    return failure();
  auto drop = [&](Imported x) { return c.emit.dropout(x, *rate); };
  bool drops = *rate > 0;
  auto result = attentionOf(
      c.emit, query, key, value, mask, scale, c.flag("is_causal"),
      drops ? llvm::function_ref<Imported(Imported)>(drop) : nullptr);
  if (failed(result))
    return failure();
  Shape shape = lead;
  shape.append({q[q.size() - 2], v.back()});
  return c.give(c.emit.reshape(*result, shape), c.typeOf("query"));
}

const OperatorRow rows[] = {
    {"scaled_dot_product_attention(Tensor query, Tensor key, Tensor "
     "value, Tensor? attn_mask=None, float dropout_p=0., bool "
     "is_causal=False, *, float? scale=None, bool enable_gqa=False) -> "
     "Tensor",
     attention},
};

} // namespace

ArrayRef<OperatorRow> getAttentionRows() { return rows; }

} // namespace polyrank::frontends::aten
