// Both ends of the proof.

#include "runtime/comm/net/RankProof.h"

#include "runtime/job/net/Wire.h"

#include <algorithm>
#include <cstring>

namespace polyrank::runtime::net {
namespace {

constexpr std::array<uint8_t, 8> magic{'p', 'o', 'l', 'y', 'r', 'n', 'k', 2};
constexpr size_t macBytes = std::tuple_size_v<Mac>,
                 nonceBytes = std::tuple_size_v<RankProof::Nonce>;
constexpr size_t helloBytes = magic.size() + 8 + 16 + 3 * 4 + nonceBytes;
constexpr size_t answerBytes = 4 + nonceBytes + macBytes;

Error refusal(const std::string &why) { return Error{why, Error::Fault::Rank}; }

template <class Archive, class Pair>
void fields(Archive &archive, Pair &pairing, uint32_t &process) {
  archive.integer(pairing.incarnation);
  archive.raw(pairing.plan);
  archive.integer(pairing.caller);
  archive.integer(pairing.called);
  archive.integer(process);
}

void append(std::vector<uint8_t> &to, std::span<const uint8_t> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Mac macOf(std::span<const uint8_t> bytes) {
  Mac mac;
  std::copy(bytes.begin(), bytes.end(), mac.begin());
  return mac;
}

} // namespace

RankProof::RankProof(const JobKey &key, const Pairing &pairing, bool isCaller,
                     uint32_t process)
    : key(key.derive("ranks", {})), pairing(pairing), isCaller(isCaller),
      own(process), need(isCaller ? answerBytes : helloBytes) {}

RankProof RankProof::ofCaller(const JobKey &key, const Pairing &pairing,
                              uint32_t process, std::vector<uint8_t> &first) {
  RankProof end(key, pairing, true, process);
  Nonce nonce;
  drawRandom(nonce);
  WireWriter writer;
  writer.raw(magic);
  fields(writer, end.pairing, process);
  writer.raw(nonce);
  end.transcript = writer.bytes;
  first = std::move(writer.bytes);
  return end;
}

RankProof RankProof::ofCalled(const JobKey &key, const Pairing &expected,
                              uint32_t process) {
  return RankProof(key, expected, false, process);
}

Mac RankProof::proof(const char *role) const {
  return key.mac({{reinterpret_cast<const uint8_t *>(role), std::strlen(role)},
                  transcript});
}

Result<void> RankProof::receive(std::span<const uint8_t> bytes,
                                std::vector<uint8_t> &reply) {
  if (isLast) {
    if (!areEqual(macOf(bytes), proof(isCaller ? "welcome" : "caller")))
      return refusal("it has another key");
    if (!isCaller)
      append(reply, proof("welcome"));
    need = 0;
    return {};
  }
  isLast = true;
  if (isCaller) {
    size_t said = answerBytes - macBytes;
    transcript.insert(transcript.end(), bytes.begin(), bytes.begin() + said);
    if (!areEqual(macOf(bytes.subspan(said)), proof("called")))
      return refusal("it has another key");
    WireReader(bytes).integer(other);
    append(reply, proof("caller"));
    need = macBytes;
    return {};
  }
  if (!std::equal(magic.begin(), magic.end(), bytes.begin()))
    return refusal("it is no rank");
  Pairing said;
  WireReader reader(bytes.subspan(magic.size()));
  fields(reader, said, other);
  Pairing expected = pairing;
  expected.caller = said.caller;
  if (said.incarnation != expected.incarnation)
    return refusal("it is of another start of the job");
  if (!(said == expected))
    return refusal("it has another plan, or calls another rank");
  pairing = said;
  transcript.assign(bytes.begin(), bytes.end());
  Nonce nonce;
  drawRandom(nonce);
  WireWriter writer;
  writer.integer(own);
  writer.raw(nonce);
  transcript.insert(transcript.end(), writer.bytes.begin(), writer.bytes.end());
  append(reply, writer.bytes);
  append(reply, proof("called"));
  need = macBytes;
  return {};
}

} // namespace polyrank::runtime::net
