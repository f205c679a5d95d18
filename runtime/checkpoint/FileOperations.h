// The file operations that write a checkpoint. There are few, so that a test
// can replace the disk and simulate a power failure between any two of them.

#pragma once

#include "support/File.h"

#include <string>

namespace polyrank::runtime {

/// Each operation fails with Error::Fault::Disk. A failed sync is final: the
/// kernel drops what it could not write, so a second sync would wrongly
/// succeed.
class FileOperations {
public:
  virtual ~FileOperations() = default;

  /// Creates a file for writing; an existing file is an error.
  virtual Result<Descriptor> create(const std::string &path);
  /// Makes what was written to a file durable.
  virtual Result<void> sync(const Descriptor &file, const std::string &path);
  /// Makes a folder, unless it exists.
  virtual Result<void> makeFolder(const std::string &path);
  /// Makes the names in a folder durable.
  virtual Result<void> syncFolder(const std::string &path);
  /// Renames to a name that does not exist yet.
  virtual Result<void> rename(const std::string &from, const std::string &to);
  /// Renames a file over an existing one, which it replaces.
  virtual Result<void> replace(const std::string &from, const std::string &to);
  virtual Result<void> removeFile(const std::string &path);
  /// Removes an empty folder.
  virtual Result<void> removeFolder(const std::string &path);
};

} // namespace polyrank::runtime
