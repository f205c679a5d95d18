// Compares what two machines say about themselves.

#include "runtime/job/net/NodeStatement.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

namespace polyrank::runtime::net {
namespace {

std::vector<std::string> partsOf(const std::string &text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    parts.push_back(part);
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// The parts of `a` that `b` lacks, or "nothing".
std::string missing(const std::string &a, const std::string &b) {
  std::vector<std::string> of = partsOf(a), without = partsOf(b), only;
  std::set_difference(of.begin(), of.end(), without.begin(), without.end(),
                      std::back_inserter(only));
  return only.empty() ? "nothing" : fmt::format("{}", fmt::join(only, ","));
}

} // namespace

Result<void> checkAgreement(int machine, const NodeStatement &statement,
                            int other, const NodeStatement &others,
                            bool allowMixedCpus) {
  auto differ = [&](const char *what, const auto &one, const auto &two,
                    const char *remedy) -> Error {
    return {fmt::format("machines {} and {} do not agree: {} is {} on machine "
                        "{} and {} on machine {}; {}",
                        machine, other, what, one, machine, two, other,
                        remedy)};
  };
  if (statement.protocol != others.protocol)
    return differ("the protocol of polyrank-run", statement.protocol,
                  others.protocol, "install the same version on both");
  if (statement.version != others.version)
    return differ("the version of polyrank-run", statement.version,
                  others.version, "install the same version on both");
  if (statement.plan != others.plan)
    return differ(
        "the hash of the plan", fmt::format("{:016x}", statement.plan),
        fmt::format("{:016x}", others.plan), "copy the same plan file to both");
  if (statement.ranks != others.ranks)
    return differ("the number of ranks", statement.ranks, others.ranks,
                  "start the same number on both");
  if (statement.settings != others.settings)
    return differ("what the options say",
                  missing(statement.settings, others.settings),
                  missing(others.settings, statement.settings),
                  "give both the same options");
  if (statement.data != others.data)
    return differ("the fingerprint of the data", statement.data, others.data,
                  "let both read the same data");
  if (statement.resumed != others.resumed && !statement.resumed.empty() &&
      !others.resumed.empty())
    return differ("the checkpoint to resume from", statement.resumed,
                  others.resumed, "let both resume from the same one");
  if (statement.cpu != others.cpu && !allowMixedCpus)
    return differ("what the CPU alone has", missing(statement.cpu, others.cpu),
                  missing(others.cpu, statement.cpu),
                  "CPUs that differ compute other bits: take machines of one "
                  "kind, or allow it by --allow-mixed-cpus");
  return {};
}

} // namespace polyrank::runtime::net
