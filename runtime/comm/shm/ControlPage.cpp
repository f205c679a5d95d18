// The layout of the control page, abort, liveness of processes, futexes.

#include "runtime/comm/shm/ControlPage.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace polyrank::runtime::shm {
namespace {

constexpr uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr uint64_t ranksOffset = roundUp(sizeof(ControlHeader), 4096);

uint64_t groupStride(uint64_t worldSize) {
  return sizeof(GroupHeader) + worldSize * sizeof(GroupMember);
}
uint64_t groupsOffset(uint64_t worldSize) {
  return roundUp(ranksOffset + worldSize * sizeof(RankState), 4096);
}
uint64_t offsetsOffset(uint64_t worldSize, uint64_t groupCapacity) {
  return roundUp(
      groupsOffset(worldSize) + groupCapacity * groupStride(worldSize), 4096);
}

uint64_t recordsOffset(uint64_t worldSize, uint64_t groupCapacity) {
  return roundUp(offsetsOffset(worldSize, groupCapacity) +
                     worldSize * publishedTransfers * sizeof(BufferOffsets),
                 4096);
}

Error systemError(const char *what) {
  return {std::string(what) + ": " + std::strerror(errno), Error::Fault::Rank};
}

} // namespace

ControlPage::ControlPage(ControlPage &&other) noexcept
    : base(std::exchange(other.base, nullptr)), size(other.size) {}

ControlPage &ControlPage::operator=(ControlPage &&other) noexcept {
  std::swap(base, other.base);
  std::swap(size, other.size);
  return *this;
}

ControlPage::~ControlPage() {
  if (base)
    munmap(base, size);
}

uint64_t ControlPage::sizeFor(int worldSize, int groupCapacity) {
  return recordsOffset(worldSize, groupCapacity) +
         worldSize * uint64_t(mostSlots) * sizeof(TransferRecord);
}

Result<ControlPage> ControlPage::map(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return systemError("control page");
  ControlPage page;
  page.size = status.st_size;
  void *memory = mmap(nullptr, page.size, PROT_READ | PROT_WRITE, MAP_SHARED,
                      descriptor, 0);
  if (memory == MAP_FAILED)
    return systemError("mapping the control page");
  page.base = static_cast<std::byte *>(memory);
  return page;
}

Result<ControlPage> ControlPage::initialize(int descriptor, int worldSize,
                                            int groupCapacity,
                                            uint64_t spinNanoseconds,
                                            const ProgramDigest &program) {
  POLYRANK_ASSIGN(page, map(descriptor));
  ControlHeader &header = page.header();
  header.version = controlVersion;
  header.worldSize = worldSize;
  header.groupCapacity = groupCapacity;
  header.spinNanoseconds = spinNanoseconds;
  header.launcher = thisProcess();
  header.program = program;
  return std::move(page);
}

ControlHeader &ControlPage::header() const {
  return *reinterpret_cast<ControlHeader *>(base);
}

RankState &ControlPage::rank(int rank) const {
  return reinterpret_cast<RankState *>(base + ranksOffset)[rank];
}

GroupHeader &ControlPage::group(uint32_t index) const {
  uint64_t world = header().worldSize;
  return *reinterpret_cast<GroupHeader *>(base + groupsOffset(world) +
                                          index * groupStride(world));
}

GroupMember &ControlPage::member(uint32_t groupIndex, int member) const {
  return reinterpret_cast<GroupMember *>(&group(groupIndex) + 1)[member];
}

std::span<BufferOffsets> ControlPage::offsets(int rank) const {
  auto *all = reinterpret_cast<BufferOffsets *>(
      base + offsetsOffset(header().worldSize, header().groupCapacity));
  return {all + rank * size_t(publishedTransfers), publishedTransfers};
}

std::span<TransferRecord> ControlPage::records(int rank) const {
  auto *all = reinterpret_cast<TransferRecord *>(
      base + recordsOffset(header().worldSize, header().groupCapacity));
  return {all + rank * size_t(mostSlots), mostSlots};
}

