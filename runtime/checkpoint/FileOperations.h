// The calls by which a checkpoint comes to be: few, so that a test can stand in
// for the disk and lose power between any two of them.

#pragma once

#include "support/File.h"

#include <string>

namespace polyrank::runtime {

/// Each fails with Error::Fault::Disk. A failed sync is final: the kernel
/// forgets what it could not write, so that a second attempt would lie.
class FileOperations {
public:
  virtual ~FileOperations() = default;

  /// A new file to write to; one that is there already is an error.
  virtual Result<Descriptor> create(const std::string &path);
  /// Makes what was written to a file durable.
  virtual Result<void> sync(const Descriptor &file, const std::string &path);
  /// May be there already.
  virtual Result<void> makeFolder(const std::string &path);
  /// Makes the names in a folder durable.
  virtual Result<void> syncFolder(const std::string &path);
  /// To a name that nothing has.
  virtual Result<void> rename(const std::string &from, const std::string &to);
  /// A file, to a name that another file has, which goes.
  virtual Result<void> replace(const std::string &from, const std::string &to);
  virtual Result<void> removeFile(const std::string &path);
  /// That is empty.
  virtual Result<void> removeFolder(const std::string &path);
};

} // namespace polyrank::runtime
