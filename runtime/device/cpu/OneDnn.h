// oneDNN, loaded when the first GEMM is prepared: a plan without GEMMs runs on
// a machine without oneDNN, and does not map its 40 MB.

#pragma once

#include "support/Result.h"

#include <oneapi/dnnl/dnnl_version.h>

namespace polyrank::runtime {

#define POLYRANK_TEXT_OF(number) #number
#define POLYRANK_TEXT(macro) POLYRANK_TEXT_OF(macro)

/// The version that the program was compiled for: 2.6 and later of 2, or 3.
inline constexpr const char *oneDnnVersion =
    POLYRANK_TEXT(DNNL_VERSION_MAJOR) "." POLYRANK_TEXT(DNNL_VERSION_MINOR);
/// The soname of its ABI, which the major version determines.
inline constexpr const char *oneDnnLibrary =
    "libdnnl.so." POLYRANK_TEXT(DNNL_VERSION_MAJOR);

/// Loads oneDNN. Must be called before anything of <oneapi/dnnl/dnnl.hpp>.
/// Further calls, on any thread, return the result of the first. Fails if the
/// machine has no such library, or one that lacks a function.
Result<void> loadOneDnn();

} // namespace polyrank::runtime
