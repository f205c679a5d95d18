// Reads and writes the file around a plan.

#include "runtime/plan/PlanFile.h"

#include "support/OutputFile.h"
#include "support/Sha256.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace polyrank::runtime {
namespace {

constexpr char magic[8] = {'P', 'O', 'L', 'Y', 'R', 'A', 'N', 'K'};

// Little-endian, like every supported machine. The payload starts at byte 64,
// so that the alignment inside the flatbuffer holds in the file, too.
struct Header {
  char magic[8];
  uint32_t schemaVersion;
  uint32_t headerSize;
  uint64_t payloadSize;
  uint8_t hash[16];
  uint8_t zero[24];
};
static_assert(sizeof(Header) == 64);

PlanHash hashOf(Header header, std::span<const uint8_t> payload) {
  std::memset(header.hash, 0, sizeof(header.hash));
  XXH3_state_t *state = XXH3_createState();
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, &header, sizeof(header));
  XXH3_128bits_update(state, payload.data(), payload.size());
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
  XXH3_freeState(state);
  PlanHash hash;
  std::memcpy(hash.data(), canonical.digest, hash.size());
  return hash;
}

Error planError(const std::string &path, const std::string &what) {
  return Error{"plan '" + path + "': " + what};
}

Error systemError(const std::string &path, const std::string &what) {
  return fileError("plan '" + path + "'", what);
}

} // namespace

std::string PlanBytes::sha256() const {
  Sha256 digest;
  digest.add(header);
  digest.add(payload());
  return digest.hex();
}

void PlanBytes::Free::operator()(std::byte *memory) const { std::free(memory); }

std::string toHex(const PlanHash &hash) {
  std::string text;
  for (uint8_t byte : hash) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Result<PlanHash> writePlan(const std::string &path,
                           std::span<const uint8_t> flatbuffer) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.schemaVersion = planSchemaVersion;
  header.headerSize = sizeof(Header);
  header.payloadSize = flatbuffer.size();
  PlanHash hash = hashOf(header, flatbuffer);
  std::memcpy(header.hash, hash.data(), hash.size());

  POLYRANK_ASSIGN(file, OutputFile::create(path));
  Result<void> written =
      writeAt(file.descriptor(), path, 0, &header, sizeof(header));
  if (written)
    written = writeAt(file.descriptor(), path, sizeof(header),
                      flatbuffer.data(), flatbuffer.size());
  if (written)
    written = file.commit();
  if (!written)
    return written.error();
  return hash;
}

Result<PlanBytes> readPlan(const std::string &path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    return systemError(path, "cannot open");
  return readPlan(file.get(), path);
}

Result<PlanBytes> readPlan(int descriptor, const std::string &path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return systemError(path, "cannot read");
  if (!S_ISREG(status.st_mode))
    return planError(path, "is not a regular file");
  uint64_t fileSize = status.st_size;
  if (fileSize < sizeof(Header))
    return planError(path, "is not a plan: " + std::to_string(fileSize) +
                               " bytes are less than a header");

  auto readAt = [&](void *data, uint64_t size, uint64_t offset) {
    auto *at = static_cast<char *>(data);
    while (size > 0) {
      ssize_t got = pread(descriptor, at, size, offset);
      if (got < 0 && errno == EINTR)
        continue;
      if (got == 0)
        errno = ENODATA; // the file became shorter
      if (got <= 0)
        return false;
      at += got, offset += got, size -= got;
    }
    return true;
  };

  Header header;
  if (!readAt(&header, sizeof(header), 0))
    return systemError(path, "cannot read");
  if (std::memcmp(header.magic, magic, sizeof(magic)) != 0)
    return planError(path, "is not a plan (polyrank-compile writes plans)");
  if (header.schemaVersion != planSchemaVersion)
    return planError(path, "has version " +
                               std::to_string(header.schemaVersion) +
                               ", this polyrank-run reads version " +
                               std::to_string(planSchemaVersion) +
                               ": compile the model again");
  if (header.headerSize != sizeof(Header))
    return fileError(path,
                     "has a header of " + std::to_string(header.headerSize) +
                         " bytes instead of " + std::to_string(sizeof(Header)));
  if (header.payloadSize != fileSize - sizeof(Header))
    return planError(path, "is damaged: it should hold " +
                               std::to_string(header.payloadSize) +
                               " bytes after its header, it holds " +
                               std::to_string(fileSize - sizeof(Header)));

  PlanBytes bytes;
  bytes.size = header.payloadSize;
  uint64_t allocated = (bytes.size / 64 + 1) * 64;
  bytes.memory.reset(
      static_cast<std::byte *>(std::aligned_alloc(64, allocated)));
  if (!bytes.memory)
    return planError(path, "no memory for its " + std::to_string(bytes.size) +
                               " bytes");
  if (!readAt(bytes.memory.get(), bytes.size, sizeof(Header)))
    return systemError(path,
                       "cannot read: it became shorter or the disk failed");
  std::memcpy(bytes.hash.data(), header.hash, bytes.hash.size());
  bytes.header.resize(sizeof(header));
  std::memcpy(bytes.header.data(), &header, sizeof(header));
  PlanHash found = hashOf(header, bytes.payload());
  if (found != bytes.hash)
    return planError(path, "is damaged: its hash should be " +
                               toHex(bytes.hash) + ", it is " + toHex(found));
  return bytes;
}

} // namespace polyrank::runtime
