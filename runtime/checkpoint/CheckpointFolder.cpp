// Looks for checkpoints.

#include "runtime/checkpoint/CheckpointFolder.h"

#include "support/File.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <memory>
#include <sys/stat.h>

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

std::vector<uint64_t> checkpointsIn(const std::string &folder) {
  std::vector<uint64_t> steps;
  std::unique_ptr<DIR, int (*)(DIR *)> entries(opendir(folder.c_str()),
                                               closedir);
  while (dirent *entry = entries ? readdir(entries.get()) : nullptr) {
    std::string name = entry->d_name;
    if (!name.starts_with("step-"))
      continue;
    uint64_t step = std::strtoull(name.c_str() + 5, nullptr, 10);
    if (name == checkpointName(step))
      steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Result<FoundCheckpoint> openCheckpoint(const std::string &path) {
  POLYRANK_ASSIGN(manifest, readManifest(path + "/" + manifestName));
  for (const ManifestFile &file : manifest.files) {
    std::string name = path + "/" + file.name;
    struct stat status;
    if (stat(name.c_str(), &status) != 0)
      return fileError(name, "cannot be opened");
    if (!S_ISREG(status.st_mode) ||
        static_cast<uint64_t>(status.st_size) != file.bytes)
      return Error{name + ": has " + std::to_string(status.st_size) +
                   " bytes, and " + std::to_string(file.bytes) +
                   " were written: it is damaged"};
  }
  return FoundCheckpoint{path, std::move(manifest)};
}

CheckpointChoice newestCheckpoint(const std::string &folder, uint64_t before) {
  CheckpointChoice choice;
  for (uint64_t step : checkpointsIn(folder)) {
    if (step >= before)
      continue;
    Result<FoundCheckpoint> opened =
        openCheckpoint(checkpointPath(folder, step));
    if (opened && opened->manifest.step != step)
      opened = Error{checkpointPath(folder, step) + "/" + manifestName +
                     ": it is of step " +
                     std::to_string(opened->manifest.step)};
    if (opened) {
      choice.found = *std::move(opened);
      break;
    }
    choice.damaged.push_back(opened.error().message);
  }
  return choice;
}

} // namespace polyrank::runtime
