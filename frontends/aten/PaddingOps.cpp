// Padding.

#include "frontends/aten/Call.h"
#include "frontends/emit/Padding.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// `pad` lists the padding before and after the last dim, then that of the dim
/// before it, and so on; negative padding cuts off.
LogicalResult padWith(Call &c, StringRef mode, double value) {
  Imported x = c.read("self");
  int64_t rank = x.getRank();
  SmallVector<int64_t> pad = c.integers(c.has("pad") ? "pad" : "padding");
  if (pad.size() % 2 != 0 || static_cast<int64_t>(pad.size()) > 2 * rank)
    return c.fail("padding " + toString(pad) + " of " + toString(x.getShape()));
  SmallVector<int64_t> low(rank, 0), high(rank, 0), interior(rank, 0);
  for (size_t i = 0; i < pad.size(); i += 2) {
    int64_t dim = rank - 1 - static_cast<int64_t>(i) / 2,
            size = x.getShape()[dim], before = pad[i], after = pad[i + 1];
    int64_t start = std::max<int64_t>(0, -before),
            end = size - std::max<int64_t>(0, -after);
    before = std::max<int64_t>(0, before);
    after = std::max<int64_t>(0, after);
    if (start > end || before > maxElements || after > maxElements)
      return c.fail("padding " + toString(pad) + " of " +
                    toString(x.getShape()));
    x = c.emit.slice(x, dim, start, end);
    if (mode == "constant") {
      low[dim] = before;
      high[dim] = after;
    } else if (before || after) {
      auto padded = padByCopies(c.emit, x, dim, before, after, mode);
      if (failed(padded))
        return failure();
      x = *padded;
    }
  }
  if (llvm::any_of(low, [](int64_t p) { return p; }) ||
      llvm::any_of(high, [](int64_t p) { return p; }))
    x = c.emit.unary<graph::PadOp>(x, ArrayRef<int64_t>(low),
                                   ArrayRef<int64_t>(high),
                                   ArrayRef<int64_t>(interior), value);
  return c.give(x, c.typeOf("self"));
}

LogicalResult pad(Call &c) {
  StringRef mode = c.text("mode");
  double value = c.has("value") ? c.number("value") : 0;
  if (mode == "constant" || mode == "reflect")
    return padWith(c, mode, value);
  if (mode == "replicate")
    return padWith(c, "edge", 0);
  if (mode == "circular")
    return padWith(c, "wrap", 0);
  return c.fail("mode='" + mode + "'");
}

LogicalResult constantPad(Call &c) {
  return padWith(c, "constant", c.number("value"));
}
LogicalResult reflectionPad(Call &c) { return padWith(c, "reflect", 0); }
LogicalResult replicationPad(Call &c) { return padWith(c, "edge", 0); }

const OperatorRow rows[] = {
    {"pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? "
     "value=None) -> Tensor",
     pad},
    {"constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
     constantPad},
    {"reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
     reflectionPad},
    {"reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
     reflectionPad},
    {"reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
     reflectionPad},
    {"replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
     replicationPad},
    {"replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
     replicationPad},
    {"replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
     replicationPad},
};

} // namespace

ArrayRef<OperatorRow> getPaddingRows() { return rows; }

} // namespace polyrank::frontends::aten