std::vector<int> ControlPage::blockersOf(const Wait &wait) const {
  std::vector<int> blockers;
  if (!wait.isForStarts()) // a rank that works on a piece waits for nobody
    return blockers;
  for (uint32_t m = 0; m < group(wait.group).size; ++m) {
    const GroupMember &each = member(wait.group, static_cast<int>(m));
    if (each.operations[wait.slot].arrival.load() != wait.turn + 1)
      blockers.push_back(each.rank);
  }
  return isOver(wait) ? std::vector<int>() : blockers;
}

bool ControlPage::mayBegin(uint64_t step) const {
  return header().frontier.mayBegin(step);
}

bool ControlPage::isClosedBefore(uint64_t step) const {
  return header().frontier.isClosedBefore(step);
}

uint64_t ControlPage::stopSteps() const { return header().frontier.close(); }

void ControlPage::abort(const std::string &message) const {
  ControlHeader &job = header();
  AbortState running = AbortState::Running;
  if (job.aborted.compare_exchange_strong(running, AbortState::Writing)) {
    size_t length = std::min(message.size(), messageCapacity - 1);
    std::memcpy(job.message, message.data(), length);
    job.message[length] = '\0';
    job.aborted.store(AbortState::Aborted);
  }
  for (uint32_t g = 0; g < job.groupCapacity; ++g) {
    if (group(g).state.load() == GroupState::Free)
      break; // groups are claimed in order
    for (OperationSlot &operation : group(g).operations)
      wakeAll(operation.turn);
  }
}

Result<void> ControlPage::health() const {
  ControlHeader &job = header();
  AbortState state = job.aborted.load(std::memory_order_acquire);
  if (state == AbortState::Running)
    return {};
  // The author writes the message promptly, unless it was preempted; but it may
  // also die while writing.
  for (int wait = 0; state == AbortState::Writing && wait < 100; ++wait) {
    usleep(1000);
    state = job.aborted.load(std::memory_order_acquire);
  }
  if (state == AbortState::Writing)
    return Error{"the job was aborted", Error::Fault::Rank};
  return Error{job.message, Error::Fault::Rank};
}

namespace {

/// Reads fields 3 (state) and 22 (start time) of /proc/PID/stat.
bool readProcess(int32_t pid, char &state, uint64_t &startTime) {
  std::string path = "/proc/" + std::to_string(pid) + "/stat";
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  char text[1024];
  ssize_t length = read(descriptor, text, sizeof(text) - 1);
  close(descriptor);
  if (length <= 0)
    return false;
  text[length] = '\0';
  // Field 2 is the name in brackets, and may itself hold spaces and brackets.
  char *field = std::strrchr(text, ')');
  if (!field || field[1] != ' ')
    return false;
  state = field[2];
  field += 2;
  for (int number = 3; number < 22; ++number) {
    field = std::strchr(field, ' ');
    if (!field)
      return false;
    ++field;
  }
  startTime = std::strtoull(field, nullptr, 10);
  return true;
}

} // namespace

ProcessName thisProcess() {
  ProcessName name;
  name.pid = getpid();
  char state;
  if (!readProcess(name.pid, state, name.startTime))
    name.startTime = 0;
  return name;
}

bool isAlive(const ProcessName &process) {
  char state;
  uint64_t startTime;
  // A failed read proves little: there may be no free descriptor, or no /proc.
  // Only ESRCH from the kernel proves that there is no such process.
  if (!readProcess(process.pid, state, startTime))
    return kill(process.pid, 0) == 0 || errno != ESRCH;
  return state != 'Z' && state != 'X' &&
         (process.startTime == 0 || startTime == process.startTime);
}

char processState(int32_t pid) {
  char state;
  uint64_t startTime;
  return readProcess(pid, state, startTime) ? state : '?';
}

int64_t monotonicNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void sleepWhile(std::atomic<uint32_t> &word, uint32_t value) {
  timespec limit{0, 100'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wakeAll(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace polyrank::runtime::shm
