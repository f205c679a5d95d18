// The secret that the machines of a job share.

#pragma once

#include "support/Result.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace polyrank::runtime::net {

/// An HMAC-SHA256.
using Mac = std::array<uint8_t, 32>;

/// 32 random bytes. They are cleared when the object ends, are never printed,
/// and never stand in a command line.
class JobKey {
public:
  static constexpr size_t size = 32;

  /// Reads a file of 64 hex digits and at most one line break. Refuses a file
  /// that is not this user's, or that others may read or write (mode 0600 or
  /// 0400).
  static Result<JobKey> read(const std::string &path);
  /// Parses 64 hex digits and at most one line break. `source` names where they
  /// come from, in errors.
  static Result<JobKey> parse(const std::string &text,
                              const std::string &source);
  /// The key of `--key FILE` if `path` is not empty, else of POLYRANK_KEY, else
  /// nothing. `variable` is the value of POLYRANK_KEY, or null.
  static Result<std::optional<JobKey>> find(const std::string &path,
                                            const char *variable);
  /// Writes a new key, drawn by the system, into a new file of mode 0600. Fails
  /// if the file exists.
  static Result<void> create(const std::string &path);

  explicit JobKey(std::span<const uint8_t, size> bytes);
  JobKey(const JobKey &) = default;
  JobKey &operator=(const JobKey &) = default;
  ~JobKey();

  /// The HMAC-SHA256 of all parts, one after another.
  Mac mac(std::initializer_list<std::span<const uint8_t>> parts) const;
  /// A key that follows from this one, for the purpose of that name.
  JobKey derive(std::string_view purpose,
                std::span<const uint8_t> context) const;

private:
  std::array<uint8_t, size> bytes;
};

/// Compares in a time that does not depend on where they differ.
bool areEqual(const Mac &a, const Mac &b);

/// Fills it with random bytes of the system.
void drawRandom(std::span<uint8_t> into);

} // namespace polyrank::runtime::net
