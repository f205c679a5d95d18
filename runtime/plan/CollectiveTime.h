// How long a collective takes: the one function that the compiler's passes, the
// times of a plan, its reports and the pacing of communicators ask.
//
// g members, n bytes of the larger one of input and output, a link with latency
// a and time b of a byte:
//
//   all_reduce                  2 ceil(log2 g) a + 2 n (g - 1) / g b
//   reduce_scatter, all_gather    ceil(log2 g) a +   n (g - 1) / g b
//   broadcast                     ceil(log2 g) a +   n (g - 1) / g b
//   all_to_all                               a   +   n (g - 1) / g b
//   permute, halo, halo_add                  a   +   n b
//
// A reduce_scatter halves the distance of partners from round to round, an
// all_gather doubles it, and an all_reduce is the one and then the other:
// Thakur, Rabenseifner, Gropp, Optimization of Collective Communication
// Operations in MPICH (2005); for groups that are no powers of two: Träff,
// Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms (2024). These
// trees wait less often than rings, 12 instead of 126 times for an all_reduce
// of 64, and send as little. The messages of an exchange are all under way at
// once. So a collective over two axes takes no longer than one over each of
// them, with equal links.

#pragma once

#include "runtime/plan/Collectives.h"
#include "support/LinkTime.h"

namespace polyrank::runtime {

/// How often the members wait for each other: the rounds of messages of which
/// each needs the one before; 0 for one member.
int64_t countWaits(CollectiveKind kind, int64_t members);

/// The same time as collectiveTime below, not rounded: for sums over several
/// collectives that are compared. The rounded sums of equal ones are equal.
double exactCollectiveTime(CollectiveKind kind, int64_t members,
                           uint64_t sentBytes, const LinkTime &link);

/// Picoseconds from the start to the end of a collective over `members` in
/// which each of them sends `sentBytes` (sentBytes of Collectives.h, summed
/// over all transfers of a bucket); 0 for one member.
int64_t collectiveTime(CollectiveKind kind, int64_t members, uint64_t sentBytes,
                       const LinkTime &link);

} // namespace polyrank::runtime
