// Files that are read at offsets and never mapped, so that a file that shrinks
// gives an error and not a signal.

#pragma once

#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace polyrank {

/// Makes the error "PATH: WHAT: the system's reason" from errno. A file that
/// cannot be read is wrong input (the default `fault`); a disk that is full or
/// fails during a write is not. If the errno says nothing about the contents of
/// the file, the cause is Cause::Moment; if moreover the machine is to blame
/// (EIO, EMFILE .., but not EACCES), Fault::Rank replaces Fault::Input, since
/// another attempt may succeed.
Error fileError(const std::string &path, const std::string &what,
                Error::Fault fault = Error::Fault::Input);

/// A file descriptor that is closed on destruction.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor();

  int get() const { return number; }
  int release();
  /// Closes it now; returns false if the system reported a late write error.
  bool close();

private:
  int number;
};

/// A regular file open for reading. Several threads may read at once.
class InputFile {
public:
  static Result<InputFile> open(const std::string &path);

  const std::string &path() const { return name; }
  uint64_t size() const { return bytes; }

  /// A text that changes if another file takes the name or the file is written
  /// to: device, inode, size and time of the last change.
  Result<std::string> identity() const;

  /// Reads exactly [offset, offset + length). If the system cannot read now,
  /// the cause is Cause::Moment; if the file ends before that, it is not.
  Result<void> readAt(uint64_t offset, void *into, uint64_t length) const;

private:
  std::string name;
  Descriptor descriptor;
  uint64_t bytes = 0;
};

/// Writes exactly `length` bytes at `offset`.
Result<void> writeAt(const Descriptor &descriptor, const std::string &path,
                     uint64_t offset, const void *from, uint64_t length);

/// Makes a rename in the directory of `path` durable across a power failure, if
/// the file system supports that.
Result<void> syncDirectoryOf(const std::string &path);
/// The same for the directory itself. Fails with Fault::Disk.
Result<void> syncFolder(const std::string &path);

/// Returns true if there is a directory of that name.
bool isFolder(const std::string &path);
/// The names in a directory, sorted, without "." and "..". A directory that
/// cannot be read completely is an error, not an empty list.
Result<std::vector<std::string>> namesIn(const std::string &folder);
/// Removes trailing slashes: "a/b" for "a/b//".
std::string withoutSlash(std::string folder);

} // namespace polyrank
