// Files that take their name only when they are whole.

#pragma once

#include "support/File.h"

namespace polyrank {

/// A file that will be called `path`, and has no name until it is committed:
/// what was there stays until then, and nothing is left of a process that is
/// killed, whatever its number is and wherever it ran. On file systems without
/// unnamed files (NFS, FUSE) it is called `path`.partial-RANDOM meanwhile, and
/// locked as long as it is open in any process, so that the next one that
/// makes `path` can tell and remove what a dead one has left.
///
/// Where `path` is a link, the file that it names is replaced, and not the
/// link. The new file has the mode and, as far as this user may give it away,
/// the owner and group of the one that it replaces.
class OutputFile {
public:
  /// Fails where `path` could not be written, or its file system has less than
  /// `bytes` left: before the work and not after. Where the file system can,
  /// these bytes are the file's from now on, whatever others write meanwhile.
  static Result<OutputFile> create(const std::string &path, uint64_t bytes = 0);
  OutputFile(OutputFile &&) noexcept = default;
  ~OutputFile();

  /// As the user gave it.
  const std::string &path() const { return name; }
  /// To write to; other processes may inherit it.
  const Descriptor &descriptor() const { return file; }

  /// Nothing counts that was written so far: the file is empty again or, where
  /// its room is kept, begins with zeros.
  Result<void> clear();

  /// Makes what all processes have written durable, under its name. Once. What
  /// fails here and later is not the user's input, but the disk.
  Result<void> commit();

private:
  OutputFile() = default;
  std::string newTemporary() const;
  Result<void> reserve(uint64_t bytes);
  void takeOwner() const;
  Result<void> giveName();

  std::string name, target; // the latter without links
  std::string temporary;    // while it has such a name, else empty
  Descriptor file;
  bool isReserved = false; // blocks are kept for it, perhaps beyond its end
};

} // namespace polyrank
