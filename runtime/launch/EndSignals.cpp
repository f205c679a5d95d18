// Signals that stay pending until they are taken.

#include "runtime/launch/Launcher.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <sys/signalfd.h>
#include <unistd.h>

namespace polyrank::runtime {

using Clock = std::chrono::steady_clock;

namespace {

constexpr int endSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

bool isIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

} // namespace

void EndSignals::endAtOnce(Error::Fault fault) {
  static volatile sig_atomic_t code;
  code = int(fault);
  struct sigaction action{};
  action.sa_handler = [](int) { // only async-signal-safe calls
    constexpr std::string_view text =
        "polyrank-run: interrupted by a signal before the ranks were started\n";
    [[maybe_unused]] ssize_t written =
        write(STDERR_FILENO, text.data(), text.size());
    _exit(code);
  };
  for (int signal : endSignals)
    if (!isIgnored(signal))
      sigaction(signal, &action, nullptr);
}

Result<EndSignals> EndSignals::block() {
  EndSignals result;
  // If the parent process ignores SIGCHLD, that is inherited, and our
  // children's exit statuses would be lost.
  signal(SIGCHLD, SIG_DFL);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  for (int signal : endSignals) {
    // A blocked signal arrives at the descriptor even if it is ignored.
    if (isIgnored(signal))
      continue;
    sigaddset(&blocked, signal);
    result.handled.push_back(signal);
  }
  result.file = Descriptor(signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK));
  if (result.file.get() < 0)
    return Error{
        fmt::format("cannot watch for signals: {}", std::strerror(errno)),
        Error::Fault::Rank};
  sigprocmask(SIG_BLOCK, &blocked, &result.mask);
  return std::move(result);
}

EndSignals::~EndSignals() {
  if (file.get() < 0)
    return;
  // A pending signal would end the process as soon as it is unblocked.
  for (int signal : handled)
    ::signal(signal, SIG_IGN);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

void EndSignals::handBack(Error::Fault fault) {
  for (int signal : handled)
    ::signal(signal, SIG_DFL);
  endAtOnce(fault);
  file = Descriptor();
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

int EndSignals::take() const {
  signalfd_siginfo info;
  while (read(file.get(), &info, sizeof(info)) == sizeof(info))
    if (info.ssi_signo != SIGCHLD)
      return taken = static_cast<int>(info.ssi_signo);
  return 0;
}

int EndSignals::await(std::chrono::milliseconds time) const {
  auto end = Clock::now() + time;
  int signal = take();
  for (auto now = Clock::now(); !signal && now < end; now = Clock::now()) {
    pollfd ready{file.get(), POLLIN, 0};
    poll(&ready, 1,
         static_cast<int>(
             std::chrono::ceil<std::chrono::milliseconds>(end - now).count()));
    signal = take();
  }
  return signal;
}

namespace {
volatile sig_atomic_t lateSignal = 0;
} // namespace

void EndSignals::letOne() {
  lateSignal = taken;
  struct sigaction action{};
  // Schedulers repeat their signals; only a second SIGINT means that a user
  // insists.
  action.sa_handler = [](int signal) {
    if (lateSignal && signal == SIGINT) {
      ::signal(SIGINT, SIG_DFL);
      raise(SIGINT);
    }
    lateSignal = signal;
  };
  action.sa_flags = SA_RESTART;
  for (int signal : handled)
    sigaction(signal, &action, nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

int EndSignals::late() { return lateSignal; }

} // namespace polyrank::runtime
