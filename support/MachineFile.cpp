// Reads machine files.

#include "support/MachineFile.h"

#include "support/File.h"
#include "support/LinkSpec.h"
#include "support/Names.h"
#include "support/RatesSpec.h"
#include "support/Toml.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace polyrank {
namespace {

/// What a number of a machine file may be.
struct Range {
  const char *unit;
  bool (*allows)(double value);
  const char *possible;
};

bool isCount(double value) {
  return value >= 1 && value <= 1e6 && value == std::floor(value);
}
bool isMemory(double gigabytes) {
  return gigabytes >= 1e-6 && gigabytes <= 1e6;
}

constexpr Range latencies{"microseconds", LinkSpec::hasLatency, "0 to 1e6"};
constexpr Range bandwidths{"GB/s", LinkSpec::hasBandwidth, "1e-6 to 1e6"};
constexpr Range rates{"GFLOP/s", RatesSpec::canCompute, "1e-3 to 1e7"};
constexpr Range reads{"GB/s", RatesSpec::canRead, "1e-3 to 1e6"};
constexpr Range counts{"", isCount, "whole numbers from 1 to 1e6"};
constexpr Range memories{"GB", isMemory, "1e-6 to 1e6"};

bool isTile(double value) { return isCount(value) && value <= 4096; }
bool isHalf(double value) { return value >= 0 && value <= 1e6; }

constexpr Range tiles{"", isTile, "whole numbers from 1 to 4096"};
constexpr Range halves{"", isHalf, "0 to 1e6"};

constexpr const char *sourcesText =
    "\"measured\", \"assumed\" or \"published: WHERE\"";

bool isSource(const std::string &text) {
  constexpr std::string_view published = "published: ";
  return text == "measured" || text == "assumed" ||
         (text.starts_with(published) && text.size() > published.size());
}

/// The algorithm with this name, of those that a level may have.
std::optional<CollectiveAlgorithm> findAlgorithm(std::string_view name) {
  constexpr std::pair<const char *, CollectiveAlgorithm> known[] = {
      {"halving", CollectiveAlgorithm::Halving},
      {"ring", CollectiveAlgorithm::Ring},
      {"tree", CollectiveAlgorithm::Tree}};
  for (auto [text, algorithm] : known)
    if (name == text)
      return algorithm;
  return std::nullopt;
}
/// Stands among the algorithms between nodes.
constexpr const char *hierarchical = "hierarchical";

class Reader {
public:
  explicit Reader(MachineFile &machine) : machine(machine) {}

  Result<MachineFile> read(const toml::table &root) {
    readRoot(root);
    if (mistakes.empty())
      return machine;
    std::string all;
    for (auto &[line, texts] : mistakes)
      for (const std::string &text : texts)
        all += fmt::format("{}{}, line {}: {}", all.empty() ? "" : "\n",
                           machine.path, line, text);
    return Error{all};
  }

private:
  /// A table of numbers that is being read.
  struct Section {
    const toml::table &table;
    std::string name, source;
    std::vector<std::string> known{"source"};

    uint32_t line() const { return std::max(1u, table.source().begin.line); }
  };

  void fault(uint32_t line, std::string text) {
    mistakes[line].push_back(std::move(text));
  }

  static uint32_t lineOf(const toml::node &node) {
    return node.source().begin.line;
  }

  std::string readText(const toml::node &node, const std::string &name) {
    if (auto text = node.value_exact<std::string>())
      return *text;
    fault(lineOf(node), fmt::format("'{}' is a text", name));
    return "";
  }

  std::string readSource(const toml::node &node, const std::string &name) {
    auto text = node.value_exact<std::string>();
    if (text && isSource(*text))
      return *text;
    fault(lineOf(node),
          fmt::format("the source of {} is {}", name, sourcesText));
    return "";
  }

  Section open(const toml::node &node, const std::string &name) {
    static const toml::table none;
    const toml::table *table = node.as_table();
    if (!table)
      fault(lineOf(node), fmt::format("'{}' is a section: [{}]", name, name));
    Section section{table ? *table : none, name, ""};
    if (const toml::node *source = section.table.get("source"))
      section.source = readSource(*source, "[" + name + "]");
    return section;
  }

