// The commit protocol.

#include "runtime/checkpoint/Commit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sys/stat.h>

namespace polyrank::runtime {
namespace {

bool exists(const std::string &path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0;
}

/// Returns true if `path` is a folder and not a link to one: this run must not
/// remove files through a link.
bool isFolder(const std::string &path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The name of a new manifest, beside the one that it will replace.
const std::string newManifestName = std::string(manifestName) + ".new";

/// Returns true if a file of this name belongs to a checkpoint.
bool isOurs(const std::string &name) {
  return name == manifestName || name == newManifestName ||
         (name.starts_with("shard-") && name.ends_with(".safetensors"));
}

/// Returns true for "step-000000100.4711", which follows .tmp- or .trash-.
bool isStepOfRun(std::string_view name) {
  size_t dot = name.find('.');
  auto digits = [](std::string_view text) {
    return !text.empty() &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return name.starts_with("step-") && dot != std::string_view::npos &&
         digits(name.substr(5, dot - 5)) && digits(name.substr(dot + 1));
}

/// Creates the file, and makes it durable.
Result<void> writeManifest(FileOperations &files, const std::string &path,
                           const Manifest &manifest) {
  std::string text = textOf(manifest);
  POLYRANK_ASSIGN(file, files.create(path));
  if (Result<void> written = writeAt(file, path, 0, text.data(), text.size());
      !written)
    return Error{written.error().message, Error::Fault::Disk};
  return files.sync(file, path);
}

} // namespace

Result<void> setAside(FileOperations &files, const std::string &checkpoint) {
  std::string aside = checkpoint + ".damaged";
  for (int number = 2; exists(aside); ++number)
    aside = checkpoint + ".damaged-" + std::to_string(number);
  return files.rename(checkpoint, aside);
}

Result<void> commitCheckpoint(FileOperations &files, const std::string &folder,
                              const std::string &unfinished,
                              const Manifest &manifest) {
  std::string path = unfinished + "/" + manifestName,
              target = checkpointPath(folder, manifest.step);
  if (exists(target)) {
    Result<FoundCheckpoint> there = openCheckpoint(target);
    if (there)
      return Error{target + ": is there already, and whole",
                   Error::Fault::Disk};
    if (!isDamage(there.error()))
      return Error{there.error().message, Error::Fault::Disk};
    if (Result<void> renamed = setAside(files, target); !renamed)
      return renamed;
  }
  if (Result<void> written = writeManifest(files, path, manifest); !written)
    return written;
  if (Result<void> synced = files.syncFolder(unfinished); !synced)
    return synced;
  if (Result<void> renamed = files.rename(unfinished, target); !renamed)
    return renamed;
  return files.syncFolder(folder);
}

Result<void> amendCheckpoint(FileOperations &files, const std::string &folder,
                             const Manifest &manifest) {
  std::string target = checkpointPath(folder, manifest.step),
              path = target + "/" + newManifestName;
  if (exists(path)) // left by a run that was killed
    if (Result<void> removed = files.removeFile(path); !removed)
      return removed;
  if (Result<void> written = writeManifest(files, path, manifest); !written)
    return written;
  if (Result<void> replaced = files.replace(path, target + "/" + manifestName);
      !replaced)
    return replaced;
  return files.syncFolder(target);
}

Result<void> removeUnfinished(FileOperations &files,
                              const std::string &unfinished) {
  if (!isFolder(unfinished))
    return {};
  POLYRANK_ASSIGN(names, namesIn(unfinished));
  bool others = false;
  for (const std::string &name : names) {
    if (!isOurs(name)) {
      others = true;
      continue;
    }
    if (Result<void> removed = files.removeFile(unfinished + "/" + name);
        !removed)
      return removed;
  }
  if (others)
    return {};
  return files.removeFolder(unfinished);
}

Result<void> removeLeftovers(FileOperations &files, const std::string &folder) {
  POLYRANK_ASSIGN(names, namesIn(folder));
  for (const std::string &name : names) {
    bool leftover = false;
    for (std::string_view prefix : {".tmp-", ".trash-"})
      leftover |= name.starts_with(prefix) &&
                  isStepOfRun(std::string_view(name).substr(prefix.size()));
    if (!leftover)
      continue;
    if (Result<void> removed = removeUnfinished(files, folder + "/" + name);
        !removed)
      return removed;
  }
  return {};
}

Result<void> applyRetention(FileOperations &files, const std::string &folder,
                            const Retention &retention, int64_t run) {
  if (retention.keep == 0)
    return {};
  POLYRANK_ASSIGN(steps, checkpointsIn(folder));
  std::vector<uint64_t> whole; // newest first
  std::optional<std::pair<double, uint64_t>> best;
  for (uint64_t step : steps) {
    std::string path = checkpointPath(folder, step);
    if (!isFolder(path))
      continue;
    Result<FoundCheckpoint> found = openCheckpoint(path);
    if (!found)
      continue;
    whole.push_back(step);
    for (auto &[name, value] : found->manifest.metrics) {
      double rank = retention.highest ? -value : value;
      // Among equal values the newest wins.
      if (name == retention.best && std::isfinite(value) &&
          (!best || rank < best->first))
        best = {rank, step};
    }
  }
  for (size_t number = retention.keep; number < whole.size(); ++number) {
    uint64_t step = whole[number];
    if (best && best->second == step)
      continue;
    std::string trash =
        folder + "/.trash-" + checkpointName(step) + "." + std::to_string(run);
    if (Result<void> renamed =
            files.rename(checkpointPath(folder, step), trash);
        !renamed)
      return renamed;
    // Otherwise the name might reappear after a power failure, without the
    // files.
    if (Result<void> synced = files.syncFolder(folder); !synced)
      return synced;
    if (Result<void> removed = removeUnfinished(files, trash); !removed)
      return removed;
  }
  return {};
}

} // namespace polyrank::runtime
