// Activations that are several ops, and bounds on values.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Bounds x: returns `bound` where x is beyond it (below if `isLower`, else
/// above), and x elsewhere. At x = bound the value is the same either way, but
/// operators differ in the gradient of x there: with `passes` all of it
/// (clamp), else none (hardtanh, relu6).
Imported clipped(Emitter &emit, const Imported &x, const Imported &bound,
                 bool isLower, bool passes);

/// max(x, 0) + log(1 + exp(-|x|)), which does not overflow. The gradient at 0
/// is that of the maximum, 1/2 (that of |x| is 0 there; with relu the sum would
/// be 0).
Imported softplusOf(Emitter &emit, const Imported &x);

/// scale * (exp(min(x, 0) / divisor) - 1). The minimum keeps infinities out of
/// a select that takes this for negative x. At 0 the whole gradient goes to x.
Imported exponential(Emitter &emit, const Imported &x, double scale,
                     double divisor = 1);

/// min(max(alpha * x + beta, 0), 1).
Imported hardSigmoidOf(Emitter &emit, const Imported &x, double alpha,
                       double beta);

} // namespace polyrank::frontends
