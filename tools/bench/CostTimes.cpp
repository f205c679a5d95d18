// polyrank-bench-cost says how long steps take by the functions with which the
// compiler plans.
//
//   polyrank-bench-cost ROWS.json MACHINE.toml
//
// prints {"seconds": [..], "lists": [{..}, ..]}: of each row the time of a
// step, and of each of its lists. Without a machine it reads paths of machine
// files, a line each, and answers each with a line of seconds.

#include "support/File.h"
#include "tools/bench/CostRows.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace polyrank;

namespace {

Result<std::string> readText(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  std::string text(file.size(), '\0');
  if (Result<void> got = file.readAt(0, text.data(), text.size()); !got)
    return got.error();
  return text;
}

nlohmann::json secondsOf(const std::vector<bench::Row> &rows,
                         const bench::Clock &clock) {
  nlohmann::json seconds = nlohmann::json::array();
  for (const bench::Row &row : rows)
    seconds.push_back(clock.timeOf(row) * 1e-12);
  return seconds;
}

Result<void> run(const std::string &rowsPath, const std::string &machinePath) {
  POLYRANK_ASSIGN(text, readText(rowsPath));
  POLYRANK_ASSIGN(rows, bench::readRows(text));
  auto answer = [&](const std::string &path) -> Result<nlohmann::json> {
    POLYRANK_ASSIGN(machine, MachineFile::read(path));
    bench::Clock clock(machine);
    if (machinePath.empty())
      return secondsOf(rows, clock);
    nlohmann::json lists = nlohmann::json::array();
    for (const bench::Row &row : rows) {
      nlohmann::json &times = lists.emplace_back();
      for (size_t i = 0; i < row.lists.size(); ++i)
        times[row.names[i]] = clock.timeOf({{i, 1}}, row) * 1e-12;
    }
    return nlohmann::json{{"seconds", secondsOf(rows, clock)},
                          {"lists", lists}};
  };
  std::string path = machinePath;
  while (!machinePath.empty() || std::getline(std::cin, path)) {
    POLYRANK_ASSIGN(json, answer(path));
    std::cout << json.dump() << std::endl;
    if (!machinePath.empty())
      break;
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr,
                 "usage: polyrank-bench-cost ROWS.json [MACHINE.toml]\n");
    return 2;
  }
  Result<void> done = run(argv[1], argc == 3 ? argv[2] : "");
  if (!done)
    std::fprintf(stderr, "error: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
