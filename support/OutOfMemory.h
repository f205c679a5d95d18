// What a program does where the system gives it no more memory.

#pragma once

namespace polyrank {

inline constexpr const char *outOfMemoryText =
    "out of memory: the process may not have more (ulimit -v, or the control "
    "group's memory.max)";

/// Writes "PROGRAM: error: out of memory: .." to standard error, without taking
/// memory, and ends the process with exit status 1.
[[noreturn]] void endOutOfMemory();

/// From now on `new` does so where there is no memory, instead of throwing
/// std::bad_alloc, which would pass through code that is built without
/// exceptions (LLVM's, and ours that uses it) or end in std::terminate. For
/// programs that have nothing to save. `program`, a name, outlives the
/// process's work.
void endWhenOutOfMemory(const char *program);

} // namespace polyrank
