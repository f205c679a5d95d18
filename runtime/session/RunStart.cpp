// The texts at the start of a run.

#include "runtime/session/RunStart.h"

#include "runtime/plan/StepTimeline.h"
#include "runtime/report/Messages.h"

#include <fmt/format.h>

namespace polyrank::runtime {

Result<std::optional<double>> rehearsedSecondsOf(const Prepared &run) {
  if (!run.times)
    return std::optional<double>();
  POLYRANK_ASSIGN(links, linksOf(run.options, *run.plan->plan));
  return std::optional<double>(
      1e-12 *
      static_cast<double>(
          planTimelineOf(*run.plan, links.timesOver(*run.times, *run.plan))
              .makespan));
}

void tellStart(const Prepared &run) {
  if (run.options.quiet)
    return;
  tell(describeStart(run.report));
  if (run.data)
    tell(run.data->describe() + "\n");
}

void tellResumed(const Prepared &run) {
  if (run.resumed && !run.options.quiet)
    tell(fmt::format("going on from {}, after step {}\n", run.resumed->path,
                     run.stepsBefore()));
}

Result<void> tellNotes(const Prepared &run,
                       std::optional<double> rehearsedSeconds) {
  const SessionOptions &options = run.options;
  POLYRANK_ASSIGN(rates, ratesOf(options, *run.plan->plan));
  if (uint64_t total = rates.getTotal(); total && run.knownSteps() > total)
    tell(fmt::format("polyrank-run: --steps {} is more than the {} steps "
                     "that the learning rate's schedule is for (total={}); "
                     "it stays as it is then\n",
                     run.steps, total, total));
  POLYRANK_ASSIGN(links, linksOf(options, *run.plan->plan));
  if (std::string text = links.describe(); !text.empty() && !options.quiet)
    tell(text + "\n");
  if (rehearsedSeconds && !options.quiet)
    tell(fmt::format(
        "--rehearse {}: nothing is computed, no weights are read and there "
        "is no loss; by these times{} a step takes {:.2f} ms\n",
        options.rehearse,
        options.links.empty() ? ", if communication takes no time,"
                              : " and links",
        1e3 * *rehearsedSeconds));
  if (options.commThreads != 0 && !options.quiet)
    tell(fmt::format("--comm-threads {}: so many threads of each rank move "
                     "what is in flight\n",
                     options.commThreads));
  if (std::string warning = run.data ? run.data->findUnshifted() : "";
      !warning.empty())
    tell("polyrank-run: " + warning + "\n");
  return {};
}

} // namespace polyrank::runtime
