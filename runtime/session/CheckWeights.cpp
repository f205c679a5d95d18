// Checks the weights of a run, or the checkpoint that it resumes from.

#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/report/Messages.h"
#include "runtime/session/Checks.h"
#include "runtime/session/Resume.h"
#include "support/ByteText.h"
#include "support/Names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace polyrank::runtime {
namespace {

Result<std::string> checkResumed(Prepared &run, bool whole) {
  if (Result<void> fits = checkResume(*run.plan->plan, *run.resumed,
                                      run.options.checkpoints.resetOptimizer);
      !fits)
    return fits.error();
  if (whole) { // else the ranks do, each what it reads
    CheckpointReader reader(*run.resumed);
    if (Result<void> read = reader.checkAll(); !read)
      return read.error();
  }
  return fmt::format("those of step {} in {}{}", run.resumed->manifest.step,
                     run.resumed->path,
                     whole ? ", all read and as they were written" : "");
}

} // namespace

Result<std::string> checkWeights(Prepared &run, bool whole) {
  if (run.times)
    return std::string("none are read (--rehearse)");
  if (!run.options.checkpoints.folder.empty()) {
    POLYRANK_ASSIGN(layout, checkpointLayoutOf(*run.plan->plan));
    run.checkpoint.emplace(std::move(layout));
  }
  POLYRANK_ASSIGN(chosen, findResumed(run.options.checkpoints));
  run.resumed = std::move(chosen);
  if (run.resumed)
    return checkResumed(run, whole);
  POLYRANK_ASSIGN(opened, Weights::open(*run.plan, run.options.init));
  run.weights.emplace(std::move(opened));
  // The ranks check all blocks; a model that was exported again is refused
  // here, before this run's log replaces an older one.
  if (Result<void> same = whole ? run.weights->checkAll(run.options.allowNan)
                                : run.weights->checkDigests(0, 64);
      !same)
    return same.error();
  if (Result<void> same = run.weights->checkTied(); !same)
    return same.error();
  std::string unread;
  if (!run.weights->unread().empty())
    unread = fmt::format("the model has no tensor {}, so nothing reads what {} "
                         "has of it",
                         groupNames(run.weights->unread()), run.options.init);
  if (!unread.empty() && !whole)
    tell(fmt::format("polyrank-run: --init: {}\n", unread));
  std::set<std::string> files = run.weights->files();
  if (run.weights->sources().empty())
    return std::string("none");
  return fmt::format(
      "{} in {}{}, all read{}", bytesText(run.weights->bytes()),
      files.empty()              ? "the plan"
      : run.options.init.empty() ? fmt::format("{}", fmt::join(files, ", "))
                                 : run.options.init,
      run.options.init.empty() ? ", as when the plan was compiled" : "",
      unread.empty() ? "" : "; " + unread);
}

} // namespace polyrank::runtime
