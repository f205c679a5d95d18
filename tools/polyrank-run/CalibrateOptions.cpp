// The options --calibrate and related ones.

#include "tools/polyrank-run/OptionTable.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

namespace polyrank::runtime {
namespace {

/// Returns why a calibration cannot have these options; empty if it can.
std::string refuseOptionsOfRuns(const RunOptions &options) {
  constexpr std::array<std::string_view, 7> own{
      "calibrate", "calibrate-seconds", "output", "threads", "bind-to", "quiet",
      "config"};
  for (const std::string &name : options.given)
    if (std::find(own.begin(), own.end(), name) == own.end())
      return fmt::format("measures this machine and runs no plan, so that "
                         "--{} means nothing to it: leave it out",
                         name);
  if (!options.plan.empty())
    return fmt::format("measures this machine and runs no plan: leave out "
                       "'{}', or name the file to write with -o",
                       options.plan);
  return options.output.empty() ? "writes a machine file: say which one, as in "
                                  "-o machine.toml"
                                : "";
}

} // namespace

OptionGroup calibrationOptions(RunOptions &options) {
  return {
      "This machine",
      {
          {"--calibrate",
           "",
           &options.calibrate,
           "Run no plan, but measure in about a minute what this machine "
           "reaches, on all cores at once: products, memory, launches and "
           "collectives. Writes a machine file for polyrank-compile --machine "
           "(docs/cost.md)",
           {.refuse = [&options] { return refuseOptionsOfRuns(options); }}},
          {"-o,--output",
           "FILE",
           &options.output,
           "The machine file to write. One of an earlier --calibrate is "
           "replaced",
           {.needs = "--calibrate"}},
          {"--calibrate-seconds",
           "SECONDS",
           &options.calibrateSeconds,
           "How long to repeat the measurements; each is made three times at "
           "least, however long that takes",
           {.check = between(0.0, 3600.0), .needs = "--calibrate"}},
      }};
}

} // namespace polyrank::runtime
