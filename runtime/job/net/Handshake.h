// The first bytes of a connection, by which both ends prove that they have the
// key of the job.
//
//   node         Hello      who it is, what plan it has, a nonce
//   coordinator  Challenge  the incarnation, a nonce, and a MAC over all of
//   that node         Proof      another MAC over the same
//
// The MACs begin with the role of whoever sends them, so that neither can be
// sent back. The keys of the messages that follow (SealedStream) are derived
// from the same bytes.

#pragma once

#include "runtime/job/net/JobKey.h"
#include "runtime/job/net/SealedStream.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

using Nonce = std::array<uint8_t, 32>;

/// What a node says of itself before anything is proved.
struct Claim {
  uint32_t protocol = netProtocol;
  uint32_t machine = 0, machines = 0;
  uint64_t plan = 0;

  bool operator==(const Claim &) const = default;
};

/// What either end takes at most before the other one has proved itself.
inline constexpr size_t mostBytesBeforeProof = 4096;

/// The coordinator's end.
class CoordinatorHandshake {
public:
  CoordinatorHandshake(const JobKey &key, uint64_t incarnation,
                       const Nonce &nonce)
      : key(key), incarnation(incarnation), nonce(nonce) {}

  /// Adds bytes that have come, and appends to `reply` what is to be sent. An
  /// error means that whoever is there has not the key, or is no node.
  Result<void> receive(std::span<const uint8_t> bytes,
                       std::vector<uint8_t> &reply);
  /// True once the node has proved that it has the key.
  bool isDone() const { return stage == Stage::Done; }
  /// The one that the node was told.
  uint64_t drawn() const { return incarnation; }

  /// After that: what it said, the stream of its messages, and the bytes that
  /// have come after its proof.
  const Claim &claim() const { return said; }
  SealedStream stream() const;
  std::vector<uint8_t> rest() const { return pending; }

private:
  enum class Stage { Hello, Proof, Done };

  JobKey key;
  uint64_t incarnation;
  Nonce nonce;
  Stage stage = Stage::Hello;
  Claim said;
  std::vector<uint8_t> pending, transcript;
};

/// The node's end.
class NodeHandshake {
public:
  NodeHandshake(const JobKey &key, const Claim &claim, const Nonce &nonce);

  /// The first bytes to send.
  const std::vector<uint8_t> &hello() const { return first; }
  /// Adds bytes that have come, and appends to `reply` what is to be sent. An
  /// error means that the other end is no coordinator that has the key; with
  /// Fault::Input no further attempt mends it.
  Result<void> receive(std::span<const uint8_t> bytes,
                       std::vector<uint8_t> &reply);
  bool isDone() const { return done; }

  uint64_t incarnation() const { return drawn; }
  SealedStream stream() const;
  std::vector<uint8_t> rest() const { return pending; }

private:
  JobKey key;
  Claim claim;
  Nonce nonce;
  uint64_t drawn = 0;
  bool done = false;
  std::vector<uint8_t> first, pending, transcript;
};

} // namespace polyrank::runtime::net
