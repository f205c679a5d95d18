// Reads the inputs of a step while the step before it runs.

#pragma once

#include "runtime/data/DataSource.h"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace polyrank::runtime {

/// Holds what a rank reads of one batch, in memory of the host, and reads it on
/// a thread of its own. The sources outlive it.
class InputReader {
public:
  /// Reads the rank's part of a batch into memory, whose bytes before are
  /// unspecified. Called by one thread at a time.
  using Read = std::function<Result<void>(
      const DataSource &data, const Batch &batch, std::span<std::byte> memory)>;

  InputReader(uint64_t bytes, Read read)
      : read(std::move(read)), memory(bytes) {}
  ~InputReader();

  /// Begins to read a batch. Does nothing while another one is being read or
  /// was not taken yet.
  void begin(const DataSource &data, const Batch &batch);
  /// Returns the bytes of a batch, or the error of reading it: waits for what
  /// was begun, and reads the batch now if that was another one. The bytes stay
  /// until the next call of either. What the reading throws is thrown here.
  Result<std::span<const std::byte>> take(const DataSource &data,
                                          const Batch &batch);

private:
  struct Job {
    const DataSource *data;
    Batch batch;
    bool operator==(const Job &) const = default;
  };

  void work();

  Read read;
  std::vector<std::byte> memory;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Job> job;             // begun and not taken
  std::optional<Result<void>> result; // of the job, once it is done
  std::exception_ptr thrown;          // by it
  bool ends = false;
  std::thread worker; // started by the first job
};

} // namespace polyrank::runtime
