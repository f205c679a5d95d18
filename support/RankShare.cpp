// How many ranks each of several machines runs.

#include "support/RankShare.h"

#include <fmt/format.h>

using namespace polyrank;

Result<int64_t> polyrank::ranksOfEach(std::string_view whose, int64_t ranks,
                                      int64_t machines) {
  if (machines < 1 || ranks % machines != 0)
    return Error{fmt::format("the {}'s {} ranks cannot be shared out evenly "
                             "over {} machines, which take a multiple of {} "
                             "ranks",
                             whose, ranks, machines, machines)};
  return ranks / machines;
}
