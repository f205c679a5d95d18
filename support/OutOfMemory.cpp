// Handles out-of-memory.

#include "support/OutOfMemory.h"

#include <atomic>
#include <cstdio>
#include <new>
#include <unistd.h>

namespace polyrank {

static const char *nameOfProgram = "polyrank";

void endOutOfMemory() {
  // If several threads get no memory at once, the first one speaks.
  static std::atomic_flag isSaid;
  while (isSaid.test_and_set())
    pause();
  char line[256];
  int length = std::snprintf(line, sizeof(line), "%s: error: %s\n",
                             nameOfProgram, outOfMemoryText);
  // A message that standard error does not take is lost.
  [[maybe_unused]] ssize_t written =
      write(2, line, static_cast<size_t>(length));
  _exit(1);
}

void endWhenOutOfMemory(const char *program) {
  nameOfProgram = program;
  std::set_new_handler(endOutOfMemory);
}

} // namespace polyrank
