// Reads lists of commands, and follows the runs of a pipeline.

#include "tools/bench/CostRows.h"

#include "runtime/plan/CollectiveTime.h"
#include "runtime/plan/QueueClock.h"

#include <nlohmann/json.hpp>

namespace polyrank::bench {
namespace {

using Json = nlohmann::json;

runtime::CollectiveKind kindOf(const std::string &name) {
  for (int kind = 0; kind < runtime::numCollectiveKinds; ++kind)
    if (name == runtime::nameOf(static_cast<runtime::CollectiveKind>(kind)))
      return static_cast<runtime::CollectiveKind>(kind);
  throw std::runtime_error("there is no collective '" + name + "'");
}

/// {"bytes": B}, with "product": [batch, rows, columns, depth], or
/// {"collective": "all_reduce", "bytes": B, "group": [[size, stride], ..]} or
/// {"send": B, "stride": S}; "count": N of all.
Command readCommand(const Json &json) {
  Command command;
  command.count = json.value("count", int64_t(1));
  if (json.contains("send")) {
    command.kind = Command::Kind::Sends;
    command.bytes = static_cast<uint64_t>(json["send"].get<double>());
    command.group = {{2, json.at("stride").get<int64_t>()}};
  } else if (json.contains("collective")) {
    command.kind = Command::Kind::Collects;
    command.collective = kindOf(json["collective"].get<std::string>());
    int64_t members = 1;
    for (const Json &dim : json.at("group")) {
      command.group.push_back(
          {dim.at(0).get<int64_t>(), dim.at(1).get<int64_t>()});
      members *= command.group.back().size;
    }
    // What a member of a ring sends of so many bytes.
    command.bytes = static_cast<uint64_t>(
        json.at("bytes").get<double>() *
        runtime::ruleOf(command.collective).rounds *
        static_cast<double>(members - 1) / static_cast<double>(members));
  } else {
    command.work.bytes = json.at("bytes").get<double>();
    if (json.value("type", "f16") == "f32")
      command.type = ElementType::F32;
    if (json.contains("product")) {
      auto sizes = json["product"].get<std::vector<int64_t>>();
      cost::Product product{sizes.at(0), sizes.at(1), sizes.at(2), sizes.at(3)};
      command.work.product = product;
      command.work.flops = 2.0 * static_cast<double>(product.batch) *
                           static_cast<double>(product.rows) *
                           static_cast<double>(product.columns) *
                           static_cast<double>(product.depth);
    }
  }
  return command;
}

Row readRow(const Json &json) {
  Row row;
  std::map<std::string, size_t> numbers;
  for (auto &[name, commands] : json.at("lists").items()) {
    numbers[name] = row.lists.size();
    row.names.push_back(name);
    Commands &list = row.lists.emplace_back();
    for (const Json &command : commands)
      list.push_back(readCommand(command));
  }
  auto parts = [&](const Json &list) {
    std::vector<Part> all;
    for (const Json &part : list)
      all.push_back({numbers.at(part.at(0).get<std::string>()),
                     part.at(1).get<int64_t>()});
    return all;
  };
  row.microbatches = json.at("microbatches").get<int64_t>();
  for (const Json &stage : json.at("stages"))
    row.stages.push_back({stage.at("count").get<int64_t>(),
                          parts(stage.at("forward")),
                          parts(stage.at("backward")), parts(stage.at("end"))});
  if (json.contains("starts"))
    for (auto &[name, command] : json["starts"].items())
      row.starts[numbers.at(name)] = readCommand(command);
  return row;
}

} // namespace

Result<std::vector<Row>> readRows(const std::string &text) {
  std::vector<Row> rows;
  try {
    const Json file = Json::parse(text);
    for (const Json &row : file.at("rows"))
      rows.push_back(readRow(row));
  } catch (const std::exception &error) {
    return Error{"row " + std::to_string(rows.size() + 1) + ": " +
                 error.what()};
  }
  return rows;
}

Clock::Clock(const MachineFile &file)
    : bytesPerSecond(file.bandwidth.value * 1e9), reach(cost::Reach::of(file)) {
  flops[ElementType::F32] = file.f32.value * 1e9;
  flops[ElementType::F16] = (file.f16 ? file.f16 : file.f32)->value * 1e9;
  if (!reach.levels) {
    reach.levels.emplace();
    reach.levels->devices = static_cast<int64_t>(file.devices.value);
    reach.levels->node.link =
        LinkTime::of(file.node.latency.value, file.node.bandwidth.value);
    if (file.network)
      reach.levels->network.emplace().link = LinkTime::of(
          file.network->latency.value, file.network->bandwidth.value);
  }
}

double Clock::timeOf(const Command &command) const {
  auto places = [&] {
    return GroupPlaces::of(command.group, reach.levels->devices);
  };
  switch (command.kind) {
  case Command::Kind::Computes:
    return getCommandTime(command.work,
                          reach.on(flops.at(command.type), bytesPerSecond));
  case Command::Kind::Collects:
    return runtime::exactCollectiveTime(command.collective, places(),
                                        command.bytes, *reach.levels);
  case Command::Kind::Sends:
    return runtime::exactCollectiveTime(runtime::CollectiveKind::Permute,
                                        places(), command.bytes, *reach.levels);
  }
  return 0;
}

double Clock::timeOf(const std::vector<Part> &parts, const Row &row) const {
  double total = 0;
  for (const Part &part : parts) {
    cost::IssueClock clock(reach.host);
    for (const Command &command : row.lists[part.list]) {
      double time = timeOf(command);
      for (int64_t i = 0; i < command.count; ++i)
        clock.run(time);
    }
    total += static_cast<double>(part.times) * clock.now();
  }
  return total;
}

/// The last backward of a stage, during which collectives start; until they
/// have ended.
int64_t Clock::backwardWithStarts(const Stages &stage, const Row &row) const {
  runtime::QueueClock clock;
  runtime::QueueClock::Interval last;
  for (const Part &part : stage.backward)
    for (int64_t i = 0; i < part.times; ++i) {
      clock.compute(wholePicoseconds(timeOf({{part.list, 1}}, row)));
      if (auto start = row.starts.find(part.list); start != row.starts.end())
        last = clock.start(1, wholePicoseconds(timeOf(start->second)));
    }
  clock.wait(last);
  return clock.now();
}

double Clock::timeOf(const Row &row) const {
  struct Stage {
    int64_t forward, backward, lastBackward, end;
    runtime::QueueClock clock = {};
    int64_t forwards = 0, backwards = 0; // that have run
  };
  std::vector<Stage> stages;
  for (const Stages &kind : row.stages) {
    Stage stage{wholePicoseconds(timeOf(kind.forward, row)),
                wholePicoseconds(timeOf(kind.backward, row)), 0,
                wholePicoseconds(timeOf(kind.end, row))};
    stage.lastBackward =
        row.starts.empty() ? stage.backward : backwardWithStarts(kind, row);
    stages.insert(stages.end(), static_cast<size_t>(kind.count), stage);
  }
  auto number = static_cast<int64_t>(stages.size());
  // When runs of the forward and the backward of a stage have ended, by stage
  // and microbatch.
  std::vector<std::vector<int64_t>> forwards(stages.size()),
      backwards(stages.size());
  for (bool hasMoved = true; hasMoved;) {
    hasMoved = false;
    for (int64_t s = 0; s < number; ++s)
      for (Stage &stage = stages[s]; stage.backwards < row.microbatches;) {
        // A stage has at most as many forwards ahead as stages follow it, and
        // itself.
        bool isForward = stage.forwards < row.microbatches &&
                         stage.forwards - stage.backwards < number - s;
        auto &from = isForward ? forwards : backwards;
        int64_t source = isForward ? s - 1 : s + 1,
                run = isForward ? stage.forwards : stage.backwards;
        if (source >= 0 && source < number) {
          if (static_cast<int64_t>(from[source].size()) <= run)
            break;
          stage.clock.wait({0, from[source][run]});
        }
        int64_t time = isForward                    ? stage.forward
                       : run + 1 < row.microbatches ? stage.backward
                                                    : stage.lastBackward;
        from[s].push_back(stage.clock.compute(time).end);
        ++(isForward ? stage.forwards : stage.backwards);
        hasMoved = true;
      }
  }
  int64_t makespan = 0;
  for (Stage &stage : stages)
    makespan = std::max(makespan, stage.clock.compute(stage.end).end);
  return static_cast<double>(makespan);
}

} // namespace polyrank::bench
