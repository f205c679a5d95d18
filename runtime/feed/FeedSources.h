// The feeds of a run, with their shares of the samples.

#pragma once

#include "runtime/feed/FeedInput.h"

#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

struct FeedSource {
  FeedName name;
  double weight = 1; // above 0
};

/// The feeds that the values of --data name; none if they are files. One feed
/// is named as it is. Several have a weight each after the last colon
/// (`command:python web.py:0.7`), and SourceMix says which of them gives each
/// sample. Fails if a weight is missing, or if files are among them.
Result<std::vector<FeedSource>> findFeeds(std::span<const std::string> given);

/// "the feed 'python web.py'", or "the feeds 'python web.py' (70 %), 'python
/// books.py' (30 %)".
std::string describe(std::span<const FeedSource> feeds);

/// Identifies what decides which feed gives each sample: the weights.
std::string mixtureOf(std::span<const FeedSource> feeds);

} // namespace polyrank::runtime
