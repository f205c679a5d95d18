// Reading and writing at offsets, with every error reported.

#include "support/File.h"

#include "support/Failpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace polyrank {

namespace {

/// Returns true if the errno is due to the machine or its network, not to the
/// file.
bool isOfTheMachine(int code) {
  switch (code) {
  case EIO:
  case EMFILE:
  case ENFILE:
  case ENOMEM:
  case ESTALE:
  case EAGAIN:
  case EINTR:
  case EBUSY:
  case ETIMEDOUT:
  case EREMOTEIO:
  case ENOTCONN:
  case ECONNREFUSED:
  case ECONNRESET:
  case ECONNABORTED:
  case EHOSTDOWN:
  case EHOSTUNREACH:
  case ENETDOWN:
  case ENETUNREACH:
    return true;
  default:
    return false;
  }
}

} // namespace

Error fileError(const std::string &path, const std::string &what,
                Error::Fault fault) {
  int code = errno;
  bool ofMachine = isOfTheMachine(code),
       isMoment = ofMachine || code == EACCES || code == EPERM;
  return {path + ": " + what + ": " + std::strerror(code),
          ofMachine && fault == Error::Fault::Input ? Error::Fault::Rank
                                                    : fault,
          isMoment ? Error::Cause::Moment : Error::Cause::Content};
}

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  std::swap(number, other.number);
  return *this;
}

Descriptor::~Descriptor() {
  if (number >= 0)
    ::close(number);
}

int Descriptor::release() { return std::exchange(number, -1); }

bool Descriptor::close() {
  int old = release();
  return old < 0 || ::close(old) == 0;
}

Result<InputFile> InputFile::open(const std::string &path) {
  InputFile file;
  file.name = path;
  // O_NONBLOCK makes a pipe an error instead of a wait.
  file.descriptor =
      Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (file.descriptor.get() < 0 || fstat(file.descriptor.get(), &status) != 0)
    return fileError(path, "cannot be opened");
  if (!S_ISREG(status.st_mode))
    return Error{path + ": not a regular file"};
  file.bytes = status.st_size;
  return std::move(file);
}

Result<std::string> InputFile::identity() const {
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0)
    return fileError(name, "cannot be read");
  std::string text;
  for (int64_t number :
       {int64_t(status.st_dev), int64_t(status.st_ino), int64_t(status.st_size),
        int64_t(status.st_mtim.tv_sec), int64_t(status.st_mtim.tv_nsec)})
    text += std::to_string(number) + " ";
  return text;
}

Result<void> InputFile::readAt(uint64_t offset, void *into,
                               uint64_t length) const {
  char *cursor = static_cast<char *>(into);
  while (length > 0) {
    ssize_t n = pread(descriptor.get(), cursor,
                      std::min<uint64_t>(length, 1 << 30), offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return fileError(name, "cannot be read");
    if (n == 0)
      return Error{name + ": ends at byte " + std::to_string(offset) +
                   ", where " + std::to_string(length) + " more were expected"};
    cursor += n;
    offset += n;
    length -= n;
  }
  return {};
}

Result<void> writeAt(const Descriptor &descriptor, const std::string &path,
                     uint64_t offset, const void *from, uint64_t length) {
  const char *cursor = static_cast<const char *>(from);
  while (length > 0) {
    int failing = failpoint("write.before");
    ssize_t n = failing ? -1
                        : pwrite(descriptor.get(), cursor,
                                 std::min<uint64_t>(length, 1 << 30), offset);
    if (failing)
      errno = failing;
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return fileError(path, "cannot be written", Error::Fault::Disk);
    failpoint("write.after");
    cursor += n;
    offset += n;
    length -= n;
  }
  return {};
}

Result<void> syncDirectoryOf(const std::string &path) {
  size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "."
                          : slash == 0               ? "/"
                                                     : path.substr(0, slash);
  if (int failing = failpoint("folder.before_sync")) {
    errno = failing;
    return fileError(directory, "cannot be synced", Error::Fault::Disk);
  }
  if (Result<void> synced = syncFolder(directory); !synced)
    return synced;
  failpoint("folder.after_sync");
  return {};
}

Result<void> syncFolder(const std::string &path) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (folder.get() < 0 ||
      (fsync(folder.get()) != 0 && errno != EINVAL && errno != EOPNOTSUPP))
    return fileError(path, "cannot be synced", Error::Fault::Disk);
  return {};
}

bool isFolder(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Result<std::vector<std::string>> namesIn(const std::string &folder) {
  std::unique_ptr<DIR, int (*)(DIR *)> entries(opendir(folder.c_str()),
                                               closedir);
  if (!entries)
    return fileError(folder, "cannot be opened");
  std::vector<std::string> names;
  for (errno = 0; dirent *entry = readdir(entries.get()); errno = 0)
    if (std::string_view(entry->d_name) != "." &&
        std::string_view(entry->d_name) != "..")
      names.emplace_back(entry->d_name);
  if (errno != 0)
    return fileError(folder, "cannot be read");
  std::sort(names.begin(), names.end());
  return names;
}

std::string withoutSlash(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/'))
    folder.pop_back();
  return folder;
}

} // namespace polyrank
