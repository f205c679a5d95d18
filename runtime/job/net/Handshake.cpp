// Both ends of the handshake.

#include "runtime/job/net/Handshake.h"

#include "runtime/job/net/Wire.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime::net {
namespace {

constexpr std::array<uint8_t, 8> magic{'p', 'o', 'l', 'y', 'n', 'e', 't', '\n'};
constexpr size_t macBytes = std::tuple_size_v<Mac>,
                 nonceBytes = std::tuple_size_v<Nonce>;
constexpr size_t helloBytes = magic.size() + 3 * 4 + 8 + nonceBytes;
constexpr size_t challengeBytes = magic.size() + 4 + 8 + nonceBytes + macBytes;
constexpr std::string_view coordinatorRole = "coordinator", nodeRole = "node";

Error refusal(const std::string &why) { return {why, Error::Fault::Rank}; }

/// The bytes that both MACs cover and the keys are derived from.
std::vector<uint8_t> transcriptOf(const Claim &claim, uint64_t incarnation,
                                  const Nonce &nodes,
                                  const Nonce &coordinators) {
  WireWriter writer;
  writer.raw(magic);
  writer.integer(claim.protocol);
  writer.integer(claim.machine);
  writer.integer(claim.machines);
  writer.integer(claim.plan);
  writer.integer(incarnation);
  writer.raw(nodes);
  writer.raw(coordinators);
  return std::move(writer.bytes);
}

Mac proofOf(const JobKey &key, std::string_view role,
            std::span<const uint8_t> transcript) {
  return key.derive("proof", {})
      .mac({{reinterpret_cast<const uint8_t *>(role.data()), role.size()},
            transcript});
}

/// The stream of whoever plays the role.
SealedStream streamOf(const JobKey &key, bool isNode, uint64_t incarnation,
                      std::span<const uint8_t> transcript) {
  JobKey up = key.derive("to coordinator", transcript),
         down = key.derive("to node", transcript);
  return isNode ? SealedStream(up, down, incarnation)
                : SealedStream(down, up, incarnation);
}

/// True if `bytes` begin with the magic, as far as there are any.
bool mayBeOurs(std::span<const uint8_t> bytes) {
  size_t count = std::min(bytes.size(), magic.size());
  return std::equal(magic.begin(), magic.begin() + count, bytes.begin());
}

} // namespace

Result<void> CoordinatorHandshake::receive(std::span<const uint8_t> bytes,
                                           std::vector<uint8_t> &reply) {
  if (bytes.size() >
      mostBytesBeforeProof - std::min(mostBytesBeforeProof, pending.size()))
    return refusal(
        fmt::format("more than {} bytes before a proof", mostBytesBeforeProof));
  pending.insert(pending.end(), bytes.begin(), bytes.end());
  if (stage == Stage::Hello) {
    if (!mayBeOurs(pending))
      return refusal("what came is not of polyrank-run");
    if (pending.size() < helloBytes)
      return {};
    Nonce nodes;
    WireReader reader(std::span(pending).subspan(magic.size()));
    reader.integer(said.protocol);
    reader.integer(said.machine);
    reader.integer(said.machines);
    reader.integer(said.plan);
    reader.raw(nodes);
    transcript = transcriptOf(said, incarnation, nodes, nonce);
    WireWriter writer;
    writer.raw(magic);
    writer.integer(netProtocol);
    writer.integer(incarnation);
    writer.raw(nonce);
    writer.raw(proofOf(key, coordinatorRole, transcript));
    reply.insert(reply.end(), writer.bytes.begin(), writer.bytes.end());
    pending.erase(pending.begin(), pending.begin() + helloBytes);
    if (said.protocol != netProtocol)
      return refusal(fmt::format("it speaks protocol {}, and this machine {}",
                                 said.protocol, netProtocol));
    stage = Stage::Proof;
  }
  if (stage == Stage::Proof && pending.size() >= macBytes) {
    Mac proof;
    std::copy_n(pending.begin(), macBytes, proof.begin());
    if (!areEqual(proof, proofOf(key, nodeRole, transcript)))
      return refusal("it has another key");
    pending.erase(pending.begin(), pending.begin() + macBytes);
    stage = Stage::Done;
  }
  return {};
}

SealedStream CoordinatorHandshake::stream() const {
  return streamOf(key, false, incarnation, transcript);
}

NodeHandshake::NodeHandshake(const JobKey &key, const Claim &claim,
                             const Nonce &nonce)
    : key(key), claim(claim), nonce(nonce) {
  WireWriter writer;
  writer.raw(magic);
  writer.integer(claim.protocol);
  writer.integer(claim.machine);
  writer.integer(claim.machines);
  writer.integer(claim.plan);
  writer.raw(nonce);
  first = std::move(writer.bytes);
}

Result<void> NodeHandshake::receive(std::span<const uint8_t> bytes,
                                    std::vector<uint8_t> &reply) {
  if (!done &&
      bytes.size() >
          mostBytesBeforeProof - std::min(mostBytesBeforeProof, pending.size()))
    return refusal(
        fmt::format("more than {} bytes before a proof", mostBytesBeforeProof));
  pending.insert(pending.end(), bytes.begin(), bytes.end());
  if (done)
    return {};
  if (!mayBeOurs(pending))
    return refusal("another program answers there");
  if (pending.size() < challengeBytes)
    return {};
  uint32_t protocol = 0;
  Nonce coordinators;
  Mac proof;
  WireReader reader(std::span(pending).subspan(magic.size()));
  reader.integer(protocol);
  reader.integer(drawn);
  reader.raw(coordinators);
  reader.raw(proof);
  if (protocol != claim.protocol)
    return Error{fmt::format("it speaks protocol {}, and this machine {}: "
                             "install the same version on both",
                             protocol, claim.protocol)};
  transcript = transcriptOf(claim, drawn, nonce, coordinators);
  if (!areEqual(proof, proofOf(key, coordinatorRole, transcript)))
    return Error{"it has another key: give all machines the same --key"};
  Mac own = proofOf(key, nodeRole, transcript);
  reply.insert(reply.end(), own.begin(), own.end());
  pending.erase(pending.begin(), pending.begin() + challengeBytes);
  done = true;
  return {};
}

SealedStream NodeHandshake::stream() const {
  return streamOf(key, true, drawn, transcript);
}

} // namespace polyrank::runtime::net
