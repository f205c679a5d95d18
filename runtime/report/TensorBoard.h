// Event files, as TensorBoard reads them.

#pragma once

#include "support/File.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace polyrank::runtime {

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4).
uint32_t crc32c(std::string_view bytes);

/// A TFRecord: length (8 bytes, little-endian), masked CRC-32C of these, the
/// data, masked CRC-32C of that.
std::string tfRecord(std::string_view data);

/// A new file of scalars in a folder, which is created if it does not exist.
/// TensorBoard reads all files of a folder in the order of their names, which
/// begin with the time; the new name sorts after all existing ones.
class EventFile {
public:
  /// Creates the file of a run whose first step is `firstStep`: from that step
  /// on, TensorBoard hides what older files of the folder have.
  static Result<EventFile> create(const std::string &folder,
                                  uint64_t firstStep);

  /// Appends the values of a step, in one write. TensorBoard shows non-finite
  /// values as NaN.
  Result<void> add(uint64_t step,
                   std::span<const std::pair<std::string, double>> scalars);

  const std::string &path() const { return name; }

private:
  Result<void> append(const std::string &event);

  std::string name;
  Descriptor file;
  uint64_t size = 0;
};

} // namespace polyrank::runtime
