// Places at which a test makes something fail: in test builds only.

#pragma once

namespace polyrank {

/// What `failpoint` returns where a value is to become NaN; no errno is that.
inline constexpr int failWithNan = -1;

#ifdef POLYRANK_FAILPOINTS
/// Does what the variable POLYRANK_FAIL asks for at the point of this name, in
/// builds with the CMake option POLYRANK_FAILPOINTS (preset dev). It has
/// entries with a `;` between them:
///
///   NAME[:rank=R|launcher][:attempt=A][:hit=N]:action=WHAT
///
/// In the process of rank R (default: each rank; not the launcher), of the A-th
/// start of all ranks (default 1, 0: each), the N-th time that it comes there
/// (default 1, 0: each time), the process does one of
///
///   kill, stop, abort, segv   what the signal does
///   exit                      ends with status 0, as if all were well
///   spin                      goes round in circles
///   delay=MS                  sleeps so long
///   eio, enospc, emfile, eacces, estale
///                             what follows fails with this errno, returned
///                             here
///   nan                       what follows becomes NaN: failWithNan
///
/// Returns 0 where nothing is asked for. An entry that is not understood ends
/// the process with status 1 and a word.
int failpoint(const char *name);
#else
constexpr int failpoint(const char *) { return 0; }
#endif

} // namespace polyrank
