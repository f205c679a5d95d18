// Writes the files of --save and of its relatives.

#include "runtime/session/WeightFiles.h"

#include "runtime/exec/SaveWeights.h"

#include <chrono>

namespace polyrank::runtime {
namespace {

/// Writes to the descriptors from number `descriptor` on, and advances it past
/// them.
Result<void> write(LoadedRank &rank, const SaveFile &save, int &descriptor) {
  auto start = std::chrono::steady_clock::now();
  std::vector<SavedFile> files = savedFilesOf(rank.plan(), save.what, save.path,
                                              rank.options.saveShardBytes());
  uint64_t bytes = bytesOf(files), before = 0;
  bool isWriter = rank.job->here().has(0);
  auto report = [&](uint64_t done, double seconds) {
    rank.reportOnce(SaveReport{save.path, done, bytes, seconds});
  };
  for (const SavedFile &file : files) {
    SaveOptions each{
        save.what,
        file,
        isWriter ? rank.connection.descriptors()[descriptor++] : -1,
        *rank.saveRounds,
        rank.parallelFor(),
        [&](uint64_t done, uint64_t) { report(before + done, 0); }};
    if (Result<void> saved = saveWeights(*rank.loaded, *rank.program,
                                         *rank.weights, *rank.job, each);
        !saved)
      return saved;
    before += file.bytes;
  }
  report(bytes,
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
             .count());
  return {};
}

} // namespace

Result<void> writeWeightFiles(LoadedRank &rank) {
  // The descriptors of communicators come before them.
  int communicators = rank.options.evalPlan.empty() ? 1 : 2;
  int descriptor = numJobFiles + communicators * communicatorFilesIn(*rank.job);
  for (const SaveFile &file : rank.options.saves())
    if (!file.path.empty())
      if (Result<void> written = write(rank, file, descriptor); !written)
        return written;
  return {};
}

} // namespace polyrank::runtime
