// memfds and their mappings.

#include "support/SharedMemory.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace polyrank {

Result<Descriptor> createSharedMemory(const char *name, uint64_t size) {
  Descriptor made(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (made.get() < 0 || ftruncate(made.get(), static_cast<off_t>(size)) != 0 ||
      fcntl(made.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return Error{"making shared memory of " + std::to_string(size) +
                     " bytes: " + std::strerror(errno),
                 Error::Fault::Rank};
  return std::move(made);
}

Result<SharedMapping> SharedMapping::map(int descriptor,
                                         const std::string &what) {
  SharedMapping mapping;
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return Error{what + ": " + std::strerror(errno), Error::Fault::Rank};
  if (status.st_size == 0)
    return std::move(mapping);
  void *memory = mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE,
                      MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED)
    return Error{"mapping " + what + " of " + std::to_string(status.st_size) +
                     " bytes: " + std::strerror(errno),
                 Error::Fault::Rank};
  mapping.base = static_cast<std::byte *>(memory);
  mapping.bytes = static_cast<uint64_t>(status.st_size);
  return std::move(mapping);
}

SharedMapping::SharedMapping(SharedMapping &&other) noexcept
    : base(std::exchange(other.base, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

SharedMapping &SharedMapping::operator=(SharedMapping &&other) noexcept {
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (base)
    munmap(base, bytes);
}

} // namespace polyrank
