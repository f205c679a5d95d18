// Memory without a name that processes share by its descriptor.

#pragma once

#include "support/File.h"

#include <cstddef>
#include <cstdint>

namespace polyrank {

/// Creates memory of zeros, of a size that nobody can change. It vanishes with
/// the last process that has it. `name` is for /proc.
Result<Descriptor> createSharedMemory(const char *name, uint64_t size);

/// A mapping of a whole shared memory, for reading and writing.
class SharedMapping {
public:
  SharedMapping() = default;
  /// `what` is for messages. Memory of 0 bytes is mapped nowhere.
  static Result<SharedMapping> map(int descriptor, const std::string &what);
  SharedMapping(SharedMapping &&other) noexcept;
  SharedMapping &operator=(SharedMapping &&other) noexcept;
  ~SharedMapping();

  std::byte *data() const { return base; }
  uint64_t size() const { return bytes; }
  explicit operator bool() const { return base; }

private:
  std::byte *base = nullptr;
  uint64_t bytes = 0;
};

} // namespace polyrank