  std::optional<MachineFile::Number> find(Section &section, const char *key,
                                          const Range &range) {
    section.known.push_back(key);
    const toml::node *node = section.table.get(key);
    if (!node)
      return std::nullopt;
    std::string name = fmt::format("[{}] {}", section.name, key);
    MachineFile::Number number{0, section.source, lineOf(*node)};
    const toml::node *value = node;
    if (const toml::table *own = node->as_table()) {
      value = own->get("value");
      for (auto &[part, unused] : *own)
        if (part != "value" && part != "source")
          fault(number.line, fmt::format("{} has a value and a source, and no "
                                         "'{}'",
                                         name, std::string(part.str())));
      if (const toml::node *source = own->get("source"))
        number.source = readSource(*source, name);
    }
    auto given = value ? value->value<double>() : std::nullopt;
    if (!given || value->is_boolean())
      fault(
          number.line,
          fmt::format("{} is a number, or {{value = .., source = ..}}", name));
    else if (!range.allows(*given))
      fault(number.line,
            fmt::format("{} = {}{}{}; {} are possible", name, *given,
                        range.unit[0] ? " " : "", range.unit, range.possible));
    else
      number.value = *given;
    if (number.source.empty() && !section.table.get("source"))
      fault(number.line,
            fmt::format("{} has no source; write one, or one of the section: "
                        "source = {}",
                        name, sourcesText));
    return number;
  }

  MachineFile::Number need(Section &section, const char *key,
                           const Range &range) {
    auto number = find(section, key, range);
    if (!number)
      fault(section.line(),
            fmt::format("[{}] has no '{}'{}{}", section.name, key,
                        range.unit[0] ? ", in " : "", range.unit));
    return number.value_or(MachineFile::Number());
  }

  void refuseOthers(const toml::table &table,
                    const std::vector<std::string> &known,
                    const std::string &where) {
    for (auto &[key, value] : table)
      if (std::string name(key.str());
          std::find(known.begin(), known.end(), name) == known.end())
        fault(key.source().begin.line,
              fmt::format("{} has no '{}'; it has {}{}", where, name,
                          fmt::join(known, ", "), nearestWords(name, known)));
  }
  void close(const Section &section) {
    refuseOthers(section.table, section.known, "[" + section.name + "]");
  }

  void readRoot(const toml::table &root) {
    refuseOthers(root, {"name", "device", "product", "node", "network"},
                 "a machine");
    auto require = [&](const char *key) -> const toml::node * {
      const toml::node *node = root.get(key);
      if (!node)
        fault(1, fmt::format("a machine has no {}",
                             std::string(key) == "name"
                                 ? "name: write name = \"..\""
                                 : fmt::format("section [{}]", key)));
      return node;
    };
    if (const toml::node *name = require("name"))
      machine.name = readText(*name, "name");
    if (const toml::node *node = require("device"))
      readDevice(open(*node, "device"));
    if (const toml::node *node = root.get("product"))
      readProducts(open(*node, "product"));
    if (const toml::node *node = require("node")) {
      Section section = open(*node, "node");
      machine.devices = need(section, "devices", counts);
      machine.node = readLevel(section, {"halving", "ring", "tree"});
      close(section);
    }
    machine.nodes.value = 1;
    if (const toml::node *node = root.get("network")) {
      Section section = open(*node, "network");
      machine.nodes = need(section, "nodes", counts);
      machine.network =
          readLevel(section, {"halving", "ring", "tree", hierarchical});
      close(section);
    }
  }

  void readDevice(Section section) {
    machine.f32 = need(section, "f32", rates);
    machine.bf16 = find(section, "bf16", rates);
    machine.f16 = find(section, "f16", rates);
    machine.bandwidth = need(section, "bandwidth", reads);
    machine.memory = find(section, "memory", memories);
    machine.launch = find(section, "launch", latencies);
    machine.host = find(section, "host", latencies);
    close(section);
  }

  void readProducts(Section section) {
    machine.products.emplace();
    machine.products->tile = find(section, "tile", tiles);
    machine.products->halfTiles = find(section, "half_tiles", halves);
    machine.products->halfDepth = find(section, "half_depth", halves);
    close(section);
  }

