// Creates the files of weights, and moves a set of them into place.

#include "runtime/session/SaveOutput.h"

#include "runtime/checkpoint/SafetensorsSet.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fmt/format.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime {
namespace {

bool goesToFolder(const SaveFile &save) { return save.path.ends_with('/'); }

bool isOfASet(std::string_view name) {
  return name == wholeName || name == indexName || isShardName(name);
}

} // namespace

Result<std::vector<OutputUse>> outputsOf(const SaveFile &save,
                                         const std::vector<SavedFile> &files) {
  std::vector<OutputUse> uses;
  for (const SavedFile &file : files)
    uses.push_back({save.option, file.path, FileKind::Safetensors});
  if (!goesToFolder(save))
    return uses;
  if (files.size() > 1)
    uses.push_back(
        {save.option, save.path + indexName, FileKind::WeightsIndex});
  std::unique_ptr<DIR, int (*)(DIR *)> entries(opendir(save.path.c_str()),
                                               closedir);
  std::vector<std::string> others;
  while (dirent *entry = entries ? readdir(entries.get()) : nullptr)
    if (isOfASet(entry->d_name) &&
        std::none_of(uses.begin(), uses.end(), [&](const OutputUse &use) {
          return use.path == save.path + entry->d_name;
        }))
      others.push_back(entry->d_name);
  std::sort(others.begin(), others.end());
  if (!others.empty())
    return Error{fmt::format(
        "{} '{}': has '{}', of another set of weights than the {} that would "
        "be "
        "written, and who loads the folder might take the one for the other; "
        "remove it, or give another folder",
        save.option, save.path, others[0],
        files.size() == 1 ? std::string("one file")
                          : fmt::format("{} files", files.size()))};
  uses.push_back({save.option, withoutSlash(save.path), FileKind::Folder});
  return uses;
}

SaveOutput::SaveOutput(SaveOutput &&other) noexcept
    : folder(std::move(other.folder)),
      madeFolder(std::exchange(other.madeFolder, false)),
      index(std::move(other.index)), outputs(std::move(other.outputs)),
      layouts(std::move(other.layouts)),
      indexOutput(std::move(other.indexOutput)) {}

SaveOutput::~SaveOutput() {
  outputs.clear(); // files that were named temporarily are removed first
  indexOutput.reset();
  if (madeFolder)
    rmdir(folder.c_str());
}

Result<SaveOutput> SaveOutput::create(const SaveFile &save,
                                      std::vector<SavedFile> files) {
  SaveOutput output(goesToFolder(save) ? save.path : "");
  if (goesToFolder(save)) {
    if (mkdir(save.path.c_str(), 0777) == 0)
      output.madeFolder = true;
    else if (errno != EEXIST)
      return Error{fmt::format("{} '{}': the folder cannot be made: {}",
                               save.option, save.path, std::strerror(errno))};
    output.index = indexOf(files);
  }
  // Reserves space on the disk for all files.
  for (const SavedFile &file : files) {
    POLYRANK_ASSIGN(layout, layoutOf(file));
    POLYRANK_ASSIGN(made, OutputFile::create(file.path, layout.size()));
    output.outputs.push_back(std::move(made));
    output.layouts.push_back(std::move(layout));
  }
  if (!output.index.empty()) {
    POLYRANK_ASSIGN(
        file, OutputFile::create(save.path + indexName, output.index.size()));
    output.indexOutput.emplace(std::move(file));
  }
  return std::move(output);
}

Result<void> SaveOutput::clear() {
  for (OutputFile &output : outputs)
    if (Result<void> cleared = output.clear(); !cleared)
      return cleared;
  return {};
}

Result<void> SaveOutput::commit() {
  for (size_t n = 0; n < outputs.size(); ++n)
    if (Result<void> whole =
            layouts[n].checkHeader(outputs[n].descriptor().get());
        !whole)
      return whole;
  if (indexOutput) {
    std::string path = folder + indexName;
    if (Result<void> written = writeAt(indexOutput->descriptor(), path, 0,
                                       index.data(), index.size());
        !written)
      return written;
    if (unlink(path.c_str()) == 0) {
      if (Result<void> synced = syncDirectoryOf(path); !synced)
        return synced;
    } else if (errno != ENOENT) {
      return fileError(path, "an older index cannot be removed",
                       Error::Fault::Disk);
    }
  }
  madeFolder = false; // something is committed in it
  for (OutputFile &output : outputs)
    if (Result<void> committed = output.commit(); !committed)
      return committed;
  if (indexOutput)
    if (Result<void> committed = indexOutput->commit(); !committed)
      return committed;
  return folder.empty() ? Result<void>()
                        : syncDirectoryOf(withoutSlash(folder));
}

} // namespace polyrank::runtime
