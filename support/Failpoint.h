// Points at which a test injects a fault, in test builds only.

#pragma once

namespace polyrank {

/// The result of `failpoint` if a value is to become NaN; it is no errno.
inline constexpr int failWithNan = -1;

#ifdef POLYRANK_FAILPOINTS
/// Injects the fault that the variable POLYRANK_FAIL requests for the point of
/// this name, in builds with the CMake option POLYRANK_FAILPOINTS (preset dev).
/// The variable has entries separated by `;`:
///
///     NAME[:rank=R|launcher][:attempt=A][:hit=N]:action=WHAT
///
/// In the process of rank R (default: every rank, but not the launcher), in the
/// A-th start of all ranks (default 1, 0: every start), at the N-th time that
/// the point is reached (default 1, 0: every time), the process does one of
///
///     kill, stop, abort, segv   raises the signal
///     exit                      exits with status 0, as if it had succeeded
///     spin                      loops for ever
///     delay=MS                  sleeps so many milliseconds
///     eio, enospc, emfile, eacces, estale
///                               the operation after the point fails with this
///                               errno, which is returned
///     nan                       the value after the point becomes NaN:
///                               failWithNan is returned
///
/// Returns 0 if no fault is requested. An entry that is not understood ends the
/// process with status 1 and a message.
int failpoint(const char *name);
#else
constexpr int failpoint(const char *) { return 0; }
#endif

} // namespace polyrank
