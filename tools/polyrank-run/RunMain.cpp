// polyrank-run checks the user's input, starts the ranks and shows their
// progress. The ranks run the same program (runtime/session/Rank.cpp).

#include "tools/polyrank-run/RunMain.h"

#include "runtime/report/Messages.h"
#include "runtime/session/JoinRun.h"
#include "runtime/session/Preparation.h"
#include "runtime/session/Rank.h"
#include "runtime/session/Run.h"
#include "support/Failpoint.h"
#include "support/Json.h"
#include "tools/polyrank-run/CalibrateMain.h"
#include "tools/polyrank-run/ErrorFile.h"
#include "tools/polyrank-run/Options.h"
#include "tools/polyrank-run/Place.h"
#include "tools/polyrank-run/ShowEnd.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <sys/resource.h>

namespace polyrank::runtime {
namespace {

/// Prints the results of --check. Returns the exit status.
int checkMain(const RunOptions &options) {
  std::vector<CheckLine> lines = Preparation(options).checkAll();
  if (!options.place.sources.empty())
    lines.insert(lines.begin(), {"place", true, options.place.describe()});
  bool ok = std::all_of(lines.begin(), lines.end(),
                        [](const CheckLine &line) { return line.holds; });
  std::string text;
  if (options.json) {
    nlohmann::ordered_json report = newReport("check", 2);
    report["status"] = ok ? "ok" : "error";
    report["checks"] = nlohmann::ordered_json::array();
    for (const CheckLine &line : lines)
      report["checks"].push_back(
          {{"check", line.name}, {"holds", line.holds}, {"text", line.text}});
    text = toText(report);
  } else {
    for (const CheckLine &line : lines)
      text += fmt::format("{:<7} {:<5} {}\n", line.name,
                          line.holds ? "ok" : "WRONG", line.text);
  }
  if (!print(text)) {
    tell(fmt::format("polyrank-run: cannot write to standard output: {}\n",
                     std::strerror(errno)));
    return 2;
  }
  return ok ? 0 : 1;
}

JoinRunOptions joinOf(const RunOptions &options) {
  JoinRunOptions join{options.guestOf, int(*options.rank), options.plan,
                      options.sha256};
  join.timeout = options.timeout.value_or(join.timeout);
  join.quiet = options.quiet;
  return join;
}

/// What a process does that no polyrank-run has started as a rank.
int startedMain(RunOptions options) {
  bool hasBegun = false;
  try {
    if (!options.guestOf.empty())
      return joinRun(joinOf(options));
    Result<void> result;
    if (Result<JobPlace> place = findPlace(options); !place) {
      result = place.error();
    } else {
      auto join = takePlace(options, *place);
      if (!join)
        result = join.error();
      else if (options.check)
        return checkMain(options);
      else if (*join)
        return joinRun(**join);
    }
    std::optional<Run> last(std::in_place, options, hasBegun);
    while (result) {
      result = last->run();
      std::optional<SessionOptions> next = last->next();
      if (!next)
        break;
      last.emplace(*next, hasBegun);
      result = {};
    }
    const Run &run = *last;
    if (result && run.isWriter())
      result = showEnd(run);
    if (result && !run.isWriter() && run.status() != 0)
      tell("polyrank-run: the loss of the run is NaN, which machine 0 shows\n");
    if (result)
      return run.status();
    tell(fmt::format("polyrank-run: {}\n", result.error().message));
    writeErrorFile(result.error());
    if (options.json)
      print(toText(
          reportOfFailure(result.error(), run.stepsDone(), filesOf(options))));
    if (run.isAbandoned()) { // its thread cannot be joined
      finishTelling();
      std::_Exit(int(result.error().fault));
    }
    return int(result.error().fault);
  } catch (const std::exception &exception) {
    tell(fmt::format("polyrank-run: {}\n", describe(exception)));
    // A file whose reading exhausts memory is invalid input.
    bool isInput =
        !hasBegun && dynamic_cast<const std::bad_alloc *>(&exception);
    return int(isInput ? Error::Fault::Input : Error::Fault::Rank);
  }
}

/// Raises the limit of open files: a run may have thousands of data files, and
/// the default limit is 1024 although the system allows more. Ranks inherit it.
void allowOpenFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace

int runMain(int argc, char **argv, const RankParts &parts) {
  takeStandardDescriptors();
  failpoint("start");
  // A file that reaches the limit of `ulimit -f`, and a reader that is gone,
  // become write errors instead of signals.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  allowOpenFiles();
  std::variant<RunOptions, int> options = parseOptions(argc, argv);
  if (const int *status = std::get_if<int>(&options))
    return *status;
  const RunOptions &given = std::get<RunOptions>(options);
  if (auto connection = RankConnection::fromEnvironment())
    return given.calibrate ? calibrateRank(calibrationOf(given), *connection)
                           : rankMain(given, *connection, parts);
  int status = given.calibrate
                   ? calibrateMain(given)
                   : startedMain(std::get<RunOptions>(std::move(options)));
  finishTelling();
  return status;
}

} // namespace polyrank::runtime
