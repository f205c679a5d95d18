// Writes one safetensors file in the background.

#include "runtime/checkpoint/ShardWriter.h"

#include "runtime/checkpoint/Checksum.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace polyrank::runtime {
namespace {

constexpr uint64_t page = 4096;
const std::map<std::string, std::string> metadata{
    {"format", "pt"}, {"polyrank", "shard of a checkpoint"}};

uint64_t lengthOf(const TensorSpec &tensor) {
  uint64_t length = static_cast<uint64_t>(bytesOf(tensor.dtype));
  for (int64_t size : tensor.shape)
    length *= static_cast<uint64_t>(size);
  return length;
}

uint64_t memoryOf(const SafetensorsWriter &layout) {
  return layout.size() - layout.dataBegin() / page * page;
}

} // namespace

void ShardWriter::Free::operator()(std::byte *memory) const {
  std::free(memory);
}

uint64_t ShardWriter::memoryBytes(std::span<const TensorSpec> tensors) {
  Result<SafetensorsWriter> layout =
      SafetensorsWriter::layOut("a checkpoint", tensors, metadata);
  return layout ? memoryOf(*layout) : 0;
}

Result<ShardWriter> ShardWriter::create(std::vector<TensorSpec> tensors) {
  ShardWriter writer;
  POLYRANK_ASSIGN(layout,
                  SafetensorsWriter::layOut("a checkpoint", tensors, metadata));
  writer.layout = std::make_unique<SafetensorsWriter>(std::move(layout));
  writer.tensors = std::move(tensors);
  uint64_t bytes = memoryOf(*writer.layout);
  writer.memory.reset(static_cast<std::byte *>(
      std::aligned_alloc(page, (bytes + page - 1) / page * page + page)));
  if (!writer.memory)
    return Error{"no memory for the " + std::to_string(bytes) +
                     " bytes of this rank's part of a checkpoint",
                 Error::Fault::Rank};
  // Touches the memory, so that it is resident.
  std::memset(writer.memory.get(), 0, bytes);
  return std::move(writer);
}

std::span<std::byte> ShardWriter::dataOf(size_t tensor) {
  uint64_t from = layout->dataBegin() / page * page;
  return {memory.get() + (layout->offsetOf(tensor) - from),
          lengthOf(tensors[tensor])};
}

void ShardWriter::start(FileOperations &files, const std::string &folder,
                        const std::string &name) {
  writing = std::async(std::launch::async,
                       [this, &files, folder, path = folder + "/" + name] {
                         return write(files, folder, path);
                       });
}

bool ShardWriter::isWritten() const {
  return writing.valid() &&
         writing.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Result<WrittenShard> ShardWriter::wait(const std::function<void()> &onTick) {
  while (writing.wait_for(std::chrono::milliseconds(100)) !=
         std::future_status::ready)
    if (onTick)
      onTick();
  return writing.get();
}

Result<WrittenShard> ShardWriter::write(FileOperations &files,
                                        const std::string &folder,
                                        const std::string &path) const {
  auto begun = std::chrono::steady_clock::now();
  auto onDisk = [](const Error &error) {
    return Error{error.message, Error::Fault::Disk};
  };
  if (Result<void> made = files.makeFolder(folder); !made)
    return made.error();
  POLYRANK_ASSIGN(file, files.create(path));
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path, file.get(), tensors, metadata);
  if (!writer)
    return onDisk(writer.error());
  WrittenShard shard;
  shard.bytes = writer->size();
  uint64_t from = layout->dataBegin() / page * page;
  for (size_t t = 0; t < tensors.size(); ++t)
    shard.checksums.push_back(checksumsOf(
        {memory.get() + (layout->offsetOf(t) - from), lengthOf(tensors[t])}));
  if (Result<void> written = writer->writeData(
          writer->dataBegin(), {memory.get() + (writer->dataBegin() - from),
                                writer->size() - writer->dataBegin()});
      !written)
    return onDisk(written.error());
  if (Result<void> synced = files.sync(file, path); !synced)
    return synced.error();
  if (!file.close())
    return fileError(path, "cannot be closed", Error::Fault::Disk);
  shard.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun)
          .count();
  return shard;
}

} // namespace polyrank::runtime
