// Small operations of a loaded rank.

#include "runtime/session/LoadedRank.h"

#include <fmt/format.h>

namespace polyrank::runtime {

Batch LoadedRank::batchOf(uint64_t step) const {
  return batches.empty()
             ? data->batchOf(splitOf(options, plan()), step - facts().origin)
             : batches[step];
}

void LoadedRank::report(const RankMessage &message) const {
  connection.report(toTagged(message));
}

void LoadedRank::reportOnce(const RankMessage &message) const {
  if (rank() == 0)
    report(message);
}

ParallelFor LoadedRank::parallelFor() const {
  return [team = team](int64_t range, int64_t grain, const RangeBody &body) {
    team->parallelFor(range, grain, body);
  };
}

std::vector<StoredSource> beating(std::vector<StoredSource> sources,
                                  JobMember &job) {
  for (StoredSource &source : sources)
    if (source.read)
      source.read = [&job, read = std::move(source.read)](
                        uint64_t offset, void *into, uint64_t length) {
        job.beat();
        return read(offset, into, length);
      };
  return sources;
}

Result<void> checkSameFile(const std::string &what, std::string_view launchers,
                           const Result<std::string> &found) {
  if (!found)
    return found.error();
  if (launchers.empty() || *found == launchers)
    return {};
  return Error{fmt::format("{}: the file changed while the run started: this "
                           "rank finds another one than the launcher found, or "
                           "one that was written to since; start again when "
                           "nobody writes it",
                           what),
               Error::Fault::Rank};
}

} // namespace polyrank::runtime
