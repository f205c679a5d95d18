// Writes a rank's profile and its part of the trace.

#include "runtime/session/RankRecords.h"

#include "runtime/exec/Profile.h"
#include "runtime/exec/ResidentMemory.h"
#include "runtime/plan/ProgramChannels.h"
#include "support/File.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace polyrank::runtime {

Result<void> RankRecords::measureRates() {
  if (rank.options.profile.empty())
    return {};
  if (Result<void> all = rank.awaitAll(); !all)
    return all;
  POLYRANK_ASSIGN(
      measured, runtime::measureRates(
                    *rank.device,
                    narrowFactors(rank.loaded->program(rank.programNumber()))));
  rates.flopsPerSecond =
      std::max(rates.flopsPerSecond, measured.flopsPerSecond);
  rates.bytesPerSecond =
      std::max(rates.bytesPerSecond, measured.bytesPerSecond);
  for (auto [factors, rate] : measured.narrow)
    rates.narrow[factors] = std::max(rates.narrow[factors], rate);
  return {};
}

void RankRecords::start() {
  if (!rank.options.profile.empty() && rank.rank() == 0)
    rank.program->startProfile();
  if (!rank.options.trace.empty())
    rank.program->startTrace(trace.emplace(*rank.loaded, rank.rank()));
}

Result<void> RankRecords::write(uint64_t steps) {
  if (Result<void> written = writeTrace(steps); !written)
    return written;
  return writeProfile();
}

Result<void> RankRecords::writeProfile() const {
  const SessionOptions &options = rank.options;
  if (options.profile.empty() || rank.rank() != 0)
    return {};
  const Profile &profile = *rank.program->profile();
  std::string text = options.json ? profile.json(rank.plan(), rates)
                                  : profile.table(rank.plan(), rates);
  Descriptor file(
      fcntl(rank.connection.descriptors()[profileFile], F_DUPFD_CLOEXEC, 0));
  return writeAt(file, options.profile, 0, text.data(), text.size());
}

Result<void> RankRecords::writeTrace(uint64_t steps) {
  if (!trace)
    return {};
  for (int next = 0; next < rank.job->worldSize(); ++next) {
    if (next == rank.rank())
      if (Result<void> written = appendTrace(); !written)
        return written;
    if (Result<void> all = rank.awaitAll(); !all)
      return all;
  }
  rank.reportOnce(
      TracedMessage{trace->firstLeftOut() ? trace->firstLeftOut() - 1 : steps});
  return {};
}

/// The file is on the machine of rank 0. With several machines the launcher
/// there ends it, once what all ranks have sent has come.
Result<void> RankRecords::appendTrace() {
  if (!rank.job->here().has(0))
    return trace->write(
        [&](std::string_view text) -> Result<void> {
          rank.beat();
          rank.report(TracePieceMessage{std::string(text)});
          return {};
        },
        rank.job->clockOffset());
  Descriptor file(
      fcntl(rank.connection.descriptors()[traceFile], F_DUPFD_CLOEXEC, 0));
  auto position = uint64_t(lseek(file.get(), 0, SEEK_END));
  auto append = [&](std::string_view text) -> Result<void> {
    rank.beat();
    Result<void> written =
        writeAt(file, rank.options.trace, position, text.data(), text.size());
    position += text.size();
    return written;
  };
  if (rank.rank() == 0)
    if (Result<void> begun = append(
            trace->prologue(rank.rehearsal.has_value(), rank.options.links,
                            rank.job->worldSize() / rank.job->here().count));
        !begun)
      return begun;
  if (Result<void> written = trace->write(append); !written)
    return written;
  return rank.rank() == rank.job->worldSize() - 1 ? append(Trace::epilogue())
                                                  : Result<void>();
}

void RankRecords::reportUse() const {
  RankUse use;
  ResidentMemory memory = residentMemory();
  use.peakResident = memory.peak;
  // Of the shared memory, only what this rank registers and sends counts.
  const plan::Program &program =
      *rank.plan().programs()->Get(rank.programNumber());
  uint64_t own = program.shared_size() + *channelBytesOf(program);
  use.peakOwn =
      memory.peak - std::min(memory.peak, std::max(memory.shared, own) - own);
  const CommandTimes &times = rank.program->times();
  use.communicationSeconds = 1e-9 * times.communication();
  use.computeSeconds = 1e-9 * times.total() - use.communicationSeconds;
  use.dataSeconds = rank.program->dataSeconds();
  for (const CollectiveStatistics &kind : rank.communicator->statistics()) {
    use.sentBytes += kind.bytes;
    use.startingSeconds += 1e-9 * kind.startingNanoseconds;
    use.waitingSeconds += 1e-9 * kind.waitingNanoseconds;
  }
  rank.report(use);
}

} // namespace polyrank::runtime
