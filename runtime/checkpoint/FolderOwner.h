// The run that may commit checkpoints in a folder that several machines see.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>

namespace polyrank::runtime {

/// A run whose machine was cut off may be replaced by another one before it
/// knows that, on file systems whose locks end with the connection. So each run
/// writes into the folder who it is (DIR/.owner) and, before it commits, reads
/// who was the last to do so.
class FolderOwner {
public:
  /// `folder` must outlive this object.
  explicit FolderOwner(const std::string &folder) : folder(folder) {}
  FolderOwner(const FolderOwner &) = delete;
  /// The folder is left without an owner, if it is still this run's.
  ~FolderOwner();

  /// The folder is this run's from now on, whoever had it before. The number of
  /// the run may change (OtherMachines::incarnation), unless the folder has
  /// become another run's since the last call: that is an error.
  Result<void> take(uint64_t incarnation);
  /// Fails unless the folder is this run's still. The error names both runs.
  Result<void> check() const;

  /// DIR/.owner
  static std::string pathIn(const std::string &folder);

private:
  const std::string &folder;
  std::string mine; // what the file has; empty before `take`
};

} // namespace polyrank::runtime
