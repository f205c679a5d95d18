// The summary of a run, and its results.

#include "tools/polyrank-run/ShowEnd.h"

#include "runtime/report/Messages.h"
#include "support/ByteText.h"
#include "support/Json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// Tells what the ranks have used, and which files were written.
void summarise(const RunEnd &end) {
  const Prepared &run = end.run;
  const SessionOptions &options = run.options;
  const Progress &progress = end.progress;
  tell(describeEnd(run.report, *run.mesh, end.uses));
  if (end.rehearsedSeconds)
    tell(fmt::format(
        "rehearsed: a step took {:.2f} ms, and at least {:.2f}; by times and "
        "links {:.2f}, of which {:.2f} ms are {:.3f} times as long\n",
        1e3 * progress.secondsPerStep(), 1e3 * progress.leastSecondsPerStep(),
        1e3 * *end.rehearsedSeconds, 1e3 * progress.secondsPerStep(),
        progress.secondsPerStep() / std::max(*end.rehearsedSeconds, 1e-12)));
  if (!progress.checkpoints().empty()) {
    const CheckpointReport &last = progress.checkpoints().back();
    tell(fmt::format(
        "checkpoints: {}{}, the last one {} ({})\n",
        progress.checkpoints().size(),
        end.skippedSaves ? fmt::format(" ({} skipped)", end.skippedSaves) : "",
        last.path, bytesText(last.bytes)));
  }
  for (const SaveReport &saved : progress.saved())
    tell(fmt::format(
        "saved {} ({} in {:.2f} s, {}/s)\n", saved.path, bytesText(saved.bytes),
        saved.seconds,
        bytesText(static_cast<uint64_t>(static_cast<double>(saved.bytes) /
                                        std::max(saved.seconds, 1e-9)))));
  if (!options.outputs.empty()) {
    uint64_t all = run.data->samples(splitOf(options, *run.plan->plan)),
             some = outputSamplesOf(options, *run.plan->plan, *run.data);
    tell(some < all ? fmt::format("wrote {}: {} of {} samples (--steps {})\n",
                                  options.outputs, some, all, options.steps)
                    : fmt::format("wrote {}\n", options.outputs));
  }
  if (!options.profile.empty())
    tell(fmt::format("wrote {}\n", options.profile));
  if (!options.trace.empty())
    tell(end.tracedSteps < progress.stepsDone()
             ? fmt::format("wrote {}: the first {} of {} steps, which is as "
                           "much as a trace holds\n",
                           options.trace, end.tracedSteps, progress.stepsDone())
             : fmt::format("wrote {}\n", options.trace));
}

/// Returns what goes to standard output.
std::string resultsOf(const RunEnd &end) {
  const Prepared &run = end.run;
  const Progress &progress = end.progress;
  if (run.options.json)
    return toText(reportOf(run.report, *run.mesh, progress, end.uses,
                           filesOf(run.options), run.options.links,
                           end.rehearsedSeconds, end.restarts));
  std::string text;
  if (run.plan->plan->mode() != plan::Mode::Forward || run.options.quiet)
    return text;
  for (auto &[name, value] : progress.means())
    text += fmt::format("{} {:.6g} (mean over {} samples)\n", name, value,
                        progress.samples());
  for (auto &[name, value] : progress.totals())
    text +=
        fmt::format("{} {} (of {} samples)\n", name, value, progress.samples());
  return text;
}

} // namespace

Result<void> showEnd(const Run &run) {
  RunEnd end = run.end();
  if (!end.run.options.quiet)
    summarise(end);
  if (int signal = EndSignals::late())
    tell(fmt::format("polyrank-run: {} came when all steps were done; the run "
                     "is complete\n",
                     strsignal(signal)));
  if (!run.logged())
    return run.logged();
  if (!print(resultsOf(end)))
    return Error{fmt::format("cannot write to standard output: {}",
                             std::strerror(errno)),
                 Error::Fault::Rank};
  return run.checkpointed();
}

} // namespace polyrank::runtime
