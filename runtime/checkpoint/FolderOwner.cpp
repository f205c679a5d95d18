// Writes and compares the file of the owner.

#include "runtime/checkpoint/FolderOwner.h"

#include "support/OutputFile.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

std::string hostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "this machine";
}

/// Returns the text of the file; empty if there is none.
std::string ownerOf(const std::string &folder) {
  std::ifstream file(FolderOwner::pathIn(folder));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace

std::string FolderOwner::pathIn(const std::string &folder) {
  return folder + "/.owner";
}

FolderOwner::~FolderOwner() {
  if (!mine.empty() && ownerOf(folder) == mine)
    unlink(pathIn(folder).c_str());
}

Result<void> FolderOwner::take(uint64_t incarnation) {
  if (!mine.empty())
    if (Result<void> still = check(); !still)
      return still;
  std::string text = fmt::format("incarnation {:016x} (process {} on {})",
                                 incarnation, getpid(), hostName());
  POLYRANK_ASSIGN(file, OutputFile::create(pathIn(folder)));
  if (Result<void> written = writeAt(file.descriptor(), pathIn(folder), 0,
                                     text.data(), text.size());
      !written)
    return written;
  if (Result<void> named = file.commit(); !named)
    return named;
  mine = std::move(text);
  return {};
}

Result<void> FolderOwner::check() const {
  std::string now = ownerOf(folder);
  if (now == mine)
    return {};
  return Error{
      fmt::format("{} belongs to {}, and this run is {}: it was replaced, so "
                  "it commits no checkpoint there; look whether this machine "
                  "was cut off from the others",
                  folder, now.empty() ? "nobody any more" : now, mine),
      Error::Fault::Rank};
}

} // namespace polyrank::runtime
