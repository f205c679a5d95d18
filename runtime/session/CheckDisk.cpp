// Checks the files and folders that a run writes, and creates them.

#include "runtime/checkpoint/Commit.h"
#include "runtime/session/Checks.h"
#include "runtime/session/Resume.h"
#include "support/ByteText.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

Result<void> checkCheckpointFolder(Prepared &run, bool whole) {
  const std::string &folder = run.options.checkpoints.folder;
  auto cannot = [&](const std::string &why) {
    return Error{fmt::format("--checkpoint {}: {}", folder, why)};
  };
  struct stat status;
  bool exists = stat(folder.c_str(), &status) == 0;
  if (exists && !S_ISDIR(status.st_mode))
    return cannot("it is no folder");
  if (whole && !exists)
    return access(folderOf(folder).c_str(), W_OK) == 0
               ? Result<void>()
               : cannot(std::strerror(errno));
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot(std::strerror(errno));
  if (Result<void> free =
          checkFolder(run.options.checkpoints, run.stepsBefore());
      !free)
    return free;
  struct statvfs system;
  uint64_t bytes = run.checkpoint->bytes();
  if (statvfs(folder.c_str(), &system) == 0)
    if (uint64_t room = uint64_t(system.f_bavail) * system.f_frsize;
        room < bytes)
      return cannot(fmt::format("a checkpoint needs {}, and its file system "
                                "has {} left",
                                bytesText(bytes), bytesText(room)));
  if (whole)
    return {};
  FileOperations files;
  return removeLeftovers(files, folder);
}

/// Collects the uses of the disk in a text.
class DiskText {
public:
  /// With `bytes` the text also says how many there are.
  void add(const std::string &option, const std::string &path,
           uint64_t bytes = 0) {
    struct statvfs system;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", option, path);
    if (bytes && statvfs(folderOf(path).c_str(), &system) == 0)
      text +=
          fmt::format(": {}, and {} are free", bytesText(bytes),
                      bytesText(uint64_t(system.f_bavail) * system.f_frsize));
  }
  std::string get() const { return text.empty() ? "nothing is written" : text; }

private:
  std::string text;
};

/// Checks the files that a run writes in place.
Result<void> checkInPlace(const SessionOptions &options, DiskText &text) {
  for (auto &[option, path] : {std::pair("--log", options.log),
                               {"--tensorboard", options.tensorboard}}) {
    if (path.empty())
      continue;
    bool exists = access(path.c_str(), F_OK) == 0;
    size_t end = path.find_last_not_of('/');
    std::string place = exists ? path : folderOf(path.substr(0, end + 1));
    if (access(place.c_str(), W_OK) != 0)
      return Error{fmt::format("{}: cannot write '{}': {}", option, path,
                               std::strerror(errno))};
    text.add(option, path);
  }
  return {};
}

} // namespace

Result<std::vector<OutputUse>> outputUsesOf(const Prepared &run) {
  std::vector<OutputUse> written;
  if (!run.isWriter())
    return std::move(written);
  for (const SaveFile &save : run.options.saves()) {
    if (save.path.empty())
      continue;
    POLYRANK_ASSIGN(
        uses,
        outputsOf(save, savedFilesOf(*run.plan->plan, save.what, save.path,
                                     run.options.saveShardBytes())));
    written.insert(written.end(), uses.begin(), uses.end());
  }
  for (auto &[option, path, kind] :
       {std::tuple("--outputs", &run.options.outputs, FileKind::Npz),
        {"--profile", &run.options.profile, FileKind::Profile},
        {"--trace", &run.options.trace, FileKind::Trace},
        {"--log", &run.options.log, FileKind::Log}})
    if (!path->empty())
      written.push_back({option, *path, kind});
  return std::move(written);
}

Result<std::string> checkDisk(Prepared &run, bool whole) {
  const SessionOptions &options = run.options;
  DiskText text;
  if (!run.isWriter()) {
    if (whole)
      return std::string("machine 0 writes");
    run.files.emplace(OutputFiles::ofAnotherMachine(run.windowBytes()));
    if (Result<void> made = run.files->createWindow(); !made)
      return made.error();
    return std::string();
  }
  POLYRANK_ASSIGN(created, OutputFiles::create(options, *run.plan->plan,
                                               run.windowBytes()));
  run.files.emplace(std::move(created));
  for (const SaveFile &save : options.saves())
    if (!save.path.empty())
      text.add(save.option, save.path,
               bytesOf(savedFilesOf(*run.plan->plan, save.what, save.path,
                                    options.saveShardBytes())));
  if (run.checkpoint) {
    if (Result<void> locked = checkCheckpointFolder(run, whole); !locked)
      return locked.error();
    text.add("--checkpoint", options.checkpoints.folder + "/",
             run.checkpoint->bytes());
  }
  if (!options.profile.empty())
    text.add("--profile", options.profile);
  if (!options.trace.empty())
    text.add("--trace", options.trace);
  if (!options.outputs.empty())
    text.add("--outputs", options.outputs, run.windowBytes());
  if (whole) {
    if (Result<void> can = checkInPlace(options, text); !can)
      return can.error();
    return text.get();
  }
  if (Result<void> made = run.files->createWindow(); !made)
    return made.error();
  if (uint64_t bytes =
          run.evaluation ? evaluationMemoryOf(*run.evaluation) : 0) {
    POLYRANK_ASSIGN(window, Window::create(bytes, "an evaluation"));
    run.evalWindow.emplace(std::move(window));
  }
  return text.get();
}

} // namespace polyrank::runtime
