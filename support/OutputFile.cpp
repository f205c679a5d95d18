// Unnamed files if the system has them, else random names under a lock.

#include "support/OutputFile.h"

#include "support/Failpoint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace polyrank {
namespace {

constexpr std::string_view marker = ".partial-";
constexpr size_t randomDigits = 16;

Error cannotWrite(const std::string &path, const std::string &why) {
  return Error{"cannot write '" + path + "': " + why};
}

std::string directoryOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

/// The prefix of the names of unfinished files for `target`.
std::string prefixOf(const std::string &target) {
  size_t slash = target.rfind('/');
  std::string base =
      slash == std::string::npos ? target : target.substr(slash + 1);
  return base.substr(0, NAME_MAX - marker.size() - randomDigits) +
         std::string(marker);
}

/// The path after all links are followed, whether or not there is a file.
Result<std::string> followLinks(const std::string &path) {
  std::string target = path;
  for (int links = 0; links < 40; ++links) {
    std::array<char, PATH_MAX> text;
    ssize_t length = readlink(target.c_str(), text.data(), text.size());
    if (length < 0)
      return target;
    std::string next(text.data(), static_cast<size_t>(length));
    target = next.starts_with('/') ? next : directoryOf(target) + next;
  }
  return cannotWrite(path, std::strerror(ELOOP));
}

bool lock(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0; }

/// Removes unfinished files for `target` that dead processes have left. If
/// nobody holds the lock of a file, its process is gone, on this machine or
/// another.
void removeLeftovers(const std::string &target) {
  std::string folder = directoryOf(target), prefix = prefixOf(target);
  std::unique_ptr<DIR, int (*)(DIR *)> entries(opendir(folder.c_str()),
                                               closedir);
  while (dirent *entry = entries ? readdir(entries.get()) : nullptr) {
    std::string_view found = entry->d_name;
    if (!found.starts_with(prefix) ||
        found.size() != prefix.size() + randomDigits ||
        !std::all_of(found.begin() + static_cast<ptrdiff_t>(prefix.size()),
                     found.end(),
                     [](unsigned char c) { return std::isxdigit(c); }))
      continue;
    std::string path = folder + std::string(found);
    Descriptor file(
        open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat opened, named;
    if (file.get() >= 0 && lock(file.get()) &&
        fstat(file.get(), &opened) == 0 && S_ISREG(opened.st_mode) &&
        lstat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
        named.st_dev == opened.st_dev)
      unlink(path.c_str());
  }
}

} // namespace

std::string OutputFile::newTemporary() const {
  std::array<unsigned char, randomDigits / 2> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != ssize_t(bytes.size()))
    return ""; // no known system returns fewer bytes than so few
  std::string path = directoryOf(target) + prefixOf(target);
  for (unsigned char byte : bytes)
    for (int shift : {4, 0})
      path += "0123456789abcdef"[byte >> shift & 15];
  return path;
}

