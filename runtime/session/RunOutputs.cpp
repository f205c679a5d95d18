// What a run leaves: its files, and the summary at its end.

#include "runtime/session/Run.h"

#include "runtime/report/Messages.h"
#include "support/ByteText.h"
#include "support/arrays/Npz.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace polyrank::runtime {

std::string Run::keptFiles() const {
  if (!options.savesAny())
    return "";
  std::string kept;
  for (const SaveOutput &save : saveOutputs)
    for (const OutputFile &file : save.files())
      if (isKept)
        kept += fmt::format("; '{}' has the weights after step {}", file.path(),
                            progress->stepsDone());
      else if (access(file.path().c_str(), F_OK) == 0)
        kept += fmt::format("; '{}' is as it was", file.path());
  return kept.empty() ? "; nothing is saved" : kept;
}

Result<void> Run::writeOutputs() {
  for (SaveOutput &save : saveOutputs)
    if (Result<void> committed = save.commit(); !committed)
      return committed;
  for (std::optional<OutputFile> *file : {&profileOutput, &traceOutput})
    if (*file)
      if (Result<void> committed = (*file)->commit(); !committed)
        return committed;
  return npzOutput ? writeArrays() : Result<void>();
}

Result<void> Run::writeArrays() {
  NpzWriter writer(*std::move(npzOutput));
  for (const OutputArray &output : outputs)
    if (Result<void> added =
            writer.add(output.name, output.dtype, output.shape,
                       window->data().subspan(output.offset, output.bytes));
        !added)
      return added;
  for (auto &[name, value] : progress->means())
    if (Result<void> added = writer.add(name, ElementType::F64, {},
                                        std::as_bytes(std::span(&value, 1)));
        !added)
      return added;
  return writer.commit();
}

void Run::summarise() const {
  tell(describeEnd(report, *mesh, uses));
  if (rehearsedSeconds)
    tell(fmt::format(
        "rehearsed: a step took {:.2f} ms, and at least {:.2f}; by times and "
        "links {:.2f}, of which {:.2f} ms are {:.3f} times as long\n",
        1e3 * progress->secondsPerStep(), 1e3 * progress->leastSecondsPerStep(),
        1e3 * *rehearsedSeconds, 1e3 * progress->secondsPerStep(),
        progress->secondsPerStep() / std::max(*rehearsedSeconds, 1e-12)));
  if (!progress->checkpoints().empty()) {
    const CheckpointReport &last = progress->checkpoints().back();
    tell(fmt::format("checkpoints: {}{}, the last one {} ({})\n",
                     progress->checkpoints().size(),
                     skipped ? fmt::format(" ({} skipped)", skipped) : "",
                     last.path, bytesText(last.bytes)));
  }
  for (const SaveReport &saved : progress->saved())
    tell(fmt::format(
        "saved {} ({} in {:.2f} s, {}/s)\n", saved.path, bytesText(saved.bytes),
        saved.seconds,
        bytesText(static_cast<uint64_t>(static_cast<double>(saved.bytes) /
                                        std::max(saved.seconds, 1e-9)))));
  if (!options.outputs.empty()) {
    uint64_t all = data->samples(splitOf(options, *plan->plan)),
             some = outputSamplesOf(options, *plan->plan, *data);
    tell(some < all ? fmt::format("wrote {}: {} of {} samples (--steps {})\n",
                                  options.outputs, some, all, options.steps)
                    : fmt::format("wrote {}\n", options.outputs));
  }
  if (!options.profile.empty())
    tell(fmt::format("wrote {}\n", options.profile));
  if (!options.trace.empty())
    tell(tracedSteps < progress->stepsDone()
             ? fmt::format("wrote {}: the first {} of {} steps, which is as "
                           "much as a trace holds\n",
                           options.trace, tracedSteps, progress->stepsDone())
             : fmt::format("wrote {}\n", options.trace));
}

} // namespace polyrank::runtime
