// Any text as the manifest of a checkpoint, sealed with its right digest, and
// after a zero byte the bytes of the files that it names: as many for each as
// the manifest says.

#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/checkpoint/Checksum.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

constexpr const char *file = "manifest.json";

/// Only shorter files are written.
constexpr uint64_t maxBytes = 1 << 16;

void writeFiles(const Manifest &manifest, const std::string &folder,
                std::string_view bytes) {
  for (const ManifestFile &each : manifest.files) {
    if (each.bytes > maxBytes || each.name.find('/') != std::string::npos)
      return;
    std::string content(bytes.substr(0, each.bytes));
    bytes.remove_prefix(content.size());
    content.resize(each.bytes);
    fuzz::writeFile(folder + "/" + each.name, content);
  }
}

/// Reads every tensor, in parts that do not end at block bounds.
void readAll(CheckpointReader &reader) {
  for (const ManifestTensor &tensor : reader.manifest().tensors)
    for (const ManifestChunk &chunk : tensor.chunks) {
      uint64_t size = chunk.box.elements() * bytesOf(tensor.dtype);
      if (size > maxBytes)
        continue; // no file has so much
      std::vector<std::byte> bytes(size);
      auto part = [&](uint64_t begin, uint64_t length) {
        auto read =
            reader.read(tensor, chunk, begin, bytes.data() + begin, length);
        if (!read && read.error().message.find("shard-") == std::string::npos)
          std::abort(); // a message names the file
        return bool(read);
      };
      if (!part(0, size / 3) || !part(size / 3, size - size / 3) ||
          !part(0, size))
        return;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input = fuzz::text(data, size),
                   body = input.substr(0, input.find('\0')),
                   bytes = input.substr(std::min(size, body.size() + 1));
  std::string sealed = "{\"digest\":\"" + digestOf(body) +
                       "\",\"manifest\":" + std::string(body) + "}\n";
  auto manifest = manifestFromText(file, sealed);
  if (!manifest) {
    if (!manifest.error().message.starts_with("manifest.json: "))
      std::abort();
    return 0;
  }
  // Writes what was read, and reads it again.
  auto again = manifestFromText(file, textOf(*manifest));
  if (!again || textOf(*again) != textOf(*manifest))
    std::abort();

  std::string folder = fuzz::folder() / "checkpoints",
              name = checkpointName(manifest->step);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/" + name);
  fuzz::writeFile("checkpoints/" + name + "/" + manifestName, sealed);
  writeFiles(*manifest, "checkpoints/" + name, bytes);
  CheckpointChoice choice = *newestCheckpoint(folder);
  if (!choice.found) {
    // The largest possible step number is excluded by `before`.
    if (manifest->step != ~uint64_t(0) && choice.damaged.size() != 1)
      std::abort();
    return 0;
  }
  CheckpointReader reader(*choice.found);
  if (auto whole = reader.checkAll();
      !whole && whole.error().message.find("shard-") == std::string::npos)
    std::abort();
  readAll(reader);
  return 0;
}
