// Writes machine files.

#include "support/MachineFile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace polyrank {
namespace {

/// A basic string of TOML.
std::string quoted(const std::string &text) {
  std::string all = "\"";
  for (char letter : text)
    if (letter == '"' || letter == '\\')
      all += {'\\', letter};
    else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f)
      all += fmt::format("\\u{:04x}", static_cast<unsigned char>(letter));
    else
      all += letter;
  return all + '"';
}

/// One section: the source of most of its numbers is stated once, at its end.
class Section {
public:
  explicit Section(const std::string &name)
      : text(fmt::format("\n[{}]\n", name)) {}

  void add(const char *key, const std::optional<MachineFile::Number> &number,
           const char *remark = "") {
    if (number)
      rows.push_back({key, *number, remark});
  }
  void addLine(const std::string &line) { others += line + "\n"; }

  std::string close() {
    std::string source = rows.empty() ? "" : rows.back().number.source;
    for (const Row &row : rows) {
      std::string value = fmt::format("{}", row.number.value);
      if (row.number.source != source)
        value = fmt::format("{{value = {}, source = {}}}", value,
                            quoted(row.number.source));
      text += fmt::format("{} = {}", row.key, value);
      if (row.remark[0])
        text += fmt::format("  # {}", row.remark);
      text += "\n";
    }
    text += others;
    if (!source.empty())
      text += fmt::format("source = {}\n", quoted(source));
    return text;
  }

private:
  struct Row {
    const char *key;
    MachineFile::Number number;
    const char *remark;
  };
  std::string text, others;
  std::vector<Row> rows;
};

void addLevel(Section &section, const MachineFile::Level &level) {
  section.add("latency", level.latency, "microseconds");
  section.add("bandwidth", level.bandwidth, "GB/s of each device");
  if (!level.algorithms.empty()) {
    std::vector<std::string> names;
    for (const std::string &name : level.algorithms)
      names.push_back(quoted(name));
    section.addLine(fmt::format("algorithms = [{}]", fmt::join(names, ", ")));
  }
  if (!level.reached.empty()) {
    std::vector<std::string> pairs;
    for (const LinkLevel::Reached &reached : level.reached)
      pairs.push_back(
          fmt::format("[{}, {}]", reached.bytes / 1e6, reached.share));
    section.addLine(fmt::format("reached = [{}]  # MB, share of the bandwidth",
                                fmt::join(pairs, ", ")));
  }
}

} // namespace

std::string MachineFile::toText() const {
  std::string text = fmt::format("name = {}\n", quoted(name));
  Section device("device");
  device.add("f32", f32, "GFLOP/s of products");
  device.add("bf16", bf16);
  device.add("f16", f16);
  device.add("bandwidth", bandwidth, "GB/s of its memory");
  device.add("memory", memory, "GB");
  device.add("launch", launch, "microseconds of a kernel beside its bytes");
  device.add("host", host, "microseconds to issue a command");
  text += device.close();
  if (products) {
    Section section("product");
    section.add("tile", products->tile);
    section.add("half_tiles", products->halfTiles);
    section.add("half_depth", products->halfDepth);
    text += section.close();
  }
  Section level("node");
  level.add("devices", devices);
  addLevel(level, node);
  text += level.close();
  if (network) {
    Section section("network");
    section.add("nodes", nodes);
    addLevel(section, *network);
    text += section.close();
  }
  return text;
}

} // namespace polyrank
