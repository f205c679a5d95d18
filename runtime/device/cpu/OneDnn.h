// oneDNN, loaded when the first GEMM is prepared: a plan without GEMMs runs on
// a machine without oneDNN, and does not map its 40 MB.

#pragma once

#include "support/Result.h"

namespace polyrank::runtime {

/// The soname of the supported ABI.
inline constexpr const char *oneDnnLibrary = "libdnnl.so.2";

/// Loads oneDNN. Must be called before anything of <oneapi/dnnl/dnnl.hpp>.
/// Further calls, on any thread, return the result of the first. Fails if the
/// machine has no such library, or one that lacks a function.
Result<void> loadOneDnn();

} // namespace polyrank::runtime
