// Locks that keep two runs from writing to the same file or checkpoint folder.

#pragma once

#include "support/File.h"
#include "support/Outputs.h"

#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Locks on a run's outputs, held from before it inspects existing files until
/// its process ends in any way. Another run waits for them for some seconds, as
/// the earlier one may just be ending, and then fails with Fault::Rank: it can
/// be started again later.
class OutputLocks {
public:
  OutputLocks() = default;
  OutputLocks(OutputLocks &&other) noexcept { swap(other); }
  OutputLocks &operator=(OutputLocks &&other) noexcept {
    swap(other);
    return *this;
  }
  ~OutputLocks();

  /// Locks the folder of --checkpoint, which is created if needed, and removed
  /// at the end if it is still empty. Also locks the names of `files`, which
  /// may not exist yet and may be replaced: the lock is on the name in its
  /// folder, for all processes of this machine. What is not a regular file
  /// (/dev/null) is not locked.
  static Result<OutputLocks> take(const std::string &checkpoints,
                                  std::span<const OutputUse> files);

private:
  void swap(OutputLocks &other) noexcept {
    held.swap(other.held);
    madeFolder.swap(other.madeFolder);
  }
  Result<void> lockFolder(const std::string &folder);
  Result<void> lockName(const OutputUse &file, const std::string &key);

  std::vector<Descriptor> held;
  std::string madeFolder;
};

} // namespace polyrank::runtime