  MachineFile::Level readLevel(Section &section,
                               const std::vector<std::string> &possible) {
    MachineFile::Level level{need(section, "latency", latencies),
                             need(section, "bandwidth", bandwidths)};
    section.known.insert(section.known.end(), {"reached", "algorithms"});
    if (const toml::node *node = section.table.get("reached"))
      level.reached = readReached(*node, section);
    if (const toml::node *node = section.table.get("algorithms"))
      level.algorithms = readAlgorithms(*node, section, possible);
    return level;
  }

  /// Pairs of the size of a message and the share that it reaches.
  std::vector<LinkLevel::Reached> readReached(const toml::node &node,
                                              const Section &section) {
    std::vector<LinkLevel::Reached> all;
    const toml::array *pairs = node.as_array();
    bool isValid = pairs && !pairs->empty();
    for (size_t i = 0; isValid && i < pairs->size(); ++i) {
      const toml::array *pair = pairs->get(i)->as_array();
      auto number = [&](size_t part) {
        auto value = pair && pair->size() == 2
                         ? pair->get(part)->value<double>()
                         : std::nullopt;
        return value && !pair->get(part)->is_boolean() ? *value : -1.0;
      };
      double megabytes = number(0), share = number(1);
      isValid = megabytes > 0 && megabytes <= 1e6 && share >= 1e-6 &&
                share <= 1 &&
                (all.empty() || megabytes * 1e6 > all.back().bytes);
      all.push_back({megabytes * 1e6, share});
    }
    if (!isValid)
      fault(lineOf(node),
            fmt::format("[{}] reached lists the sizes of messages in MB, "
                        "ascending from more than 0 to 1e6, each with the "
                        "share of the bandwidth that they reach, 1e-6 to 1: "
                        "[[1, 0.3], [64, 1]]",
                        section.name));
    return isValid ? all : std::vector<LinkLevel::Reached>();
  }

  std::vector<std::string>
  readAlgorithms(const toml::node &node, const Section &section,
                 const std::vector<std::string> &possible) {
    std::vector<std::string> names;
    const toml::array *list = node.as_array();
    std::string wrong = list && !list->empty() ? "" : "none";
    bool communicates = false; // by one level alone
    for (size_t i = 0; wrong.empty() && i < list->size(); ++i) {
      auto text = list->get(i)->value_exact<std::string>();
      if (!text)
        wrong = "no text";
      else if (std::find(possible.begin(), possible.end(), *text) ==
               possible.end())
        wrong = "'" + *text + "'" + nearestWords(*text, possible);
      else if (std::find(names.begin(), names.end(), *text) != names.end())
        wrong = "'" + *text + "' twice";
      else
        names.push_back(*text),
            communicates |= findAlgorithm(*text).has_value();
    }
    if (wrong.empty() && !communicates)
      wrong = "none by which nodes reduce what theirs have reduced";
    if (!wrong.empty())
      fault(lineOf(node),
            fmt::format("[{}] algorithms lists some of {}, and not {}",
                        section.name, fmt::join(possible, ", "), wrong));
    return wrong.empty() ? names : std::vector<std::string>();
  }

  MachineFile &machine;
  std::map<uint32_t, std::vector<std::string>> mistakes; // by line
};

} // namespace

Result<MachineFile> MachineFile::parse(const std::string &text,
                                       const std::string &path) {
  auto table = parseToml(text, "a section or key");
  if (auto *fault = std::get_if<TomlFault>(&table))
    return Error{
        fmt::format("{}, line {}: {}", path, fault->line, fault->message)};
  MachineFile machine;
  machine.path = path;
  return Reader(machine).read(std::get<toml::table>(table));
}

Result<MachineFile> MachineFile::read(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  constexpr uint64_t longest = 1 << 20;
  if (file.size() > longest)
    return Error{fmt::format("{} has {} bytes, and a machine file at most {}",
                             path, file.size(), longest)};
  std::string text(file.size(), '\0');
  if (Result<void> got = file.readAt(0, text.data(), text.size()); !got)
    return got.error();
  return parse(text, path);
}

