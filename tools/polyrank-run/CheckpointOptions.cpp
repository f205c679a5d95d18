// The options --checkpoint, --resume and related ones.

#include "tools/polyrank-run/OptionTable.h"

#include <algorithm>
#include <charconv>

namespace polyrank::runtime {
namespace {

/// Parses "50" as steps, and "30s", "10m" or "2h" as time. Returns what is
/// wrong.
std::string setEvery(CheckpointOptions &options, const std::string &text) {
  constexpr std::pair<char, uint64_t> units[] = {
      {'s', 1}, {'m', 60}, {'h', 3600}}; // in seconds
  auto unit = std::find_if(std::begin(units), std::end(units), [&](auto unit) {
    return text.ends_with(unit.first);
  });
  bool isTime = unit != std::end(units);
  const char *end = text.data() + text.size() - (isTime ? 1 : 0);
  uint64_t number = 0;
  auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number < 1 ||
      number > 1'000'000'000)
    return "'" + text +
           "' is neither a number of steps, such as 50, nor a time, such as "
           "30s, 10m or 2h";
  if (isTime)
    options.everySeconds = number * unit->second;
  else
    options.everySteps = number;
  return "";
}

std::string everyText(const CheckpointOptions &options) {
  return options.everySeconds ? std::to_string(options.everySeconds) + "s"
         : options.everySteps ? std::to_string(options.everySteps)
                              : "";
}

/// Parses "loss" or "accuracy:max". Returns what is wrong.
std::string setBest(CheckpointOptions &options, const std::string &text) {
  size_t colon = text.rfind(':');
  std::string direction =
      colon == std::string::npos ? "min" : text.substr(colon + 1);
  options.retention.best = text.substr(0, colon);
  options.retention.highest = direction == "max";
  if ((direction != "min" && direction != "max") ||
      options.retention.best.empty())
    return "'" + text +
           "' is no metric: give its name, with :max where the highest value "
           "is the best";
  return "";
}

} // namespace

OptionGroup checkpointOptions(RunOptions &options) {
  CheckpointOptions &checkpoints = options.checkpoints;
  Retention &retention = checkpoints.retention;
  return {
      "Checkpoints",
      {
          {"--checkpoint",
           "DIR",
           &checkpoints.folder,
           "Write checkpoints into this folder: weights, running statistics "
           "and optimizer state, from which --resume goes on. One is written "
           "after the last step, and others by --every (docs/checkpoints.md)",
           {.refuse = unlessRehearsal(options)}},
          {"--every",
           "N|Ns|Nm|Nh",
           TextField{[&](const std::string &text) {
                       return setEvery(checkpoints, text);
                     },
                     [&] { return everyText(checkpoints); }},
           "Write a checkpoint after each N steps, or each N seconds (Ns), "
           "minutes (Nm) or hours (Nh)",
           {.needs = "--checkpoint"}},
          {"--keep",
           "K",
           &retention.keep,
           "Remove older checkpoints when so many newer ones are whole "
           "(default: keep all)",
           {.check = between(int64_t(1), int64_t(1) << 40),
            .needs = "--checkpoint"}},
          {"--keep-best",
           "METRIC",
           TextField{[&](const std::string &text) {
                       return setBest(checkpoints, text);
                     },
                     [&] {
                       return retention.best +
                              (retention.highest ? ":max" : "");
                     }},
           "With --keep: keep the checkpoint with the lowest value of this "
           "metric too (METRIC:max: the highest)",
           {.needs = "--keep"}},
          {"--resume",
           "DIR",
           &checkpoints.resume,
           "Go on from the newest whole checkpoint in this folder, or from "
           "this one (DIR/step-000000100). 'auto': from the newest one of "
           "--checkpoint, and from the start where there is none",
           {.excludes = {"--init"}, .refuse = unlessRehearsal(options)}},
          {"--reset-optimizer",
           "",
           &checkpoints.resetOptimizer,
           "With --resume: take weights, running statistics and step from the "
           "checkpoint, and begin the optimizer's state anew",
           {.needs = "--resume"}},
          {"--reset-data",
           "",
           &checkpoints.resetData,
           "With --resume: begin the order of the samples anew, of whichever "
           "data, seed and samples per step this run has",
           {.needs = "--resume"}},
          {"--restarts",
           "N",
           &options.restarts,
           "When a rank fails or none makes progress, start all again from the "
           "newest checkpoint, or from the start where there is none, up to "
           "this many times (default 0), after 1, 2, 4 .. 60 seconds. The "
           "weights are the same as without the failure. Wrong input, a full "
           "disk and a loss of NaN are no reason, nor is what fails in the "
           "same step twice",
           {.check = between(int64_t(0), int64_t(1000000))}},
      }};
}

} // namespace polyrank::runtime
