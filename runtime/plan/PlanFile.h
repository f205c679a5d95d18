// The file around a plan: magic, versions, size and a hash of everything.

#pragma once

#include "support/Result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The version of plan.fbs: what `Plan.version` must be.
inline constexpr uint32_t planSchemaVersion = 22;

/// XXH3-128 over header (its hash field zero) and payload. It detects damage
/// and mix-ups, but is no defence against forgery.
using PlanHash = std::array<uint8_t, 16>;
std::string toHex(const PlanHash &hash);

/// The payload of a plan file: a flatbuffer `plan::Plan`, 64-byte aligned, in
/// memory that no other process can change (verified once, then trusted).
struct PlanBytes {
  struct Free {
    void operator()(std::byte *memory) const;
  };
  std::unique_ptr<std::byte[], Free> memory;
  size_t size = 0;
  PlanHash hash{};
  std::vector<uint8_t> header; // the file's bytes before the payload

  std::span<const uint8_t> payload() const {
    return {reinterpret_cast<const uint8_t *>(memory.get()), size};
  }
  /// The SHA-256 of the whole file, as `sha256sum` prints it.
  std::string sha256() const;
};

/// Writes `flatbuffer` (a finished `plan::Plan`) as a plan file, atomically:
/// `path` never holds a partial plan. Returns its hash.
Result<PlanHash> writePlan(const std::string &path,
                           std::span<const uint8_t> flatbuffer);

/// Reads a plan file and checks magic, version, size and hash. The contents
/// still have to be verified (runtime/plan/VerifyPlan.h).
Result<PlanBytes> readPlan(const std::string &path);

/// The same for an open file; `path` is for messages.
Result<PlanBytes> readPlan(int descriptor, const std::string &path);

} // namespace polyrank::runtime
