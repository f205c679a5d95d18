// Tells feeds from files, and takes the weights off their names.

#include "runtime/feed/FeedSources.h"

#include "runtime/data/DataFiles.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace polyrank::runtime {
namespace {

double sumOf(std::span<const FeedSource> feeds) {
  return std::accumulate(
      feeds.begin(), feeds.end(), 0.0,
      [](double sum, const FeedSource &feed) { return sum + feed.weight; });
}

} // namespace

Result<std::vector<FeedSource>> findFeeds(std::span<const std::string> given) {
  if (given.size() == 1) {
    // A number at the end of a command is a part of it: there is nothing to
    // mix it with.
    std::optional<FeedName> feed = feedNameOf(given[0]);
    return feed ? std::vector{FeedSource{*std::move(feed)}}
                : std::vector<FeedSource>();
  }
  std::vector<FeedSource> feeds;
  const std::string *file = nullptr, *noWeight = nullptr;
  for (const std::string &text : given) {
    std::string named = text;
    POLYRANK_ASSIGN(weight, takeWeight(named));
    std::optional<FeedName> feed = feedNameOf(named);
    if (!feed) {
      file = &text;
      continue;
    }
    feed->given = text;
    if (!weight)
      noWeight = &text;
    feeds.push_back({*std::move(feed), weight.value_or(1)});
  }
  if (feeds.empty())
    return feeds;
  if (file)
    return Error{fmt::format(
        "--data {} is a feed, and --data {} is not: samples are taken from "
        "feeds alone or from files alone; give the file by a feed too, or let "
        "the feed mix it in",
        feeds[0].name.given, *file)};
  if (noWeight)
    return Error{fmt::format(
        "--data {}: of several feeds each has a weight after the last colon, "
        "its share of the samples: --data '{}:0.5'",
        *noWeight, *noWeight)};
  return feeds;
}

std::string describe(std::span<const FeedSource> feeds) {
  if (feeds.size() == 1)
    return feeds[0].name.describe();
  std::string text;
  for (const FeedSource &feed : feeds)
    text += fmt::format("{}'{}' ({:.4g} %)", text.empty() ? "the feeds " : ", ",
                        feed.name.text, 100 * feed.weight / sumOf(feeds));
  return text;
}

std::string mixtureOf(std::span<const FeedSource> feeds) {
  std::string text = "a feed";
  if (feeds.size() > 1)
    for (const FeedSource &feed : feeds)
      text += fmt::format(" {}", feed.weight / sumOf(feeds));
  return text;
}

} // namespace polyrank::runtime
