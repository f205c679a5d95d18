// Reads /proc/PID/stat.

#include "support/Processes.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace polyrank {
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

} // namespace polyrank
