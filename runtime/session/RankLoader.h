// Loads a rank: its plan, its device and program, its weights and samples.

#pragma once

#include "runtime/session/LoadedRank.h"

#include <memory>

namespace polyrank::runtime {

/// Used once, by one rank. What the launcher has checked before is read again,
/// and must be what the launcher found.
class RankLoader {
public:
  RankLoader(const SessionOptions &options, const RankConnection &connection,
             const RankParts &parts)
      : rank(std::make_unique<LoadedRank>(options, connection, parts)) {}

  /// Loads everything. A damaged checkpoint is reported before it is returned
  /// as an error, since the launcher may find another one.
  Result<std::unique_ptr<LoadedRank>> load();
  /// How long it took.
  const ReadyReport &times() const { return took; }

private:
  /// Opens the plan, and meets the other ranks.
  Result<void> join();
  Result<void> makeProgram();
  Result<void> makeDevice(bool rehearses);
  Result<void> loadWeights();
  Result<void> resume();
  Result<void> openSamples();
  Result<void> openFeed();
  Result<void> mapWindow();

  std::unique_ptr<LoadedRank> rank;
  ReadyReport took;
};

} // namespace polyrank::runtime
