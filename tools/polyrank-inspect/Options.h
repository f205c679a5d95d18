// The command line of polyrank-inspect.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace polyrank::runtime {

struct InspectOptions {
  std::string plan, memorySvg, layoutsSvg, timelineSvg, times;
  std::string trace;             // --compare
  std::string why;               // "*": all
  std::vector<std::string> logs; // --plot
  std::string picture;           // --output
  bool memory = false, communication = false, parameters = false,
       kernels = false, timeline = false, files = false, json = false,
       verify = false;
  std::optional<int64_t> machines; // that share the ranks
};

/// Parses the command line. An integer is the exit status after a request for
/// help or an error, which have been printed.
std::variant<InspectOptions, int> parseOptions(int argc, char **argv);

} // namespace polyrank::runtime
