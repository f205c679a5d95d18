// Writes files of weights, piece by piece.

#include "runtime/exec/SaveWeights.h"

#include "runtime/exec/AssembleWeights.h"

#include <algorithm>
#include <future>

namespace polyrank::runtime {
namespace {

class Saver {
public:
  Saver(JobMember &job, const SaveOptions &options)
      : job(job), options(options) {
    for (const SavedEntry &entry : options.target.entries)
      tensors.push_back(entry.tensor);
  }

  Result<void> run(const LoadedPlan &plan, const RankProgram &program,
                   const Weights &initial) {
    POLYRANK_ASSIGN(opened, open());
    SafetensorsWriter &writer = file.emplace(std::move(opened));
    WeightAssembler assembler(*plan.plan, options.what, program, initial, job,
                              options.parallelFor, placesIn(writer));
    // Rounds begin at multiples of their size in the file, so that no page is
    // written twice.
    uint64_t roundBytes = options.rounds.partBytes();
    for (uint64_t begin = writer.dataBegin(); begin < writer.size();) {
      uint64_t end =
          std::min((begin / roundBytes + 1) * roundBytes, writer.size());
      options.onProgress(begin - writer.dataBegin(),
                         writer.size() - writer.dataBegin());
      job.beat();
      if (Result<void> done = runRound(assembler, writer, begin, end); !done)
        return done;
      begin = end;
    }
    if (Result<void> done = awaitWriting(); !done)
      return done;
    options.onProgress(writer.size() - writer.dataBegin(),
                       writer.size() - writer.dataBegin());
    if (writes())
      if (Result<void> finished = writer.finish(); !finished)
        return finished;
    return job.barrier();
  }

private:
  /// Rank 0's machine writes the file.
  bool writes() const { return job.here().has(0); }

  Result<SafetensorsWriter> open() {
    if (job.rank() != 0) {
      if (Result<void> created = job.barrier(); !created)
        return created.error();
      if (!writes())
        return SafetensorsWriter::layOut(options.target.path, tensors,
                                         savedMetadata());
      return SafetensorsWriter::join(options.target.path, options.file, tensors,
                                     savedMetadata());
    }
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(
        options.target.path, options.file, tensors, savedMetadata());
    if (!writer)
      return writer;
    if (Result<void> created = job.barrier(); !created)
      return created.error();
    return writer;
  }

  std::vector<WeightPlace> placesIn(const SafetensorsWriter &writer) const {
    std::vector<WeightPlace> places;
    for (size_t t = 0; t < tensors.size(); ++t) {
      uint64_t length = bytesOf(tensors[t].dtype);
      for (int64_t size : tensors[t].shape)
        length *= size;
      places.push_back({writer.offsetOf(t), writer.offsetOf(t) + length,
                        options.target.entries[t].stored, tensors[t].dtype});
    }
    return places;
  }

  Result<void> runRound(WeightAssembler &assembler, SafetensorsWriter &writer,
                        uint64_t begin, uint64_t end) {
    POLYRANK_ASSIGN(part, options.rounds.begin());
    uint64_t first = begin % part.size();
    std::byte *memory = part.data() + first;
    if (Result<void> filled = assembler.fill(begin, end, memory); !filled)
      return filled;
    // Now the other part is free on this rank, and then on all.
    if (Result<void> done = awaitWriting(); !done)
      return done;
    if (Result<void> all = options.rounds.filled(first, first + (end - begin));
        !all)
      return all;
    if (!writes())
      return {};
    auto [mine, mineEnd] =
        WeightAssembler::partOf(begin, end, job.rank(), job.here().count);
    std::span<std::byte> data(memory + (mine - begin), mineEnd - mine);
    if (!data.empty())
      writing = std::async(std::launch::async,
                           [&writer, mine, data, clears = job.isShared()] {
                             Result<void> done = writer.writeData(mine, data);
                             if (clears) // see WindowRounds
                               std::ranges::fill(data, std::byte());
                             return done;
                           });
    return {};
  }

  Result<void> awaitWriting() {
    return writing.valid() ? writing.get() : Result<void>();
  }

  JobMember &job;
  const SaveOptions &options;
  std::vector<TensorSpec> tensors; // in the file, aliases too
  std::optional<SafetensorsWriter> file;
  std::future<Result<void>> writing; // of the last part; ends before `file`
};

} // namespace

Result<void> saveWeights(const LoadedPlan &plan, const RankProgram &program,
                         const Weights &initial, JobMember &job,
                         const SaveOptions &options) {
  return Saver(job, options).run(plan, program, initial);
}

} // namespace polyrank::runtime
