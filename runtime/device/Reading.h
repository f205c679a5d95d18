// What the host reads of a device's memory while it does other work.

#pragma once

#include "runtime/device/Event.h"

#include <cstddef>
#include <memory>
#include <span>

namespace polyrank::runtime {

/// The contents that a part of a device's memory had at one event. They are
/// there once the reading's own event is over.
class Reading {
public:
  Reading() = default;
  Reading(Event event, std::shared_ptr<const std::byte[]> memory, size_t size)
      : over(std::move(event)), memory(std::move(memory)), size(size) {}

  const Event &event() const { return over; }
  /// Does not wait.
  bool isThere() const { return over.isOver(); }
  /// Waits for the contents, which stay valid as long as the reading.
  Result<std::span<const std::byte>> bytes() const {
    if (Result<void> done = over.wait(); !done)
      return done.error();
    return std::span(memory.get(), size);
  }

private:
  Event over;
  std::shared_ptr<const std::byte[]> memory;
  size_t size = 0;
};

} // namespace polyrank::runtime
