// Activations that are several ops, and what bounds a value.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// `bound` where x lies beyond it, that is below it where `isLower` and else
/// above, else x. The two are equal where x is the bound, and operators differ
/// in the gradient that x gets there: with `passes` all of it (clamp), else
/// none (hardtanh, relu6).
Imported clipped(Emitter &emit, const Imported &x, const Imported &bound,
                 bool isLower, bool passes);

/// max(x, 0) + log(1 + exp(-|x|)), which does not overflow. The gradient at 0
/// is the maximum's, a half (that of |x| is 0, and relu's would be too).
Imported softplusOf(Emitter &emit, const Imported &x);

/// scale * (exp(x / divisor) - 1), of the negative part only, so that no
/// infinity enters the select. At 0 all of the gradient is x's.
Imported exponential(Emitter &emit, const Imported &x, double scale,
                     double divisor = 1);

/// min(max(alpha * x + beta, 0), 1).
Imported hardSigmoidOf(Emitter &emit, const Imported &x, double alpha,
                       double beta);

} // namespace polyrank::frontends
