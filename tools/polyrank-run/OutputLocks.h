// Two runs must not write to one file, or into one folder of checkpoints.

#pragma once

#include "support/File.h"
#include "support/Outputs.h"

#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Locks on what a run writes, from before it looks at what is there until its
/// end, however it ends. Another run waits for them for some seconds, as the
/// one before may just be ending, and then gives up with Fault::Rank: started
/// again later it will do.
class OutputLocks {
public:
  OutputLocks() = default;
  OutputLocks(OutputLocks &&other) noexcept { swap(other); }
  OutputLocks &operator=(OutputLocks &&other) noexcept {
    swap(other);
    return *this;
  }
  ~OutputLocks();

  /// Locks the folder of --checkpoint, which is made where it is not there, and
  /// taken away again at the end if it is still empty; and the names of
  /// `files`, which may not be there yet and may be replaced: a name in its
  /// folder, for all processes of this machine. What is no regular file
  /// (/dev/null) is nobody's.
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
