// --why: the reasons of a plan's communication.

#include "tools/polyrank-inspect/Reasons.h"

#include "support/Names.h"

#include <algorithm>
#include <fmt/format.h>
#include <fnmatch.h>
#include <map>

namespace polyrank::runtime {
namespace {

/// Returns true if `name` is a part of the text, or a glob that matches a part.
bool mentions(const std::string &text, const std::string &name) {
  return text.find(name) != std::string::npos ||
         fnmatch(("*" + name + "*").c_str(), text.c_str(), 0) == 0;
}

} // namespace

bool mentions(const CollectiveReason &reason, const std::string &name) {
  for (const std::string *text :
       {&reason.value, &reason.op, &reason.origin, &reason.constraint,
        &reason.axes, &reason.kind})
    if (mentions(*text, name))
      return true;
  return std::any_of(
      reason.members.begin(), reason.members.end(),
      [&](const std::string &member) { return mentions(member, name); });
}

namespace {

/// Returns the user's name in a text of a reason: the quoted part of "mul
/// 'fc1.weight'".
std::string nameIn(const std::string &text) {
  size_t first = text.find('\''), last = text.rfind('\'');
  return first < last ? text.substr(first + 1, last - first - 1) : text;
}

} // namespace

Error matchesNothing(const PlanReport &report, const std::string &name) {
  if (report.reasons.empty())
    return Error{"the plan has no communication"};
  std::vector<std::string> names;
  for (const CollectiveReason &reason : report.reasons) {
    for (const std::string *text : {&reason.value, &reason.op})
      if (!text->empty() && reason.members.empty())
        names.push_back(nameIn(*text));
    for (const std::string &member : reason.members)
      names.push_back(nameIn(member));
  }
  return Error{fmt::format("no collective has to do with '{}'{}; --why alone "
                           "gives all reasons",
                           name, nearestNames(name, names))};
}

Result<void> printReasons(const PlanReport &report, const std::string &name) {
  struct Entry {
    const CollectiveReason *reason = nullptr;
    LayerNames values, ops;
    uint64_t executions = 0;
  };
  std::vector<std::string> keys;
  std::map<std::string, Entry> entries;
  for (const CollectiveReason &reason : report.reasons) {
    if (!mentions(reason, name))
      continue;
    // The name is quoted, like ops: then the exporter's name of the node is
    // left out.
    std::string value = fmt::format(
        "'{}'", reason.value.empty() ? reason.origin : reason.value);
    std::string key = fmt::format(
        "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", reason.place, reason.kind, reason.type,
        reason.axes, reason.bytes, reason.from, reason.to, reason.constraint,
        LayerNames::getKey(value), LayerNames::getKey(reason.op));
    Entry &entry = entries[key];
    if (!entry.reason)
      keys.push_back(key), entry.reason = &reason;
    entry.values.add(value);
    entry.ops.add(reason.op);
    entry.executions += reason.executions;
  }
  for (const std::string &key : keys) {
    const Entry &entry = entries.at(key);
    const CollectiveReason &reason = *entry.reason;
    fmt::print("{}{} over {}{}, {} bytes, {} times a step\n", reason.kind,
               reason.type.empty() ? "" : " of " + reason.type, reason.axes,
               reason.place.empty() ? "" : " at " + reason.place, reason.bytes,
               entry.executions);
    fmt::print("  moves       {}\n  from        {}\n  to          {}\n",
               entry.values.toString(), reason.from, reason.to);
    if (!reason.op.empty())
      fmt::print("  needed by   {}\n", entry.ops.toString());
    for (const std::string &member : reason.members)
      if (!name.empty() && mentions(member, name))
        fmt::print("  among them  {}\n", member);
    if (!reason.constraint.empty())
      fmt::print("  because of  {}\n", reason.constraint);
  }
  return keys.empty() ? Result<void>(matchesNothing(report, name))
                      : Result<void>();
}

} // namespace polyrank::runtime
