// Finds the parameters of a state_dict in a model that lost their names.

#include "frontends/onnx/NamedParameters.h"

#include "frontends/onnx/EqualMatrices.h"
#include "frontends/onnx/Origin.h"
#include "frontends/onnx/ParameterNames.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using polyrank::groupNames;

namespace polyrank::frontends::onnx {

/// Returns true if `shorter` is `longer`, or its last parts.
static bool endsIn(StringRef longer, StringRef shorter) {
  return longer.consume_back(shorter) &&
         (longer.empty() || longer.ends_with("."));
}

/// Returns true if a batch norm has a tensor of that name as this operand, and
/// for all other names and nodes.
static bool fitsPlace(const Node &node, size_t operand, StringRef name) {
  static const StringRef places[] = {"", "weight", "bias", "running_mean",
                                     "running_var"};
  const auto *place = find(places, leafOf(name));
  return node.type != "BatchNormalization" || place == std::end(places) ||
         static_cast<size_t>(place - places) == operand;
}

NamedParameters::NamedParameters(const Model &model, const ExportRecord &record,
                                 const Consumers &consumers,
                                 const NamedTensors &named, bool tie,
                                 ModelState &state)
    : model(model), record(record), consumers(consumers), named(named),
      ties(tie), state(state) {
  for (const MadeTensor &tensor : named.tensors)
    byName[tensor.name] = &tensor;
  forEachNode(model.graph, [&](const Node &node) {
    for (std::string_view output : node.outputs)
      producers.try_emplace(output, &node);
  });
  findPrefix();
}

/// Finds the prefix that fits the most names; no prefix if that fits as many.
void NamedParameters::findPrefix() {
  StringSet<> exported;
  for (const StateEntry &entry : record.getState())
    exported.insert(entry.name);
  for (const Parameter &parameter : state.parameters)
    exported.insert(parameter.name);
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const auto &each : exported)
    for (const MadeTensor &tensor : named.tensors) {
      StringRef longer = each.getKey(), shorter = tensor.name;
      if (endsIn(longer, shorter))
        ++counts[{longer.drop_back(shorter.size()).str(), ""}];
      else if (endsIn(shorter, longer))
        ++counts[{"", shorter.drop_back(longer.size()).str()}];
    }
  size_t best = 0;
  for (const auto &[prefixes, count] : counts) // the entry without prefixes
                                               // comes first
    if (count > best) {
      best = count;
      std::tie(exportedPrefix, filePrefix) = prefixes;
    }
}

std::string NamedParameters::toExported(StringRef name) const {
  name.consume_front(filePrefix);
  return exportedPrefix + name.str();
}

std::string NamedParameters::toFile(StringRef name) const {
  name.consume_front(exportedPrefix);
  std::string whole = filePrefix + name.str();
  return byName.contains(whole) ? whole : name.str();
}

std::optional<size_t> NamedParameters::find(const StoredTensor &tensor) const {
  for (auto [index, other] : renamed)
    if (other == &tensor)
      return index;
  return state.find(toExported(tensor.name));
}

bool NamedParameters::isTrained(StringRef exportedName) const {
  if (const StateEntry *entry = record.findState(exportedName))
    return entry->kind == StateEntry::Kind::Parameter;
  return !leafOf(exportedName).starts_with("running_");
}

/// Returns true if its elements identify a tensor: equal ones are then tied.
bool NamedParameters::isTelling(const StoredTensor &tensor) const {
  return tensor.dims.size() >= 2 && !isConstant(model, tensor);
}

SmallVector<NamedParameters::Candidate>
NamedParameters::candidatesOf(const StoredTensor &stored) const {
  SmallVector<Candidate> result;
  for (const MadeTensor &tensor : named.tensors)
    for (bool transposed : {false, true})
      if (isCopyOf(model, stored, tensor, transposed)) {
        result.push_back({&tensor, transposed});
        break;
      }
  return result;
}

/// The parameter for the file's tensor; a new one gets the elements of
/// `stored`.
size_t NamedParameters::parameterOf(const StoredTensor &stored,
                                    Candidate candidate) {
  if (auto known = find(*candidate.tensor))
    return *known;
  std::string name = toExported(candidate.tensor->name);
  state.parameters.push_back(
      {&stored, name, {}, isTrained(name), candidate.transposed});
  return state.parameters.size() - 1;
}

