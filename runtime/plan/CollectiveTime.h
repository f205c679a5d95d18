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
//
// A machine file may name the algorithms of a level. Halving is the above; the
// others have, for all that does not exchange,
//
//   ring   all_reduce           2 (g - 1) a + 2 n (g - 1) / g b
//          the halves of one      (g - 1) a +   n (g - 1) / g b
//   tree   all_reduce           2 ceil(log2 g) a + 2 n b
//          broadcast              ceil(log2 g) a +   n b
//
// The one that is faster counts. A group with i members in each of o nodes uses
// the links between nodes for all g = i o members, or, hierarchically, scatters
// n within each node, reduces n / i between nodes, and gathers within the
// nodes.

#pragma once

#include "runtime/plan/Collectives.h"
#include "support/LinkLevel.h"
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

/// Picoseconds of a collective, not rounded, over a group that lies so on nodes
/// whose links a machine file states; 0 for one member. `sentBytes` is what a
/// member of one ring sends, as above.
double exactCollectiveTime(CollectiveKind kind, const GroupPlaces &places,
                           uint64_t sentBytes, const LinkLevels &levels);

} // namespace polyrank::runtime
