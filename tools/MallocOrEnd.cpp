// A malloc that ends the program where there is no memory. It replaces that of
// the C library in programs that link this file, for libraries that they use
// as well: MLIR writes to what malloc returns for an operation without a look
// at it, so that a program would end by a signal.

#include "support/OutOfMemory.h"

#include <cstddef>

extern "C" {

void *__libc_malloc(size_t size); // of glibc, which keeps it for such uses

/// Larger blocks are of those who look: `new`, LLVM's containers, and who does
/// with less, as a sort does.
static constexpr size_t mostUnseen = 1 << 16;

void *malloc(size_t size) {
  void *memory = __libc_malloc(size);
  if (!memory && size <= mostUnseen)
    polyrank::endOutOfMemory();
  return memory;
}
}