/// Ties all tensors in `equal`, which have the elements of `stored`.
void NamedParameters::tie(const StoredTensor &stored,
                          ArrayRef<Candidate> equal) {
  Candidate first = equal.front();
  for (Candidate candidate : equal)
    if (find(*candidate.tensor)) {
      first = candidate;
      break;
    }
  bool isCopy = find(*first.tensor).has_value();
  if (isCopy && !ties)
    return; // its module decides (RenamedWeights.h)
  state.copies += isCopy;
  size_t index = parameterOf(stored, first);
  Parameter &parameter = state.parameters[index];
  for (Candidate candidate : equal) {
    std::string name = toExported(candidate.tensor->name);
    if (name != parameter.name && !is_contained(parameter.aliases, name))
      parameter.aliases.push_back(name);
  }
  state.values[stored.name] = {index, first.transposed};
  found.push_back(std::string(first.tensor->name));
}

void NamedParameters::identify(ArrayRef<const StoredTensor *> nameless) {
  std::vector<Ambiguous> ambiguous;
  // First, parameters that have names: they match the tensor of the same name
  // in the file, or else the tensor with their elements.
  size_t count = state.parameters.size();
  for (size_t index = 0; index < count; ++index) {
    Parameter &parameter = state.parameters[index];
    const StoredTensor &stored = *parameter.tensor;
    if (!isFloat(stored.type) || stored.isAbsent)
      continue;
    const StoredTensor *same = byName.lookup(toFile(parameter.name));
    if (same && isCopyOf(model, stored, *same, false)) {
      if (isTelling(stored) || stored.dims.empty())
        continue;
      // Other tensors with equal elements may have been merged into it.
      Ambiguous each{&stored, {}, true};
      for (const MadeTensor &tensor : named.tensors)
        if (!find(tensor) && isCopyOf(model, stored, tensor, false))
          each.candidates.push_back({&tensor, false});
      if (!each.candidates.empty() && !record.hasRoles())
        ambiguous.push_back(std::move(each));
      continue;
    }
    if (same) {
      changed.push_back(parameter.name);
      continue;
    }
    SmallVector<Candidate> candidates = candidatesOf(stored);
    erase_if(candidates, [&](Candidate c) {
      return c.transposed || find(*c.tensor).has_value();
    });
    if (candidates.size() == 1) {
      renamed[index] = candidates.front().tensor;
      found.push_back(std::string(candidates.front().tensor->name));
    }
  }
  for (const StoredTensor *stored : nameless) {
    if (!consumers.contains(stored->name) || stored->isAbsent)
      continue;
    SmallVector<Candidate> candidates = candidatesOf(*stored);
    erase_if(candidates, [&](Candidate candidate) {
      return none_of(consumers.lookup(stored->name), [&](auto use) {
        return fitsPlace(*use.first, use.second, candidate.tensor->name);
      });
    });
    if (candidates.empty())
      continue;
    if (isTelling(*stored)) {
      tie(*stored, candidates);
    } else if (candidates.size() == 1 && !find(*candidates.front().tensor)) {
      state.values[stored->name] = {parameterOf(*stored, candidates.front()),
                                    candidates.front().transposed};
      found.push_back(std::string(candidates.front().tensor->name));
    } else {
      ambiguous.push_back({stored, std::move(candidates), false});
    }
  }
  resolve(ambiguous);
}

/// Returns true if the node is in the candidate's module, or if it uses another
/// parameter of that module beside this operand, either directly or through a
/// value that it adds or multiplies.
bool NamedParameters::isNear(const Node &node, size_t operand,
                             const StoredTensor &candidate) const {
  StringRef module = moduleOf(candidate.name);
  if (StringRef scope = moduleOf(toExported(candidate.name));
      !scope.empty() && originOf(node).scope == scope)
    return true;
  auto isOf = [&](StringRef value) {
    auto use = state.values.find(value);
    return use != state.values.end() &&
           moduleOf(toFile(state.parameters[use->second.index].name)) == module;
  };
  for (auto [i, input] : enumerate(node.inputs)) {
    if (i == operand)
      continue;
    if (isOf(input))
      return true;
    if (node.type != "Add" && node.type != "Mul")
      continue;
    // Covers Add(Reshape(MatMul(x, w)), b) and Add(Mul(x, w), b).
    const Node *producer = producers.lookup(input);
    for (int steps = 0; producer && steps < 3; ++steps) {
      if (any_of(producer->inputs, isOf))
        return true;
      bool passes = is_contained({"Reshape", "Transpose", "Cast", "Squeeze"},
                                 producer->type);
      producer = passes && !producer->inputs.empty()
                     ? producers.lookup(producer->inputs[0])
                     : nullptr;
    }
  }
  return false;
}

