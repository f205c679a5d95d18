// Selects the mutant that a run executes. run.py includes this file in the
// mutated files of its copy of the sources; no other build sees it.

#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace polyrank::mutations {

inline constexpr int numbers = 1 << 20;

/// The number in MUTANT, 0 for none. The name does not begin with
/// POLYRANK_, since the launcher does not pass such variables on to its ranks,
/// whose mutants would never be active.
inline int chosen() {
  static const int number = [] {
    const char *text = std::getenv("MUTANT");
    return text ? std::atoi(text) : 0;
  }();
  return number;
}

/// One byte per mutant in the file MUTANTS_REACHED, shared by all
/// processes of a run and intact however they end; null if it is not requested.
inline unsigned char *reached() {
  static unsigned char *const bytes = []() -> unsigned char * {
    const char *path = std::getenv("MUTANTS_REACHED");
    if (!path)
      return nullptr;
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED
                            : mmap(nullptr, numbers, PROT_READ | PROT_WRITE,
                                   MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
      std::abort(); // without this record a run proves nothing
    close(file);
    return static_cast<unsigned char *>(mapped);
  }();
  return bytes;
}

/// Returns true if mutant `number` is active in this run.
inline bool active(int number) {
  if (unsigned char *bytes = reached())
    bytes[number] = 1;
  return chosen() == number;
}

/// Both are read before `main`: a test may close descriptors or forbid more.
inline const bool isReady = (reached(), chosen(), true);

} // namespace polyrank::mutations
