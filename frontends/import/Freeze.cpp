// Selects the parameters that are not trained: `--freeze` and `--train-only`.

#include "frontends/import/Freeze.h"

#include "dialects/graph/NamePattern.h"
#include "support/Names.h"

using namespace llvm;

namespace polyrank::frontends {

namespace {

bool matches(const std::string &pattern, const Freezable &parameter) {
  auto isMeant = [&](const std::string &name) {
    return graph::matchesName(pattern, name);
  };
  return isMeant(parameter.name) || any_of(parameter.aliases, isMeant);
}

bool isTrained(const Freezable &parameter) {
  return parameter.trainable && parameter.isFloat;
}

/// The first of `patterns` that matches the parameter, or null.
const std::string *findMatch(ArrayRef<std::string> patterns,
                             const Freezable &parameter) {
  const auto *found = find_if(patterns, [&](const std::string &pattern) {
    return matches(pattern, parameter);
  });
  return found == patterns.end() ? nullptr : found;
}

/// Says why `pattern` of `option` matches nothing that is trained; else empty.
std::string check(const char *option, const std::string &pattern,
                  ArrayRef<Freezable> parameters) {
  std::string error = std::string(option) + " '" + pattern + "' ";
  if (std::string reason = graph::explainPattern(pattern); !reason.empty())
    return error + "is no pattern: " + reason;
  std::vector<std::string> names;
  const Freezable *fixed = nullptr;
  for (const Freezable &parameter : parameters) {
    bool isMeant = matches(pattern, parameter);
    if (isTrained(parameter)) {
      if (isMeant)
        return "";
      names.push_back(parameter.name);
      llvm::append_range(names, parameter.aliases);
    } else if (isMeant) {
      fixed = &parameter;
    }
  }
  if (fixed)
    return error + "matches only buffers, such as '" + fixed->name +
           "', which are not trained; leave it out";
  return error + "matches no parameter" + nearestNames(pattern, names);
}

std::string countOf(size_t count) {
  return std::to_string(count) + (count == 1 ? " parameter" : " parameters");
}

} // namespace

std::string freeze(ArrayRef<Freezable> parameters,
                   ArrayRef<std::string> patterns, ArrayRef<std::string> only,
                   std::vector<std::string> &notes) {
  if (patterns.empty() && only.empty())
    return "";
  for (const std::string &pattern : patterns)
    if (std::string error = check("--freeze", pattern, parameters);
        !error.empty())
      return error;
  for (const std::string &pattern : only)
    if (std::string error = check("--train-only", pattern, parameters);
        !error.empty())
      return error;
  size_t frozen = 0, all = 0;
  int64_t frozenElements = 0, allElements = 0;
  for (const Freezable &parameter : parameters) {
    if (!isTrained(parameter))
      continue;
    const std::string *out = findMatch(patterns, parameter);
    const std::string *in = findMatch(only, parameter);
    if (out && in)
      return "--freeze '" + *out + "' and --train-only '" + *in +
             "' both name '" + parameter.name +
             "'; give patterns that have no parameter in common";
    int64_t elements = parameter.elements;
    ++all;
    allElements += elements;
    if (!out && (only.empty() || in))
      continue;
    parameter.trainable = false;
    ++frozen;
    frozenElements += elements;
    if (!parameter.aliases.empty() && out &&
        !graph::matchesName(*out, parameter.name))
      notes.push_back("`" + parameter.name +
                      "` is frozen: it is tied to "
                      "what --freeze '" +
                      *out + "' names");
  }
  if (frozen == all)
    return "--freeze and --train-only leave no parameter to train";
  notes.push_back(countOf(frozen) + " of " + std::to_string(all) + " (" +
                  std::to_string(frozenElements) + " of " +
                  std::to_string(allElements) +
                  " elements) frozen: no gradient, no state of the "
                  "optimizer, saved as stored");
  return "";
}

} // namespace polyrank::frontends