/// Finds tensors for the uses of an initializer; returns true if any is new.
bool NamedParameters::resolveByUse(Ambiguous &each) {
  bool isNew = false;
  auto uses = consumers.find(each.stored->name);
  if (uses == consumers.end())
    return false;
  for (auto [node, operand] : uses->second) {
    if (state.operands.contains({node, operand}))
      continue;
    SmallVector<Candidate> near;
    for (Candidate candidate : each.candidates)
      if (fitsPlace(*node, operand, candidate.tensor->name) &&
          isNear(*node, operand, *candidate.tensor))
        near.push_back(candidate);
    // Of several in one module, prefers those that no parameter has yet.
    if (near.size() > 1)
      erase_if(near, [&](Candidate c) { return find(*c.tensor).has_value(); });
    if (near.size() != 1)
      continue;
    ParameterUse use = {parameterOf(*each.stored, near.front()),
                        near.front().transposed};
    state.operands[{node, operand}] = use;
    if (uses->second.size() == 1 && !each.isNamed)
      state.values[each.stored->name] = use;
    found.push_back(std::string(near.front().tensor->name));
    isNew = true;
  }
  return isNew;
}

void NamedParameters::resolve(std::vector<Ambiguous> &all) {
  auto isDone = [&](const Ambiguous &each) {
    return all_of(consumers.lookup(each.stored->name), [&](auto use) {
      return state.operands.contains({use.first, use.second});
    });
  };
  // Each tensor that is found may decide about others.
  for (bool isNew = true; isNew;) {
    isNew = false;
    for (Ambiguous &each : all)
      isNew |= resolveByUse(each);
    if (isNew)
      continue;
    // Then assigns what only one initializer can be.
    for (Ambiguous &each : all) {
      if (each.isNamed || isDone(each))
        continue;
      SmallVector<Candidate> left = each.candidates;
      erase_if(left, [&](Candidate c) { return find(*c.tensor).has_value(); });
      bool isWanted = left.size() == 1 && none_of(all, [&](Ambiguous &other) {
                        return &other != &each && !isDone(other) &&
                               any_of(other.candidates, [&](Candidate c) {
                                 return c.tensor == left.front().tensor;
                               });
                      });
      if (!isWanted)
        continue;
      ParameterUse use = {parameterOf(*each.stored, left.front()),
                          left.front().transposed};
      state.values[each.stored->name] = use;
      for (auto [node, operand] : consumers.lookup(each.stored->name))
        state.operands.try_emplace({node, operand}, use);
      found.push_back(std::string(left.front().tensor->name));
      isNew = true;
    }
  }
  for (const Ambiguous &each : all) {
    if (each.isNamed || isDone(each))
      continue;
    std::vector<std::string> names;
    for (Candidate candidate : each.candidates)
      if (!find(*candidate.tensor))
        names.push_back(std::string(candidate.tensor->name));
    if (!names.empty())
      unclear.push_back("`" + std::string(each.stored->name) +
                        "` has the elements of " + groupNames(names));
  }
}

void NamedParameters::addMissing() {
  for (const MadeTensor &tensor : named.tensors) {
    if (find(tensor))
      continue;
    std::string name = toExported(tensor.name);
    // Another name of a matrix that is already there.
    if (isFloat(tensor.type) && isTelling(tensor))
      if (auto same = find_if(named.tensors,
                              [&](const MadeTensor &other) {
                                return &other != &tensor && find(other) &&
                                       isCopyOf(model, other, tensor, false);
                              });
          same != named.tensors.end()) {
        state.parameters[*find(*same)].aliases.push_back(name);
        continue;
      }
    missing.push_back(state.parameters.size());
    state.parameters.push_back(
        {&tensor, name, {}, isFloat(tensor.type) && isTrained(name)});
  }
}

static void collect(const Expression &e, std::set<size_t> &into) {
  if (e.operands.empty() && e.kind == Expression::Kind::View)
    into.insert(e.parameter);
  for (const Expression &operand : e.operands)
    collect(operand, into);
}

