// Lists checkpoints.

#include "tools/polyrank-inspect/Checkpoint.h"

#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/plan/PlanReport.h"
#include "support/ByteText.h"
#include "support/Json.h"
#include "support/Names.h"

#include <cmath>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

nlohmann::ordered_json toJson(const FoundCheckpoint &found) {
  const Manifest &manifest = found.manifest;
  nlohmann::ordered_json report = newReport("checkpoint");
  report["path"] = found.path;
  report["step"] = manifest.step;
  report["seed"] = manifest.seed;
  report["program"] = manifest.program;
  report["model"] = manifest.model;
  report["plan"] = manifest.planHash;
  report["mesh"] = manifest.mesh;
  report["data"] = {{"description", manifest.data.description},
                    {"fingerprint", manifest.data.fingerprint},
                    {"order", manifest.data.order},
                    {"samples", manifest.data.samples},
                    {"samples_per_step", manifest.data.samplesPerStep},
                    {"origin", manifest.data.origin}};
  report["metrics"] = nlohmann::ordered_json::object();
  for (auto &[name, value] : manifest.metrics)
    report["metrics"][name] =
        std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
  report["bytes"] = manifest.bytes();
  report["files"] = nlohmann::ordered_json::array();
  for (const ManifestFile &file : manifest.files)
    report["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  report["tensors"] = nlohmann::ordered_json::array();
  for (const ManifestTensor &tensor : manifest.tensors)
    report["tensors"].push_back({{"name", tensor.name},
                                 {"role", nameOf(tensor.role)},
                                 {"dtype", nameOf(tensor.dtype)},
                                 {"shape", tensor.shape},
                                 {"bytes", tensor.bytes()},
                                 {"chunks", tensor.chunks.size()}});
  return report;
}

void printCheckpoint(const FoundCheckpoint &found) {
  const Manifest &manifest = found.manifest;
  const ManifestData &data = manifest.data;
  fmt::print("checkpoint    {}\n", found.path);
  fmt::print("step          {}\n", manifest.step);
  fmt::print("model         {}\n", manifest.model);
  fmt::print("written by    {}, plan {}{}\n", manifest.program,
             manifest.planHash,
             manifest.mesh.empty() ? "" : ", on " + manifest.mesh);
  fmt::print("seed          {}\n", manifest.seed);
  if (!data.fingerprint.empty())
    fmt::print("data          {}, {} order, fingerprint {}\n", data.description,
               data.order, data.fingerprint.substr(0, 8));
  fmt::print("samples       {} per step{}\n", data.samplesPerStep,
             data.origin ? fmt::format(", from the first one after step {}",
                                       data.origin)
                         : "");
  for (auto &[name, value] : manifest.metrics)
    fmt::print("{:<14}{:.6g}\n", name, value);
  fmt::print("files         {} of {} in all\n", manifest.files.size(),
             bytesText(manifest.bytes()));
  fmt::print("\n  {:>10} {:<5} {:<10} {:<22} {}\n", "bytes", "type", "role",
             "shape", "name");
  std::map<std::string, uint64_t> sums;
  for (const ManifestTensor &tensor : manifest.tensors) {
    sums[nameOf(tensor.role)] += tensor.bytes();
    fmt::print("  {:>10} {:<5} {:<10} {:<22} {}\n", bytesText(tensor.bytes()),
               nameOf(tensor.dtype), nameOf(tensor.role),
               shapeText(tensor.shape), tensor.name);
  }
  for (auto &[role, bytes] : sums)
    fmt::print("  {:>10} in all of {}s\n", bytesText(bytes), role);
}

/// Opens a checkpoint, with `check` also reads it all. Returns the first fault.
Result<FoundCheckpoint> examine(const std::string &path, bool check) {
  POLYRANK_ASSIGN(found, openCheckpoint(path));
  if (check) {
    CheckpointReader reader(found);
    if (Result<void> read = reader.checkAll(); !read)
      return read.error();
  }
  return std::move(found);
}

} // namespace

Result<void> inspectCheckpoint(const std::string &given, bool json,
                               bool check) {
  std::string path = withoutSlash(given);
  POLYRANK_ASSIGN(steps, checkpointsIn(path));
  const char *verdict = check ? "whole, every byte as it was written"
                              : "whole by its manifest and sizes (--verify "
                                "reads everything)";
  if (steps.empty()) {
    POLYRANK_ASSIGN(found, examine(path, check));
    if (json)
      fmt::print("{}", toText(toJson(found)));
    else {
      printCheckpoint(found);
      fmt::print("\n{}\n", verdict);
    }
    return {};
  }
  nlohmann::ordered_json list = newReport("checkpoints");
  list["checkpoints"] = nlohmann::ordered_json::array();
  std::optional<Error> problem; // of the last checkpoint with one
  for (uint64_t step : steps) {
    Result<FoundCheckpoint> found = examine(checkpointPath(path, step), check);
    std::string wrong = found ? "" : found.error().message;
    if (!found)
      problem = found.error();
    if (json)
      list["checkpoints"].push_back(
          {{"path", checkpointPath(path, step)},
           {"step", step},
           {"whole", bool(found)},
           {"problem", found ? nlohmann::ordered_json(nullptr)
                             : nlohmann::ordered_json(wrong)}});
    else
      fmt::print(
          "{}  {}\n", checkpointPath(path, step),
          found ? fmt::format("{}, {}", bytesText(found->manifest.bytes()),
                              verdict)
                : (isDamage(found.error()) ? "DAMAGED: " : "CANNOT BE READ: ") +
                      wrong);
  }
  if (json)
    fmt::print("{}", toText(list));
  return problem ? Result<void>(*problem) : Result<void>();
}

} // namespace polyrank::runtime
