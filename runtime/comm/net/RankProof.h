// The first bytes of a connection between two ranks, by which both prove that
// they belong to the same start of the same job.
//
//   caller   Hello    incarnation, plan, both ranks, its process, a nonce
//   called   Answer   its process, a nonce, and a MAC over all of that
//   caller   Proof    another MAC over the same
//   called   Welcome  a third one
//
// Without the Welcome the caller would take a connection for open whose Proof
// has never arrived, and would not call again.
//
// Nothing is kept of a connection that has not proved itself but these bytes.

#pragma once

#include "runtime/job/net/JobKey.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace polyrank::runtime::net {

/// What both ends must agree on.
struct Pairing {
  uint64_t incarnation = 0;
  std::array<uint8_t, 16> plan{};  // its hash
  uint32_t caller = 0, called = 0; // ranks

  bool operator==(const Pairing &) const = default;
};

/// One end of a connection until both are proved.
class RankProof {
public:
  using Nonce = std::array<uint8_t, 32>;

  /// The end of a rank that calls another one. `first` is what it sends first.
  static RankProof ofCaller(const JobKey &key, const Pairing &pairing,
                            uint32_t process, std::vector<uint8_t> &first);
  /// The end of the rank `called`, which does not know yet who calls.
  static RankProof ofCalled(const JobKey &key, const Pairing &expected,
                            uint32_t process);

  /// How many bytes it takes next; 0 if it is over.
  size_t wanted() const { return need; }
  /// Adds exactly so many bytes, and appends to `reply` what is to be sent. An
  /// error means that the other end is no rank of this start of the job.
  Result<void> receive(std::span<const uint8_t> bytes,
                       std::vector<uint8_t> &reply);
  bool isDone() const { return need == 0; }
  /// After that: who the other end is.
  /// @{
  uint32_t peer() const { return isCaller ? pairing.called : pairing.caller; }
  uint32_t process() const { return other; }
  /// @}

private:
  RankProof(const JobKey &key, const Pairing &pairing, bool isCaller,
            uint32_t process);
  Mac proof(const char *role) const;

  JobKey key;
  Pairing pairing;
  bool isCaller;
  uint32_t own, other = 0; // processes
  size_t need = 0;
  std::vector<uint8_t> transcript;
  bool isLast = false; // what it takes next
};

} // namespace polyrank::runtime::net
