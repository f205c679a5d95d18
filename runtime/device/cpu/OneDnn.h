// oneDNN, loaded when the first product is made ready: a plan without products
// runs on a machine that lacks it, and its 40 MB are mapped for none that does
// not call it.

#pragma once

#include "support/Result.h"

namespace polyrank::runtime {

/// By the name of its binary interface.
inline constexpr const char *oneDnnLibrary = "libdnnl.so.2";

/// Loads it. To be called before anything of <oneapi/dnnl/dnnl.hpp>; again
/// and on any thread it says what it said first. Fails where the machine has no
/// such library, or one that lacks a function.
Result<void> loadOneDnn();

} // namespace polyrank::runtime