static void renumber(Expression &e, ArrayRef<size_t> numbers) {
  if (e.operands.empty() && e.kind == Expression::Kind::View)
    e.parameter = numbers[e.parameter];
  for (Expression &operand : e.operands)
    renumber(operand, numbers);
}

void NamedParameters::removeDropped() {
  if (dropped.empty())
    return;
  std::vector<size_t> numbers;
  std::vector<Parameter> kept;
  for (auto [index, parameter] : enumerate(state.parameters)) {
    numbers.push_back(kept.size());
    if (!dropped.contains(index))
      kept.push_back(std::move(parameter));
  }
  state.parameters = std::move(kept);
  for (auto &each : state.values)
    each.getValue().index = numbers[each.getValue().index];
  for (auto &[operand, use] : state.operands)
    use.index = numbers[use.index];
  for (BufferUpdate &update : state.updates)
    update.index = numbers[update.index];
  for (auto &each : state.folded)
    renumber(each.getValue(), numbers);
  for (auto &[operand, e] : state.foldedOperands)
    renumber(e, numbers);
}

void NamedParameters::finish() {
  std::set<size_t> used;
  for (const auto &each : state.values)
    used.insert(each.getValue().index);
  for (const auto &[operand, use] : state.operands)
    used.insert(use.index);
  for (const auto &each : state.folded)
    collect(each.getValue(), used);
  for (const auto &[operand, e] : state.foldedOperands)
    collect(e, used);
  std::vector<std::string> lost, beside;
  for (size_t index : missing) {
    Parameter &parameter = state.parameters[index];
    if (used.contains(index) || !isFloat(parameter.tensor->type))
      continue;
    if (parameter.trainable)
      lost.push_back(std::string(parameter.tensor->name));
    parameter.trainable = false;
  }
  // A changed value needs no message if an expression replaced it.
  erase_if(changed, [&](const std::string &name) {
    auto index = state.find(name);
    return index && !state.values.contains(state.parameters[*index].name);
  });
  for (auto [index, parameter] : enumerate(state.parameters)) {
    if (auto tensor = renamed.find(index); tensor != renamed.end())
      parameter.name = tensor->second->name;
    parameter.name = toFile(parameter.name);
    for (std::string &alias : parameter.aliases)
      alias = toFile(alias);
    // Prefers the name that the file has.
    if (!byName.contains(parameter.name))
      for (std::string &alias : parameter.aliases)
        if (byName.contains(alias)) {
          std::swap(parameter.name, alias);
          break;
        }
    if (parameter.trainable && !byName.contains(parameter.name) &&
        !dropped.contains(index))
      beside.push_back(parameter.name);
  }
  removeDropped();
  std::string file = "`" + named.path + "`";
  if (!found.empty())
    state.notes.push_back(
        std::to_string(found.size()) +
        (found.size() == 1 ? " tensor" : " tensors") +
        " of the model that had lost their names have the elements of "
        "parameters in " +
        file + ": " + groupNames(found));
  if (!beside.empty())
    state.notes.push_back(groupNames(beside) +
                          (beside.size() == 1 ? " is" : " are") + " not in " +
                          file + " and keep" + (beside.size() == 1 ? "s" : "") +
                          " the model's name");
  auto warn = [&](ArrayRef<std::string> names, const Twine &what) {
    if (!names.empty())
      state.warnings.push_back((groupNames(names) + what).str());
  };
  auto are = [](ArrayRef<std::string> names, const char *one,
                const char *many) {
    return std::string(names.size() == 1 ? one : many);
  };
  warn(changed, are(changed, " has", " have") + " other values in " + file +
                    " than in the model: those of the model are trained. Give "
                    "the state_dict of the model that was exported, or the "
                    "exporter has computed something else into them");
  warn(lost, " of " + file + are(lost, " was", " were") +
                 " not found in the model: not trained, and saved as that file "
                 "has it. The exporter has computed a constant from it, or "
                 "nothing uses it; dynamo=True, optimize=False keeps all");
  warn(named.unreadable, " of " + file + ": of a type that is not supported");
  if (!unclear.empty())
    state.warnings.push_back(
        "these constants could be one of several parameters of " + file +
        ", and neither their place in the model nor the others say which; "
        "they stay constants:\n  " +
        join(unclear, "\n  ") +
        "\n  Initialize them differently before the export, or export with "
        "dynamo=True, optimize=False, which keeps names");
}

} // namespace polyrank::frontends::onnx
