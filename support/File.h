// Files that are read at offsets: never mapped, so that one that shrinks is an
// error and not a signal.

#pragma once

#include "support/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace polyrank {

/// "PATH: WHAT: the system's reason", from errno. A file that cannot be read is
/// wrong input; a disk that is full or fails while it is written is not. Of an
/// errno that says nothing about the file the cause is Cause::Moment, and where
/// the machine is to blame (EIO, EMFILE .., but not EACCES) Fault::Rank takes
/// the place of Fault::Input: the same may be read when it is tried again.
Error fileError(const std::string &path, const std::string &what,
                Error::Fault fault = Error::Fault::Input);

/// A file descriptor that is closed with it.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor();

  int get() const { return number; }
  int release();
  /// Closes now, and says whether the system reported a late write error.
  bool close();

private:
  int number;
};

/// A regular file open for reading. Reads may run on several threads.
class InputFile {
public:
  static Result<InputFile> open(const std::string &path);

  const std::string &path() const { return name; }
  uint64_t size() const { return bytes; }

  /// What tells it from a file that takes its name later, and from itself after
  /// it was written to: device, inode, size and time of the last change, as
  /// text.
  Result<std::string> identity() const;

  /// Reads exactly [offset, offset + length). What the system cannot read now
  /// is Cause::Moment; a file that ends before that is not.
  Result<void> readAt(uint64_t offset, void *into, uint64_t length) const;

private:
  std::string name;
  Descriptor descriptor;
  uint64_t bytes = 0;
};

/// Writes exactly `length` bytes at `offset`.
Result<void> writeAt(const Descriptor &descriptor, const std::string &path,
                     uint64_t offset, const void *from, uint64_t length);

/// Makes a rename in the directory of `path` survive a power failure, where its
/// file system knows how to.
Result<void> syncDirectoryOf(const std::string &path);
/// The same of a directory itself. Fails with Fault::Disk.
Result<void> syncFolder(const std::string &path);

/// Whether there is a directory of that name.
bool isFolder(const std::string &path);
/// The names in a directory, sorted, without "." and "..". An error where it
/// cannot be read whole, which is not the same as one that is empty.
Result<std::vector<std::string>> namesIn(const std::string &folder);
/// "a/b" of "a/b//".
std::string withoutSlash(std::string folder);

} // namespace polyrank
