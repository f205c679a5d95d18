// Attention and its gradient as calls of a plan.

#pragma once

#include "runtime/device/Device.h"

namespace polyrank::runtime {

/// Prepares a call whose body is attention, for a team of `threads`; see
/// Device::prepare.
Device::Prepared prepareAttention(const plan::Call &call,
                                  const ArenaView &arena, int threads);

} // namespace polyrank::runtime
