// Finds and opens checkpoints.

#include "runtime/checkpoint/CheckpointFolder.h"

#include "support/Failpoint.h"
#include "support/File.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

namespace polyrank::runtime {

std::string checkpointName(uint64_t step) {
  char text[40];
  std::snprintf(text, sizeof(text), "step-%09llu",
                static_cast<unsigned long long>(step));
  return text;
}

std::string checkpointPath(const std::string &folder, uint64_t step) {
  return folder + "/" + checkpointName(step);
}

std::string unfinishedPath(const std::string &folder, uint64_t step,
                           int64_t run) {
  return folder + "/.tmp-" + checkpointName(step) + "." + std::to_string(run);
}

namespace {

/// Returns the names in a folder; none if it does not exist.
Result<std::vector<std::string>> namesIfThere(const std::string &folder) {
  Result<std::vector<std::string>> names = namesIn(folder);
  if (names)
    return names;
  if (isDamage(names.error()))
    return std::vector<std::string>();
  return ofCheckpoint(names.error());
}

/// Returns 100 for "step-000000100", and nothing for other names.
std::optional<uint64_t> stepNamed(const std::string &name) {
  if (!name.starts_with("step-"))
    return std::nullopt;
  uint64_t step = std::strtoull(name.c_str() + 5, nullptr, 10);
  return name == checkpointName(step) ? std::optional(step) : std::nullopt;
}

} // namespace

bool isDamage(const Error &error) {
  return error.fault == Error::Fault::Input &&
         error.cause == Error::Cause::Content;
}

Error ofCheckpoint(Error error) {
  if (error.cause != Error::Cause::Moment)
    return error;
  error.fault = Error::Fault::Rank;
  error.message +=
      "; the checkpoint may be whole and stays as it is: start the "
      "run again when it can be read";
  return error;
}

Result<std::vector<uint64_t>> checkpointsIn(const std::string &folder) {
  POLYRANK_ASSIGN(names, namesIfThere(folder));
  std::vector<uint64_t> steps;
  for (const std::string &name : names)
    if (std::optional<uint64_t> step = stepNamed(name))
      steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Result<std::vector<std::string>> damagedIn(const std::string &folder) {
  POLYRANK_ASSIGN(names, namesIfThere(folder));
  std::erase_if(names, [](const std::string &name) {
    size_t dot = name.find(".damaged");
    return dot == std::string::npos || !stepNamed(name.substr(0, dot));
  });
  return std::move(names);
}

Result<FoundCheckpoint> openCheckpoint(const std::string &path) {
  if (int failing = failpoint("checkpoint.before_open")) {
    errno = failing;
    return ofCheckpoint(fileError(path, "cannot be opened"));
  }
  Result<Manifest> read = readManifest(path + "/" + manifestName);
  if (!read)
    return ofCheckpoint(read.error());
  Manifest &manifest = *read;
  for (const ManifestFile &file : manifest.files) {
    std::string name = path + "/" + file.name;
    struct stat status;
    if (stat(name.c_str(), &status) != 0 || access(name.c_str(), R_OK) != 0)
      return ofCheckpoint(fileError(name, "cannot be opened"));
    if (!S_ISREG(status.st_mode) ||
        static_cast<uint64_t>(status.st_size) != file.bytes)
      return Error{name + ": has " + std::to_string(status.st_size) +
                   " bytes, and " + std::to_string(file.bytes) +
                   " were written: it is damaged"};
  }
  return FoundCheckpoint{path, std::move(manifest)};
}

Result<CheckpointChoice> newestCheckpoint(const std::string &folder,
                                          uint64_t before) {
  POLYRANK_ASSIGN(steps, checkpointsIn(folder));
  CheckpointChoice choice;
  for (uint64_t step : steps) {
    if (step >= before)
      continue;
    Result<FoundCheckpoint> opened =
        openCheckpoint(checkpointPath(folder, step));
    if (opened && opened->manifest.step != step)
      opened =
          Error{checkpointPath(folder, step) + "/" + manifestName +
                ": it is of step " + std::to_string(opened->manifest.step)};
    if (opened) {
      choice.found = *std::move(opened);
      break;
    }
    if (!isDamage(opened.error()))
      return opened.error();
    choice.damaged.push_back(opened.error().message);
  }
  return choice;
}

} // namespace polyrank::runtime
