// Reads and truncates logs, and writes the first record of a start.

#include "runtime/report/LogFile.h"

#include "support/Cores.h"
#include "support/CpuName.h"
#include "support/OutputFile.h"
#include "support/Version.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <sys/utsname.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

using nlohmann::json;

/// Calls body(line, record) for each complete line.
Result<void>
forEachLine(const std::string &path, std::ifstream &file,
            const std::function<Result<void>(const std::string &line,
                                             const json &record)> &body) {
  std::string line;
  for (uint64_t number = 1; std::getline(file, line); ++number) {
    bool isWhole = !file.eof(); // it ends with a newline
    json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!isWhole)
      break;
    if (!record.is_object())
      return Error{fmt::format("{}: line {} is no record of a log of "
                               "polyrank-run",
                               path, number)};
    if (Result<void> done = body(line, record); !done)
      return done;
  }
  if (file.bad())
    return fileError(path, "cannot be read");
  return {};
}

std::string randomId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

} // namespace

std::optional<uint64_t> stepOfRecord(const json &record) {
  auto stepIn = [](const json &object) -> std::optional<uint64_t> {
    auto step = object.find("step");
    return step != object.end() && step->is_number_unsigned()
               ? std::optional(step->get<uint64_t>())
               : std::nullopt;
  };
  if (auto step = stepIn(record))
    return step;
  for (const char *kind : {"eval", "checkpoint"})
    if (auto inner = record.find(kind);
        inner != record.end() && inner->is_object())
      return stepIn(*inner);
  return std::nullopt;
}

Result<void> dropRecordsAfter(const std::string &path, uint64_t step,
                              bool evaluatesAgain) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return errno == ENOENT ? Result<void>()
                           : fileError(path, "cannot be opened");
  POLYRANK_ASSIGN(output, OutputFile::create(path));
  std::string kept;
  uint64_t written = 0;
  auto flush = [&]() -> Result<void> {
    Result<void> done =
        writeAt(output.descriptor(), path, written, kept.data(), kept.size());
    written += kept.size();
    kept.clear();
    return done;
  };
  Result<void> read = forEachLine(
      path, file,
      [&](const std::string &line, const json &record) -> Result<void> {
        auto of = stepOfRecord(record);
        if (of && (*of > step ||
                   (*of == step && evaluatesAgain && record.contains("eval"))))
          return {};
        kept += line + "\n";
        return kept.size() >= size_t(1) << 20 ? flush() : Result<void>();
      });
  if (!read)
    return read;
  if (Result<void> done = flush(); !done)
    return done;
  return output.commit();
}

Result<void> forEachRecord(const std::string &path,
                           const std::function<void(const json &)> &body) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fileError(path, "cannot be opened");
  return forEachLine(path, file, [&](const std::string &, const json &record) {
    body(record);
    return Result<void>();
  });
}

nlohmann::ordered_json recordOf(const RunStart &start, const PlanReport &plan) {
  utsname system{};
  uname(&system);
  nlohmann::ordered_json run;
  run["version"] = 1; // of the log
  run["id"] = randomId();
  run["time"] =
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  run["command_line"] = start.commandLine;
  run["directory"] = [] {
    std::array<char, 4096> path{};
    return std::string(getcwd(path.data(), path.size()) ? path.data() : "");
  }();
  run["plan"] = start.plan;
  run["plan_hash"] = plan.hash;
  run["mode"] = plan.mode;
  run["mesh"] = plan.mesh;
  run["ranks"] = plan.ranks;
  run["threads"] = plan.threads;
  run["microbatches"] = plan.microbatches;
  run["samples_per_step"] = plan.samplesPerStep;
  run["tokens_per_sample"] = plan.tokensPerSample;
  run["parameters"] = plan.parameterElements;
  run["seed"] = start.seed;
  run["first_step"] = start.firstStep;
  run["steps"] = start.steps;
  run["machine"] = {
      {"host", system.nodename},
      {"system", fmt::format("{} {}", system.sysname, system.release)},
      {"cpu", cpuName()},
      {"cores", usableCores()},
      {"memory_bytes", static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<uint64_t>(sysconf(_SC_PAGESIZE))}};
  run["polyrank"] = versionText;
  run["compiler"] = plan.compiler;
  return {{"run", run}};
}

} // namespace polyrank::runtime
