// Reads and makes keys; HMAC-SHA256 is libsodium's.

#include "runtime/job/net/JobKey.h"

#include "support/File.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace polyrank::runtime::net {
namespace {

constexpr size_t digits = 2 * JobKey::size;

/// The value of a hex digit, or -1.
int valueOf(char digit) {
  if (digit >= '0' && digit <= '9')
    return digit - '0';
  if (digit >= 'a' && digit <= 'f')
    return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F')
    return digit - 'A' + 10;
  return -1;
}

void clear(std::string &text) { sodium_memzero(text.data(), text.size()); }

Error notAKey(const std::string &source) {
  return Error{fmt::format("{} is no key of a job, which has 64 hex digits; "
                           "polyrank-run --new-key FILE makes one",
                           source)};
}

} // namespace

JobKey::JobKey(std::span<const uint8_t, size> given) {
  std::copy(given.begin(), given.end(), bytes.begin());
}

JobKey::~JobKey() { sodium_memzero(bytes.data(), bytes.size()); }

Result<JobKey> JobKey::parse(const std::string &text,
                             const std::string &source) {
  std::string_view hex = text;
  if (hex.ends_with('\n')) // of a file, from which a Secret was made too
    hex.remove_suffix(1);
  if (hex.size() != digits)
    return notAKey(source);
  std::array<uint8_t, size> parsed;
  for (size_t i = 0; i < size; ++i) {
    int high = valueOf(hex[2 * i]), low = valueOf(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      return notAKey(source);
    parsed[i] = static_cast<uint8_t>(16 * high + low);
  }
  JobKey key(parsed);
  sodium_memzero(parsed.data(), parsed.size());
  return key;
}

Result<JobKey> JobKey::read(const std::string &path) {
  // A link is followed; what counts is the file itself.
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0)
    return fileError(path, "cannot read the key of the job");
  if (!S_ISREG(status.st_mode))
    return Error{fmt::format("'{}', the key of the job, is no file", path)};
  if (status.st_uid != geteuid())
    return Error{fmt::format(
        "'{}', the key of the job, belongs to user {}, and this is user {}: a "
        "key must be this user's own; make one with polyrank-run --new-key "
        "FILE",
        path, status.st_uid, geteuid())};
  if (status.st_mode & (S_IRWXG | S_IRWXO))
    return Error{fmt::format("'{}', the key of the job, has mode {:04o}: other "
                             "users could use it; chmod 600 '{}'",
                             path, status.st_mode & 07777, path)};
  std::string text(digits + 2, '\0');
  ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  if (got < 0)
    return fileError(path, "cannot read the key of the job");
  text.resize(static_cast<size_t>(got));
  Result<JobKey> key = parse(text, fmt::format("what is in '{}'", path));
  clear(text);
  return key;
}

Result<std::optional<JobKey>> JobKey::find(const std::string &path,
                                           const char *variable) {
  if (path.empty() && (!variable || !*variable))
    return std::optional<JobKey>();
  Result<JobKey> key =
      path.empty() ? parse(variable, "POLYRANK_KEY") : read(path);
  if (!key)
    return key.error();
  return std::optional<JobKey>(*key);
}

Result<void> JobKey::create(const std::string &path) {
  std::array<uint8_t, size> drawn;
  drawRandom(drawn);
  std::string text;
  for (uint8_t byte : drawn)
    text += fmt::format("{:02x}", byte);
  text += '\n';
  sodium_memzero(drawn.data(), drawn.size());
  Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0 && errno == EEXIST)
    return Error{fmt::format("'{}' is there already: a key is never "
                             "overwritten; give another name, or remove it",
                             path)};
  if (file.get() < 0)
    return fileError(path, "cannot write the key");
  Result<void> written = writeAt(file, path, 0, text.data(), text.size());
  clear(text);
  if (written && !file.close())
    written = fileError(path, "cannot write the key", Error::Fault::Disk);
  if (!written)
    unlink(path.c_str());
  return written;
}

Mac JobKey::mac(std::initializer_list<std::span<const uint8_t>> parts) const {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes.data(), bytes.size());
  for (std::span<const uint8_t> part : parts)
    crypto_auth_hmacsha256_update(&state, part.data(), part.size());
  Mac result;
  crypto_auth_hmacsha256_final(&state, result.data());
  return result;
}

JobKey JobKey::derive(std::string_view purpose,
                      std::span<const uint8_t> context) const {
  // The length of the purpose keeps it apart from the context.
  uint8_t length = static_cast<uint8_t>(purpose.size());
  Mac bytes =
      mac({{&length, 1},
           {reinterpret_cast<const uint8_t *>(purpose.data()), purpose.size()},
           context});
  JobKey key(bytes);
  sodium_memzero(bytes.data(), bytes.size());
  return key;
}

bool areEqual(const Mac &a, const Mac &b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void drawRandom(std::span<uint8_t> into) {
  for (size_t done = 0; done < into.size();) {
    ssize_t got = getrandom(into.data() + done, into.size() - done, 0);
    if (got > 0)
      done += static_cast<size_t>(got);
    else if (got < 0 && errno != EINTR)
      // No key, nonce or incarnation may be guessable.
      std::abort();
  }
}

} // namespace polyrank::runtime::net
