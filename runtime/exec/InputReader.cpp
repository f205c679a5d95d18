// One thread, one batch.

#include "runtime/exec/InputReader.h"

#include <exception>
#include <utility>

namespace polyrank::runtime {

InputReader::~InputReader() {
  {
    std::lock_guard lock(mutex);
    ends = true;
    if (job && !result)
      job->data->cancel();
  }
  changed.notify_all();
  if (worker.joinable())
    worker.join();
}

void InputReader::begin(const DataSource &data, const Batch &batch) {
  {
    std::lock_guard lock(mutex);
    if (job)
      return;
    job = {&data, batch};
    result.reset();
  }
  changed.notify_all();
  if (!worker.joinable())
    worker = std::thread([this] { work(); });
}

Result<std::span<const std::byte>> InputReader::take(const DataSource &data,
                                                     const Batch &batch) {
  Job wanted{&data, batch};
  std::unique_lock lock(mutex);
  if (job) {
    changed.wait(lock, [&] { return result.has_value(); });
    bool isWanted = *std::exchange(job, std::nullopt) == wanted;
    Result<void> done = *std::exchange(result, std::nullopt);
    std::exception_ptr caught = std::exchange(thrown, nullptr);
    if (isWanted && caught)
      std::rethrow_exception(caught);
    if (isWanted)
      return done ? Result<std::span<const std::byte>>(memory)
                  : Result<std::span<const std::byte>>(done.error());
  }
  lock.unlock();
  if (Result<void> done = read(data, batch, memory); !done)
    return done.error();
  return std::span<const std::byte>(memory);
}

void InputReader::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ends || (job && !result); });
    if (ends)
      return;
    Job current = *job;
    lock.unlock();
    Result<void> done;
    std::exception_ptr caught;
    try {
      done = read(*current.data, current.batch, memory);
    } catch (...) {
      caught = std::current_exception();
    }
    lock.lock();
    thrown = caught;
    result = std::move(done);
    changed.notify_all();
  }
}

} // namespace polyrank::runtime
