// Handles out-of-memory.

#include "support/OutOfMemory.h"

#include <cstring>
#include <initializer_list>
#include <new>
#include <unistd.h>

namespace polyrank {

static const char *nameOfProgram = "polyrank";

static void say(const char *text) {
  // A message that standard error does not take is lost.
  [[maybe_unused]] ssize_t written = write(2, text, std::strlen(text));
}

void endOutOfMemory() {
  for (const char *text : {nameOfProgram, ": error: ", outOfMemoryText, "\n"})
    say(text);
  _exit(1);
}

void endWhenOutOfMemory(const char *program) {
  nameOfProgram = program;
  std::set_new_handler(endOutOfMemory);
}

} // namespace polyrank
