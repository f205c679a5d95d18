// The option --checkpoint, --resume and related ones.

#include "tools/polyrank-run/CheckpointOptions.h"

#include <algorithm>
#include <charconv>

namespace polyrank::runtime {
namespace {

/// Parses "50" as steps, and "30s", "10m" or "2h" as time.
void setEvery(CheckpointOptions &options, const std::string &text) {
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
    throw CLI::ValidationError(
        "--every", "'" + text +
                       "' is neither a number of steps, such as 50, "
                       "nor a time, such as 30s, 10m or 2h");
  if (isTime)
    options.everySeconds = number * unit->second;
  else
    options.everySteps = number;
}

/// Parses "loss" or "accuracy:max".
void setBest(CheckpointOptions &options, const std::string &text) {
  size_t colon = text.rfind(':');
  std::string direction =
      colon == std::string::npos ? "min" : text.substr(colon + 1);
  options.retention.best = text.substr(0, colon);
  options.retention.highest = direction == "max";
  if ((direction != "min" && direction != "max") ||
      options.retention.best.empty())
    throw CLI::ValidationError("--keep-best",
                               "'" + text +
                                   "' is no metric: give its name, with :max "
                                   "where the highest value is the best");
}

} // namespace

void addCheckpointOptions(CLI::App &app, CheckpointOptions &options) {
  auto *checkpoint =
      app.add_option("--checkpoint", options.folder,
                     "Write checkpoints into this folder: weights, running "
                     "statistics and "
                     "optimizer state, from which --resume goes on. One is "
                     "written after the "
                     "last step, and others by --every (docs/checkpoints.md)")
          ->type_name("DIR");
  app.add_option_function<std::string>(
         "--every",
         [&options](const std::string &text) { setEvery(options, text); },
         "Write a checkpoint after each N steps, or each N seconds (Ns), "
         "minutes "
         "(Nm) or hours (Nh)")
      ->type_name("N|Ns|Nm|Nh")
      ->needs(checkpoint);
  auto *keep = app.add_option("--keep", options.retention.keep,
                              "Remove older checkpoints when so many newer "
                              "ones are whole (default: "
                              "keep all)")
                   ->check(CLI::Range(uint64_t(1), uint64_t(1) << 40))
                   ->type_name("K")
                   ->needs(checkpoint);
  app.add_option_function<std::string>(
         "--keep-best",
         [&options](const std::string &text) { setBest(options, text); },
         "With --keep: keep the checkpoint with the lowest value of this "
         "metric too (METRIC:max: the highest)")
      ->type_name("METRIC")
      ->needs(keep);
  auto *resume = app.add_option("--resume", options.resume,
                                "Go on from the newest whole checkpoint in "
                                "this folder, or from this one "
                                "(DIR/step-000000100). 'auto': from the newest "
                                "one of --checkpoint, and "
                                "from the start where there is none")
                     ->type_name("DIR");
  app.add_flag("--reset-optimizer", options.resetOptimizer,
               "With --resume: take weights, running statistics and step from "
               "the checkpoint, and begin the optimizer's state anew")
      ->needs(resume);
  app.add_flag("--reset-data", options.resetData,
               "With --resume: begin the order of the samples anew, of "
               "whichever data, seed and samples per step this run has")
      ->needs(resume);
}

} // namespace polyrank::runtime
