// Copies a rank's part of a checkpoint and starts its writing.

#include "runtime/exec/CheckpointSaver.h"

#include "support/Failpoint.h"

#include <atomic>
#include <chrono>
#include <map>

namespace polyrank::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace

uint64_t CheckpointSaver::memoryBytes(const CheckpointLayout &layout,
                                      int64_t rank) {
  return layout.parts[static_cast<size_t>(rank)].empty()
             ? 0
             : ShardWriter::memoryBytes(layout.specsOf(rank));
}

Result<std::unique_ptr<CheckpointSaver>>
CheckpointSaver::create(const CheckpointLayout &layout, int64_t rank,
                        const RankProgram &program, const Weights &initial,
                        ParallelFor parallelFor, FileOperations &files) {
  std::unique_ptr<CheckpointSaver> saver(new CheckpointSaver(
      layout, rank, program, std::move(parallelFor), files));
  if (saver->parts.empty())
    return saver;
  POLYRANK_ASSIGN(writer, ShardWriter::create(layout.specsOf(rank)));
  saver->writer.emplace(std::move(writer));
  for (size_t p = 0; p < saver->parts.size(); ++p) {
    const CheckpointPart &part = saver->parts[p];
    if (part.argument)
      continue;
    // The values are zeros if the model's file has none.
    const StoredSource &source = initial.sources()[part.stored];
    if (!source.read)
      continue;
    if (Result<void> loaded = loadShard(
            part.placement, source, layout.manifest.tensors[part.tensor].dtype,
            saver->writer->dataOf(p).data());
        !loaded)
      return loaded.error();
  }
  return saver;
}

Result<std::optional<uint32_t>> CheckpointSaver::copy(bool looksForNan) {
  failpoint("checkpoint.before_copy");
  struct Moved {
    size_t part;
    bool isLookedAt; // for NaN
  };
  std::map<const plan::Argument *, Downloaded> shards;
  std::vector<Moved> moved;
  for (size_t p = 0; p < parts.size(); ++p) {
    const plan::Argument *argument = parts[p].argument;
    if (!argument)
      continue;
    moved.push_back({p, looksForNan && program.wasFinite(*argument)});
    if (shards.contains(argument))
      continue;
    POLYRANK_ASSIGN(shard, program.download(*argument->buffer()));
    shards.emplace(argument, std::move(shard));
  }
  constexpr uint32_t none = ~0u;
  std::atomic<uint32_t> first = none; // stored tensor that is not finite
  auto copyPart = [&](const Moved &each) {
    const CheckpointPart &part = parts[each.part];
    ElementType type = layout.manifest.tensors[part.tensor].dtype;
    std::span<std::byte> data = writer->dataOf(each.part);
    storeShard(part.placement, bytesOf(type), shards.at(part.argument).data(),
               data.data());
    int64_t count = static_cast<int64_t>(data.size()) / bytesOf(type);
    if (!each.isLookedAt ||
        isFiniteShard({{count, count, 0, count}}, type, data.data()))
      return;
    uint32_t stored = part.argument->view()->stored(), seen = first.load();
    while (stored < seen && !first.compare_exchange_weak(seen, stored))
      ;
  };
  parallelFor(static_cast<int64_t>(moved.size()), 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t m = begin; m < end; ++m)
                  copyPart(moved[static_cast<size_t>(m)]);
              });
  return first == none ? std::nullopt : std::optional(first.load());
}

Result<std::optional<ShardReport>>
CheckpointSaver::save(uint64_t step, const std::string &unfinished,
                      bool checksFinite, const std::function<void()> &onTick) {
  auto start = Clock::now();
  std::optional<ShardReport> before = finish(onTick);
  current = {};
  current.step = step;
  current.waitSeconds = secondsSince(start);
  if (!writer)
    return before;
  start = Clock::now();
  POLYRANK_ASSIGN(notFinite, copy(checksFinite));
  if (notFinite)
    return program.notFiniteError(*notFinite);
  current.copySeconds = secondsSince(start);
  writer->start(
      files, unfinished,
      layout.manifest
          .files[static_cast<size_t>(layout.files[static_cast<size_t>(rank)])]
          .name);
  return before;
}

std::optional<ShardReport> CheckpointSaver::poll() {
  return writer && writer->isWritten() ? finish({}) : std::nullopt;
}

std::optional<ShardReport>
CheckpointSaver::finish(const std::function<void()> &onTick) {
  if (!writer || !writer->isWriting())
    return std::nullopt;
  Result<WrittenShard> written = writer->wait(onTick);
  if (!written) {
    current.error = written.error().message;
    return current;
  }
  current.bytes = written->bytes;
  current.writeSeconds = written->seconds;
  current.checksums = std::move(written->checksums);
  return current;
}

} // namespace polyrank::runtime
