// arc4random for glibc 2.34 and 2.35: glibc has it from 2.36 on, and the static
// libraries of LLVM and C++ that were built for that call it (for names of
// temporary files and std::random_device).

#include <cstdint>
#include <cstdlib>
#include <sys/random.h>

extern "C" uint32_t arc4random() noexcept {
  uint32_t value;
  // At most 256 bytes come whole, or with an error that no retry mends.
  if (getrandom(&value, sizeof value, 0) != sizeof value)
    std::abort();
  return value;
}
