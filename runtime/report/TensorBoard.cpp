// Writes Event, Summary and SessionLog of TensorFlow's event.proto and
// summary.proto, with the few fields that scalars need.

#include "runtime/report/TensorBoard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

constexpr std::string_view prefix = "events.out.tfevents.";

// Field numbers, and the one enum value.
constexpr int eventWallTime = 1, eventStep = 2, eventFileVersion = 3,
              eventSummary = 5, eventSessionLog = 7;
constexpr int summaryValue = 1, valueTag = 1, valueNumber = 2;
constexpr int sessionStatus = 1, sessionStart = 1;

double wallTime() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::array<uint32_t, 256> crcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[byte] = value;
  }
  return table;
}();

/// Returns the current time, or one second after the latest event file in the
/// folder if that is later.
uint64_t timeForName(const std::string &folder) {
  auto time = static_cast<uint64_t>(wallTime());
  std::unique_ptr<DIR, int (*)(DIR *)> entries(opendir(folder.c_str()),
                                               closedir);
  while (dirent *entry = entries ? readdir(entries.get()) : nullptr) {
    std::string_view found = entry->d_name;
    uint64_t other = 0;
    if (!found.starts_with(prefix))
      continue;
    found.remove_prefix(prefix.size());
    auto parsed =
        std::from_chars(found.data(), found.data() + found.size(), other);
    if (parsed.ec == std::errc())
      time = std::max(time, other + 1);
  }
  return time;
}

} // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char byte : bytes)
    crc = crc >> 8 ^ crcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string tfRecord(std::string_view data) {
  auto word = [](auto value) {
    return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
  };
  auto masked = [&](std::string_view bytes) {
    uint32_t crc = crc32c(bytes);
    return word(static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8u));
  };
  std::string length = word(static_cast<uint64_t>(data.size()));
  return length + masked(length) + std::string(data) + masked(data);
}

Result<EventFile> EventFile::create(const std::string &folder,
                                    uint64_t firstStep) {
  std::string inside = folder.ends_with('/') ? folder : folder + "/";
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return Error{fmt::format("--tensorboard '{}': the folder cannot be made: "
                             "{}",
                             folder, std::strerror(errno))};
  utsname system{};
  uname(&system);
  EventFile events;
  events.name = fmt::format("{}{}{:010}.{}.{}.0", inside, prefix,
                            timeForName(inside), system.nodename, getpid());
  events.file = Descriptor(
      open(events.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (events.file.get() < 0)
    return Error{fmt::format("--tensorboard: cannot write '{}': {}",
                             events.name, std::strerror(errno))};
  std::string version;
  protozero::pbf_writer first(version);
  first.add_double(eventWallTime, wallTime());
  first.add_string(eventFileVersion, "brain.Event:2");
  if (Result<void> written = events.append(version); !written)
    return written.error();
  // "START": TensorBoard discards earlier events from this step on.
  std::string begin;
  {
    protozero::pbf_writer writer(begin);
    writer.add_double(eventWallTime, wallTime());
    writer.add_int64(eventStep, static_cast<int64_t>(firstStep));
    protozero::pbf_writer log(writer, eventSessionLog);
    log.add_enum(sessionStatus, sessionStart);
  }
  if (Result<void> written = events.append(begin); !written)
    return written.error();
  return std::move(events);
}

Result<void>
EventFile::add(uint64_t step,
               std::span<const std::pair<std::string, double>> scalars) {
  std::string text;
  {
    protozero::pbf_writer writer(text);
    writer.add_double(eventWallTime, wallTime());
    writer.add_int64(eventStep, static_cast<int64_t>(step));
    protozero::pbf_writer values(writer, eventSummary);
    for (auto &[tag, number] : scalars) {
      protozero::pbf_writer value(values, summaryValue);
      value.add_string(valueTag, tag);
      value.add_float(valueNumber, static_cast<float>(number));
    }
  }
  return append(text);
}

Result<void> EventFile::append(const std::string &event) {
  std::string record = tfRecord(event);
  Result<void> written =
      writeAt(file, name, size, record.data(), record.size());
  size += record.size();
  return written;
}

} // namespace polyrank::runtime
