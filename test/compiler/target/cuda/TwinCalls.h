// The functions that a twin's code calls in place of LLVM's intrinsics.

#pragma once

#include <cstddef>

namespace polyrank::twin {

/// A function with the intrinsic's parameters, where booleans are i32, and at
/// last the number of the call (i32). Its result is the intrinsic's, where a
/// boolean is i32.
struct TwinCall {
  const char *intrinsic;
  void *function;
};

/// Returns the function for an intrinsic of NVVM; null if there is none.
const TwinCall *findCall(const char *intrinsic);

/// What each access of memory calls first: (address, size, alignment, site).
void *getReadFunction();
void *getWriteFunction();

} // namespace polyrank::twin
