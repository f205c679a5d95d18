// Handles out-of-memory.

#pragma once

namespace polyrank {

inline constexpr const char *outOfMemoryText =
    "out of memory: the process may not have more (ulimit -v, or the control "
    "group's memory.max)";

/// Writes "PROGRAM: error: out of memory: .." to standard error without
/// allocating, and exits with status 1.
[[noreturn]] void endOutOfMemory();

/// From now on a failing `new` calls `endOutOfMemory` instead of throwing
/// std::bad_alloc, which would unwind through code built without exceptions
/// (LLVM's and ours that uses it) or end in std::terminate. For programs that
/// have nothing to save. `program`, the name to print, must stay valid.
void endWhenOutOfMemory(const char *program);

} // namespace polyrank
