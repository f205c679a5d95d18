// Fault injection by POLYRANK_FAIL, which is read once.

#include "support/Failpoint.h"

#ifdef POLYRANK_FAILPOINTS

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <unistd.h>

namespace polyrank {
namespace {

constexpr int anyRank = -2, launcher = -1;

struct Point {
  std::string_view name, action;
  int rank = anyRank, attempt = 1, hit = 1, milliseconds = 0;
  std::atomic<int> hits = 0;
};

[[noreturn]] void refuse(std::string_view entry) {
  std::fprintf(stderr, "POLYRANK_FAIL: '%.*s' is no failpoint\n",
               int(entry.size()), entry.data());
  std::_Exit(1);
}

/// Cuts off and returns the text before the first `separator`.
std::string_view next(std::string_view &text, char separator) {
  size_t end = text.find(separator);
  std::string_view first = text.substr(0, end);
  text = end == std::string_view::npos ? "" : text.substr(end + 1);
  return first;
}

int numberFrom(const char *variable, int otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

/// The failpoints of this process.
class Points {
public:
  Points() {
    const char *variable = std::getenv("POLYRANK_FAIL");
    if (!variable)
      return;
    text = variable;
    int self = numberFrom("POLYRANK_RANK", launcher),
        attempt = numberFrom("POLYRANK_ATTEMPT", 1);
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view entry = next(rest, ';');
      Point &point = points.emplace_back();
      parse(entry, point);
      bool mine = point.rank == anyRank ? self != launcher : point.rank == self;
      if (!mine ||
          (self != launcher && point.attempt != 0 && point.attempt != attempt))
        points.pop_back();
    }
  }

  int hit(std::string_view name) {
    for (Point &point : points)
      if (point.name == name)
        if (int number = point.hits.fetch_add(1) + 1;
            point.hit == 0 || point.hit == number)
          if (int code = act(point))
            return code;
    return 0;
  }

private:
  static void parse(std::string_view entry, Point &point) {
    std::string_view rest = entry;
    point.name = next(rest, ':');
    while (!rest.empty()) {
      std::string_view value = next(rest, ':'), key = next(value, '=');
      auto number = [&](int &into) {
        auto [end, status] =
            std::from_chars(value.data(), value.data() + value.size(), into);
        if (status != std::errc() || end != value.data() + value.size())
          refuse(entry);
      };
      if (key == "rank" && value == "launcher")
        point.rank = launcher;
      else if (key == "rank")
        number(point.rank);
      else if (key == "attempt")
        number(point.attempt);
      else if (key == "hit")
        number(point.hit);
      else if (key == "action") {
        point.action = next(value, '=');
        if (point.action == "delay")
          number(point.milliseconds);
      } else
        refuse(entry);
    }
    for (std::string_view known :
         {"kill", "stop", "abort", "segv", "exit", "spin", "delay", "eio",
          "enospc", "emfile", "eacces", "estale", "nan"})
      if (point.action == known && !point.name.empty())
        return;
    refuse(entry);
  }

  static int act(const Point &point) {
    if (point.action == "kill")
      kill(getpid(), SIGKILL);
    else if (point.action == "stop")
      kill(getpid(), SIGSTOP);
    else if (point.action == "abort")
      std::abort();
    else if (point.action == "segv")
      raise(SIGSEGV);
    else if (point.action == "exit")
      _exit(0);
    else if (point.action == "delay")
      usleep(1000 * useconds_t(point.milliseconds));
    else if (point.action == "spin")
      for (volatile bool forever = true; forever;)
        ;
    else if (point.action == "eio")
      return EIO;
    else if (point.action == "enospc")
      return ENOSPC;
    else if (point.action == "emfile")
      return EMFILE;
    else if (point.action == "eacces")
      return EACCES;
    else if (point.action == "estale")
      return ESTALE;
    else if (point.action == "nan")
      return failWithNan;
    return 0;
  }

  std::string text;
  std::deque<Point> points;
};

} // namespace

int failpoint(const char *name) {
  static Points points;
  return points.hit(name);
}

} // namespace polyrank

#endif
