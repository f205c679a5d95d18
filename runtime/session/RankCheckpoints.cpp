// Decides, with the other ranks, which steps are saved.

#include "runtime/session/RankCheckpoints.h"

#include "runtime/checkpoint/Commit.h"

#include <fmt/format.h>
#include <thread>

namespace polyrank::runtime {

Result<std::unique_ptr<RankCheckpoints>>
RankCheckpoints::create(LoadedRank &rank,
                        std::function<Result<void>()> finishSteps) {
  std::unique_ptr<RankCheckpoints> created(
      new RankCheckpoints(rank, std::move(finishSteps)));
  POLYRANK_ASSIGN(computed, checkpointLayoutOf(rank.plan()));
  created->layout = std::move(computed);
  POLYRANK_ASSIGN(saver,
                  CheckpointSaver::create(created->layout, rank.rank(),
                                          *rank.program, *rank.weights,
                                          rank.parallelFor(), created->files));
  created->saver = std::move(saver);
  return std::move(created);
}

Result<void> RankCheckpoints::after(uint64_t step, uint64_t steps) {
  poll();
  uint64_t every = rank.options.checkpoints.everySteps;
  if (step == steps || rank.page->isSaveAfter(step))
    return save(step);
  if (every == 0 || step % every != 0)
    return {};
  POLYRANK_ASSIGN(saves, isSavedInTurn(step));
  return saves ? save(step) : Result<void>();
}

Result<bool> RankCheckpoints::isSavedInTurn(uint64_t step) {
  auto secondsSince = [](std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  uint64_t number = due++;
  // Keeps every rank close enough to read what was decided.
  if (number % (RunPage::decisions / 2) == 0)
    if (Result<void> all = rank.awaitAll(); !all)
      return all.error();
  auto start = std::chrono::steady_clock::now();
  for (;;) {
    double now = waitedForDisk + secondsSince(start);
    POLYRANK_ASSIGN(decision,
                    decide(number, step, now > 2 + 0.01 * secondsSince(began)));
    if (decision == RunPage::SaveDecision::Wait) {
      rank.beat();
      poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    waitedForDisk = now;
    if (decision == RunPage::SaveDecision::SkipAndSay)
      rank.report(SkippedSaveMessage{step});
    return decision == RunPage::SaveDecision::Save;
  }
}

/// Ranks of several machines have no page in common: what rank 0 finds decides.
Result<RunPage::SaveDecision>
RankCheckpoints::decide(uint64_t number, uint64_t step, bool givesUp) {
  using Decision = RunPage::SaveDecision;
  if (!rank.job->isShared())
    return rank.page->decideSave(number, step, givesUp);
  Decision own = rank.rank() == 0 ? rank.page->decideSave(number, step, givesUp)
                                  : Decision::Wait;
  POLYRANK_ASSIGN(all, rank.exchange(uint64_t(own)));
  Decision decided = Decision(all.front());
  // Rank 0 says it for all.
  return decided == Decision::SkipAndSay && rank.rank() != 0 ? Decision::Skip
                                                             : decided;
}

Result<void> RankCheckpoints::save(uint64_t step) {
  if (Result<void> over = finishSteps(); !over)
    return over;
  Result<std::optional<ShardReport>> before = saver->save(
      step,
      unfinishedPath(rank.options.checkpoints.folder, step, rank.facts().run),
      checks.stopAtNan(), [this] { rank.beat(); });
  if (!before)
    return before.error().fault == Error::Fault::NotFinite
               ? checks.explain(before.error(), fmt::format("step {}", step))
               : before.error();
  report(*before);
  savedStep = step;
  return {};
}

void RankCheckpoints::poll() { report(saver->poll()); }

void RankCheckpoints::finish() {
  report(saver->finish([this] { rank.beat(); }));
}

void RankCheckpoints::report(const std::optional<ShardReport> &shard) const {
  if (shard)
    rank.report(*shard);
}

} // namespace polyrank::runtime
