// Output files that get their name only once they are complete.

#pragma once

#include "support/File.h"

namespace polyrank {

/// A file that gets the name `path` when it is committed and has no name
/// before: until then an existing file stays, and a killed process leaves
/// nothing behind, whatever its process id is and wherever it ran. On file
/// systems without unnamed files (NFS, FUSE) it is called `path`.partial-RANDOM
/// until then, and is locked while it is open in any process, so that the next
/// process that creates `path` can recognise and remove what a dead one has
/// left.
///
/// If `path` is a symbolic link, its target is replaced, not the link. The new
/// file has the mode and, as far as this user may set them, the owner and group
/// of the file that it replaces.
class OutputFile {
public:
  /// Fails before the work starts if `path` cannot be written, or if its file
  /// system has less than `bytes` left. If the file system supports it, these
  /// bytes are reserved, whatever other processes write.
  static Result<OutputFile> create(const std::string &path, uint64_t bytes = 0);
  OutputFile(OutputFile &&) noexcept = default;
  ~OutputFile();

  /// The path as the user gave it.
  const std::string &path() const { return name; }
  /// The descriptor to write to; other processes may inherit it.
  const Descriptor &descriptor() const { return file; }

  /// Discards what was written so far: the file is empty again or, if its space
  /// is reserved, begins with zeros.
  Result<void> clear();

  /// Makes what all processes have written durable, under the final name. Call
  /// it once. Errors from here on are not the user's input, but the disk.
  Result<void> commit();

private:
  OutputFile() = default;
  std::string newTemporary() const;
  Result<void> reserve(uint64_t bytes);
  void takeOwner() const;
  Result<void> giveName();

  std::string name, target; // `target` has links resolved
  std::string temporary;    // while it has a temporary name, else empty
  Descriptor file;
  bool isReserved = false; // blocks are reserved, possibly beyond its end
};

} // namespace polyrank