Result<void> MachineFile::checkMesh(std::span<const Axis> axes) const {
  auto inNode = static_cast<int64_t>(devices.value),
       most = inNode * static_cast<int64_t>(nodes.value);
  int64_t total = 1;
  std::string mesh;
  for (const Axis &axis : axes) {
    total = axis.size > most / total ? most + 1 : total * axis.size;
    mesh +=
        fmt::format("{}{}={}", mesh.empty() ? "" : ",", axis.name, axis.size);
  }
  if (total > most)
    return Error{fmt::format(
        "{}, line {}: the mesh {} has more than the {} device{} of the "
        "machine, "
        "{} in each of {} node{}; take a smaller mesh, or more nodes",
        path, network ? nodes.line : devices.line, mesh, most,
        most == 1 ? "" : "s", inNode, nodes.value,
        nodes.value == 1 ? "" : "s")};
  if (total <= inNode)
    return {};
  // The devices of a node are neighbours in the order of the last axes.
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0 && stride < inNode;) {
    int64_t size = axes[i].size;
    bool isWithin = stride * size <= inNode;
    if (isWithin ? inNode % (stride * size) != 0
                 : size % (inNode / stride) != 0)
      return Error{fmt::format(
          "{}, line {}: nodes of {} devices do not divide the mesh {}: axis {} "
          "would begin in one node and end in another; take sizes of the last "
          "axes whose product is {}, or divides it",
          path, devices.line, inNode, mesh, axes[i].name, inNode)};
    stride *= size;
  }
  return {};
}

bool MachineFile::crossesNodes(std::span<const Axis> axes,
                               size_t number) const {
  return crosses(axes, number, static_cast<int64_t>(devices.value));
}

bool MachineFile::crosses(std::span<const Axis> axes, size_t number,
                          int64_t inNode) {
  int64_t span = 1; // from the first to the last device of a group, at most
  for (const Axis &axis : axes.subspan(number))
    span *= axis.size;
  return axes[number].size > 1 && span > inNode;
}

std::optional<LinkLevels> MachineFile::getLevels() const {
  LinkLevels levels;
  bool isStated = false;
  auto make = [&](const Level &level) {
    LinkLevel made{LinkTime::of(level.latency.value, level.bandwidth.value),
                   level.reached};
    isStated |= !level.reached.empty() || !level.algorithms.empty();
    if (!level.algorithms.empty())
      made.algorithms.clear();
    for (const std::string &name : level.algorithms)
      if (auto algorithm = findAlgorithm(name))
        made.algorithms.push_back(*algorithm);
      else
        levels.isHierarchical = true;
    return made;
  };
  levels.devices = static_cast<int64_t>(devices.value);
  levels.node = make(node);
  if (network)
    levels.network = make(*network);
  return isStated ? std::optional(levels) : std::nullopt;
}

std::string MachineFile::describe() const {
  std::string text = fmt::format("machine '{}' ({})", name, path);
  const char *comma = ": ";
  auto add = [&](const char *what, const std::optional<Number> &number,
                 const char *unit) {
    if (!number)
      return;
    text += fmt::format("{}{} {}{} ({})", comma, what, number->value, unit,
                        number->source);
    comma = ", ";
  };
  add("f32", f32, " GFLOP/s");
  add("bf16", bf16, " GFLOP/s");
  add("f16", f16, " GFLOP/s");
  add("memory at", bandwidth, " GB/s");
  add("of", memory, " GB");
  add("launches of", launch, " us");
  add("commands issued in", host, " us");
  if (products) {
    add("products in tiles of", products->tile, "");
    add("half of the rate at tiles", products->halfTiles, "");
    add("and at a depth of", products->halfDepth, "");
  }
  add("devices of a node", devices, "");
  auto addLevel = [&](const Level &level) {
    add("linked with", level.latency, " us");
    add("and", level.bandwidth, " GB/s");
    if (!level.algorithms.empty())
      text += fmt::format(" by {}", fmt::join(level.algorithms, ", "));
  };
  addLevel(node);
  if (network) {
    add("nodes", nodes, "");
    addLevel(*network);
  }
  return text;
}

} // namespace polyrank
