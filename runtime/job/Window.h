// Memory of the host that all ranks of a job fill together.

#pragma once

#include "runtime/job/Job.h"
#include "support/SharedMemory.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace polyrank::runtime {

/// Zeros at first, without a name, and gone with the last process that has it.
/// The launcher creates it and hands its descriptor to the ranks.
class Window {
public:
  Window() = default;

  /// `what` is what the window is for, in messages: "no memory for 5 bytes of
  /// outputs".
  static Result<Window> create(uint64_t bytes, const std::string &what);
  /// Maps the window that the launcher has created. Fails if it was created
  /// with another size.
  static Result<Window> map(int descriptor, uint64_t bytes,
                            const std::string &what);

  /// -1 in a rank.
  int descriptor() const { return file.get(); }
  std::span<std::byte> data() const {
    return {mapping.data(), static_cast<size_t>(mapping.size())};
  }
  /// Fills the window with zeros, and gives its memory back. Called while no
  /// rank runs.
  Result<void> clear();

private:
  Descriptor file;
  SharedMapping mapping;
};

/// Lets the ranks of a job fill memory of theirs in rounds: in each round all
/// fill one part of it, and then some read it. With two parts some may read one
/// part while all fill the other. All ranks call the same in the same order.
///
/// Where several machines share the ranks out, the ranks of rank 0's machine
/// alone may read. Then a part must be zero before it is filled, which readers
/// see to; and each byte is filled by at most one rank (JobMember::gather).
class WindowRounds {
public:
  /// The memory is divided into `parts` of equal size.
  /// It begins where the window does.
  WindowRounds(std::span<std::byte> memory, int parts, JobMember &job)
      : memory(memory), parts(parts), job(job) {}

  uint64_t partBytes() const {
    return memory.size() / static_cast<size_t>(parts);
  }

  /// Begins a round. Returns the part of the memory that all ranks may fill
  /// from now on.
  Result<std::span<std::byte>> begin();
  /// Returns when all ranks have filled what they fill of the part, which lies
  /// in the bytes [begin, end) of it. This rank may read it until
  /// its next call of `filled` or, if there is one part, of `begin`.
  Result<void> filled(uint64_t begin, uint64_t end);
  Result<void> filled() { return filled(0, partBytes()); }

private:
  std::span<std::byte> memory;
  int parts;
  JobMember &job;
  uint64_t rounds = 0; // begun
};

} // namespace polyrank::runtime
