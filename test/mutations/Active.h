// Which mutant a run executes. run.py includes this into the files of its
// copy of the sources that have mutants; no other build sees it.

#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace polyrank::mutations {

inline constexpr int numbers = 1 << 20;

/// The number in MUTANT, 0 for none. Not POLYRANK_..., which the launcher
/// keeps from its ranks: their mutants would never be turned on.
inline int chosen() {
  static const int number = [] {
    const char *text = std::getenv("MUTANT");
    return text ? std::atoi(text) : 0;
  }();
  return number;
}

/// One byte per mutant in the file MUTANTS_REACHED, shared by all
/// processes of a run and whole however they end; null where none is asked for.
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
      std::abort(); // a run that cannot say what it reached says nothing
    close(file);
    return static_cast<unsigned char *>(mapped);
  }();
  return bytes;
}

/// True where this run executes the mutant with this number.
inline bool active(int number) {
  if (unsigned char *bytes = reached())
    bytes[number] = 1;
  return chosen() == number;
}

} // namespace polyrank::mutations