Result<OutputFile> OutputFile::create(const std::string &path, uint64_t bytes) {
  OutputFile output;
  output.name = path;
  POLYRANK_ASSIGN(target, followLinks(path));
  output.target = target;
  struct stat status;
  if (stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return cannotWrite(path, S_ISDIR(status.st_mode)
                                 ? "it is a directory"
                                 : "it is not a regular file");
  if (target.empty() || target.ends_with('/'))
    return cannotWrite(path, "it names no file");
  removeLeftovers(target);

  output.file = Descriptor(
      open(directoryOf(target).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  std::string link = "/proc/self/fd/" + std::to_string(output.file.get());
  if (output.file.get() < 0 || access(link.c_str(), F_OK) != 0) {
    // Only an attempt to create a file there tells why it fails.
    for (;;) {
      output.temporary = output.newTemporary();
      output.file =
          Descriptor(open(output.temporary.c_str(),
                          O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (output.file.get() < 0 && errno == EEXIST)
        continue;
      if (output.file.get() < 0) {
        output.temporary.clear();
        return cannotWrite(path, std::strerror(errno));
      }
      // Another process may have removed it as a leftover before it was locked.
      if ((lock(output.file.get()) || errno != EWOULDBLOCK) &&
          fstat(output.file.get(), &status) == 0 && status.st_nlink > 0)
        break;
    }
  } else {
    lock(output.file.get());
  }
  output.takeOwner();
  if (Result<void> reserved = output.reserve(bytes); !reserved)
    return reserved.error();
  return std::move(output);
}

Result<void> OutputFile::reserve(uint64_t bytes) {
  if (bytes == 0)
    return {};
  struct statvfs disk;
  bool isKnown = fstatvfs(file.get(), &disk) == 0;
  uint64_t left = isKnown ? uint64_t(disk.f_bavail) * disk.f_frsize : 0;
  Error full{"cannot write '" + name + "': it needs " + std::to_string(bytes) +
                 " bytes, its file system has " + std::to_string(left) +
                 " left",
             Error::Fault::Disk};
  if (isKnown && bytes > left)
    return full;
  // The size stays 0: it is set by those who write the file.
  if (fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off64_t>(bytes)) == 0)
    isReserved = true;
  else if (errno == ENOSPC || errno == EDQUOT)
    return full;
  else if (errno == EFBIG)
    return fileError(name, "cannot have " + std::to_string(bytes) + " bytes",
                     Error::Fault::Disk);
  return {}; // the file system may not support it
}

/// Gives the file to the owner and group of the file that it replaces, so that
/// whoever could read that one can read this one, and nobody else.
void OutputFile::takeOwner() const {
  struct stat status, own;
  if (stat(target.c_str(), &status) != 0 || fstat(file.get(), &own) != 0)
    return;
  mode_t mode = status.st_mode & 07777;
  if ((own.st_uid != status.st_uid || own.st_gid != status.st_gid) &&
      fchown(file.get(), status.st_uid, status.st_gid) != 0) {
    mode &= ~mode_t(S_ISUID);
    // This file then has another group, which gets none of the rights.
    if (own.st_gid != status.st_gid &&
        fchown(file.get(), uid_t(-1), status.st_gid) != 0)
      mode &= ~mode_t(S_ISGID | S_IRWXG);
  }
  fchmod(file.get(), mode);
}

Result<void> OutputFile::clear() {
  if (!isReserved)
    return ftruncate(file.get(), 0) == 0
               ? Result<void>()
               : fileError(name, "cannot be emptied", Error::Fault::Disk);
  struct stat status;
  if (fstat(file.get(), &status) != 0)
    return fileError(name, "cannot be emptied", Error::Fault::Disk);
  // Truncating it would release the reserved space.
  std::array<char, 4096> zeros{};
  return writeAt(file, name, 0, zeros.data(),
                 std::min<uint64_t>(zeros.size(), uint64_t(status.st_size)));
}

OutputFile::~OutputFile() {
  if (file.get() >= 0 && !temporary.empty())
    unlink(temporary.c_str());
}

Result<void> OutputFile::giveName() {
  std::string link = "/proc/self/fd/" + std::to_string(file.get());
  while (temporary.empty()) {
    std::string candidate = newTemporary();
    if (linkat(AT_FDCWD, link.c_str(), AT_FDCWD, candidate.c_str(),
               AT_SYMLINK_FOLLOW) == 0)
      temporary = candidate;
    else if (errno != EEXIST)
      return fileError(name, "cannot be named", Error::Fault::Disk);
  }
  // linkat cannot replace a file; a rename of a named file can.
  int failing = failpoint("output.before_rename");
  if (failing)
    errno = failing;
  if (failing || rename(temporary.c_str(), target.c_str()) != 0)
    return fileError(name, "cannot be renamed into place", Error::Fault::Disk);
  temporary.clear();
  failpoint("output.after_rename");
  return {};
}

Result<void> OutputFile::commit() {
  // Space reserved beyond the end is released.
  struct stat status;
  if (isReserved && fstat(file.get(), &status) == 0 &&
      ftruncate(file.get(), status.st_size) != 0)
    return fileError(name, "cannot be cut at its end", Error::Fault::Disk);
  takeOwner();
  int failing = failpoint("output.before_sync");
  if (failing)
    errno = failing;
  if (failing || fsync(file.get()) != 0)
    return fileError(name, "cannot be synced", Error::Fault::Disk);
  failpoint("output.after_sync");
  if (Result<void> named = giveName(); !named)
    return named;
  if (!file.close())
    return fileError(name, "cannot be closed", Error::Fault::Disk);
  return syncDirectoryOf(target);
}

} // namespace polyrank
