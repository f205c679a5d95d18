// Loads shards from the intersections of their boxes with those of chunks.

#include "runtime/exec/LoadCheckpoint.h"

#include "runtime/exec/CheckpointLayout.h"
#include "support/Names.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace polyrank::runtime {
namespace {

/// Loads the placement's elements of a tensor into a shard.
Result<void> loadElements(CheckpointReader &reader,
                          const ManifestTensor &tensor,
                          const Placement &placement, ElementType type,
                          std::byte *shard,
                          const std::function<void()> &onTick) {
  POLYRANK_ASSIGN(boxes, boxesOf(placement, tensor.shape));
  for (const ManifestChunk &chunk : tensor.chunks)
    for (const LocalBox &box : boxes) {
      std::optional<Box> common = intersect(box.box, chunk.box);
      if (!common)
        continue;
      auto read = [&](uint64_t offset, void *into, uint64_t length) {
        if (onTick)
          onTick();
        return reader.read(tensor, chunk, offset, into, length);
      };
      if (Result<void> loaded =
              loadShard(placementWithin(chunk.box, box, *common), tensor.dtype,
                        read, type, shard);
          !loaded)
        return loaded;
    }
  return {};
}

/// Returns the first of some names, and the number of the others.
std::string someOf(const std::set<std::string> &names) {
  constexpr size_t shown = 4;
  std::string text;
  size_t number = 0;
  for (const std::string &name : names)
    if (number++ < shown)
      text += (text.empty() ? "" : ", ") + name;
  return names.size() <= shown
             ? text
             : fmt::format("{} and {} more", text, names.size() - shown);
}

/// "exp_avg of 12 parameters, step"
std::string kindsOf(const std::map<std::string, std::set<std::string>> &kinds) {
  std::string text;
  for (auto &[suffix, parameters] : kinds) {
    text += (text.empty() ? "" : ", ") + suffix;
    size_t count = parameters.size() - parameters.count("");
    if (count == 1)
      text += " of " + *parameters.rbegin();
    else if (count > 1)
      text += fmt::format(" of {} parameters", count);
  }
  return text.empty() ? "nothing" : text;
}

} // namespace

Result<void> checkResume(const plan::Plan &plan, const FoundCheckpoint &found,
                         bool resetOptimizer) {
  const Manifest &manifest = found.manifest;
  std::map<std::pair<bool, std::string_view>, const ManifestTensor *> there;
  for (const ManifestTensor &tensor : manifest.tensors)
    there[{tensor.role == TensorRole::State, tensor.name}] = &tensor;

  std::set<std::string> missing, unknown, knownStates;
  std::map<std::string, std::set<std::string>> missingStates, otherStates;
  auto fits = [&](const ManifestTensor &tensor, ElementType dtype,
                  const std::vector<int64_t> &shape) -> Result<void> {
    if (tensor.shape != shape)
      return Error{fmt::format("{}: '{}' has shape {}, and the plan's has {}",
                               found.path, tensor.name, shapeText(tensor.shape),
                               shapeText(shape))};
    if (!canLoad(tensor.dtype, dtype))
      return Error{fmt::format("{}: '{}' is {}, and the plan uses it as {}",
                               found.path, tensor.name, nameOf(tensor.dtype),
                               nameOf(dtype))};
    return {};
  };
  std::set<std::string> model;
  for (uint32_t s = 0; plan.stored() && s < plan.stored()->size(); ++s) {
    const plan::StoredTensor &stored = *plan.stored()->Get(s);
    std::string name = stored.name()->str();
    model.insert(name);
    auto tensor = there.find({false, name});
    if (tensor == there.end())
      missing.insert(name);
    else if (Result<void> same = fits(
                 *tensor->second, ElementType(stored.dtype()), shapeOf(stored));
             !same)
      return same;
  }
  for (const plan::Program *program : *plan.programs())
    for (const plan::Argument *argument : *program->arguments()) {
      if (argument->role() != plan::Role::State)
        continue;
      CheckpointName name = checkpointNameOf(plan, *argument);
      knownStates.insert(name.name);
      auto tensor = there.find({true, name.name});
      if (tensor == there.end())
        missingStates[name.suffix].insert(name.parameter);
      else if (Result<void> same =
                   resetOptimizer
                       ? Result<void>()
                       : fits(*tensor->second, ElementType(argument->dtype()),
                              keptShapeOf(plan, *argument));
               !same)
        return same;
    }
  for (const ManifestTensor &tensor : manifest.tensors)
    if (tensor.role == TensorRole::State) {
      if (!knownStates.contains(tensor.name))
        otherStates[tensor.suffix].insert(tensor.parameter);
    } else if (!model.contains(tensor.name)) {
      unknown.insert(tensor.name);
    }
  if (!missing.empty() || !unknown.empty())
    return Error{fmt::format(
        "{}: it is a checkpoint of another model ('{}'): {}{}{}", found.path,
        manifest.model, missing.empty() ? "" : "it lacks " + someOf(missing),
        missing.empty() || unknown.empty() ? "" : ", and ",
        unknown.empty()
            ? ""
            : "it has " + someOf(unknown) + ", which the plan does not")};
  if (!resetOptimizer && (!missingStates.empty() || !otherStates.empty()))
    return Error{fmt::format(
        "{}: the state in it is another optimizer's: the plan keeps {} that is "
        "not there, and there is {} that the plan does not keep; compile with "
        "the options that the checkpoint was written with, or go on with "
        "--reset-optimizer, which takes weights, running statistics and step "
        "from it and begins the optimizer's state anew",
        found.path, kindsOf(missingStates), kindsOf(otherStates))};
  return {};
}

Result<void> loadCheckpoint(RankProgram &program, const plan::Plan &plan,
                            CheckpointReader &reader, bool resetOptimizer,
                            const std::function<void()> &onTick) {
  return program.restore(
      [&](const plan::Argument &argument) {
        return isKept(argument) &&
               !(resetOptimizer && argument.role() == plan::Role::State);
      },
      [&](const plan::Argument &argument, const Placement &piece,
          std::byte *memory) -> Result<void> {
        CheckpointName name = checkpointNameOf(plan, argument);
        const ManifestTensor *tensor =
            name.role == TensorRole::State
                ? reader.manifest().find(name.role, name.name)
                : reader.manifest().findStored(name.name);
        if (!tensor)
          return Error{reader.path() + ": has no '" + name.name + "'"};
        return loadElements(reader, *tensor, piece,
                            ElementType(argument.dtype()), memory, onTick);
      });
}

Result<Weights> weightsOf(const LoadedPlan &plan, CheckpointReader &reader) {
  Weights weights;
  if (!plan.plan->stored())
    return std::move(weights);
  for (const plan::StoredTensor *stored : *plan.plan->stored()) {
    const ManifestTensor *tensor =
        reader.manifest().findStored(stored->name()->string_view());
    if (!tensor)
      return Error{reader.path() + ": has no '" + stored->name()->str() + "'"};
    StoredSource source;
    source.dtype = tensor->dtype;
    source.read = [&reader, tensor](uint64_t offset, void *into,
                                    uint64_t length) {
      int64_t width = bytesOf(tensor->dtype);
      Placement range;
      range.storedBase = static_cast<int64_t>(offset) / width;
      range.extents.push_back({static_cast<int64_t>(length) / width, 1, 1});
      return loadElements(reader, *tensor, range, tensor->dtype,
                          static_cast<std::byte *>(into), {});
    };
    weights.add(std::move(source), reader.path(), *stored);
  }
  return std::move(weights);
}

} // namespace polyrank::runtime
