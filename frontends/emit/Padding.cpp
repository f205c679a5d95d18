// Padding with copies of existing elements.

#include "frontends/emit/Padding.h"

using namespace mlir;

namespace polyrank::frontends {

/// The largest dim that padding may produce.
static constexpr int64_t maxCopied = 1 << 24;

/// The element of a dim of `size` that padding shows at position `at`, which
/// may be outside; nullopt if `mode` is not such a padding.
static std::optional<int64_t> sourceOf(int64_t at, int64_t size,
                                       StringRef mode) {
  auto modulo = [&](int64_t period) {
    return ((at % period) + period) % period;
  };
  if (mode == "edge")
    return std::clamp<int64_t>(at, 0, size - 1);
  if (mode == "wrap")
    return modulo(size);
  if (mode != "reflect")
    return std::nullopt;
  if (size == 1)
    return 0;
  int64_t period = 2 * (size - 1), phase = modulo(period);
  return std::min(phase, period - phase);
}

bool isCopyMode(StringRef mode) { return sourceOf(0, 1, mode).has_value(); }

FailureOr<Imported> padByCopies(Emitter &emit, const Imported &x, int64_t dim,
                                int64_t before, int64_t after, StringRef mode) {
  int64_t size = x.getShape()[dim];
  if (size == 0 || before > maxCopied || after > maxCopied ||
      before + after + size > maxCopied)
    return emit.fail("padding " + toString({before, after}) + " of " +
                     Twine(size) + " elements with mode `" + mode + "`");
  SmallVector<int64_t> sources;
  for (int64_t at = -before; at < size + after; ++at)
    sources.push_back(*sourceOf(at, size, mode));
  return emit.binary<graph::GatherOp>(x, emit.integers(sources), dim);
}

} // namespace polyrank::frontends
