// Checks and changes strategies.

#include "compiler/strategy/Strategy.h"

#include "compiler/cost/CostModel.h"
#include "compiler/sharding/BatchAxes.h"
#include "compiler/sharding/BucketSizes.h"
#include "compiler/sharding/ShardPattern.h"
#include "compiler/stage_order/Schedule.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::strategy;

std::vector<std::string> Strategy::toArguments() const {
  constexpr bool isForward = false; // read by checks alone
  Strategy copy = *this, standard;
  return argumentsOf(copy.options(isForward), standard.options(isForward));
}

std::string Strategy::toFile() const {
  constexpr bool isForward = false; // read by checks alone
  Strategy copy = *this, standard;
  return fileOf(copy.options(isForward), standard.options(isForward));
}

Result<void> Strategy::check(MLIRContext &context) const {
  sharding::MeshAttr attribute = toAttribute(context, mesh);
  if (auto axis = findPipeAxis(attribute); !axis)
    return axis.error();
  if (auto axes = sharding::findBatchAxes(attribute, batchAxes); !axes)
    return axes.error();
  if (auto sizes = sharding::parseBucketSizes(bucketMegabytes); !sizes)
    return Error{"--bucket-mb: " + sizes.error().message};
  return {};
}

/// Two of the schedules have several stages per rank.
static bool hasTwoChunks(StringRef schedule) {
  return llvm::is_contained({"interleaved", "zero-bubble-v"}, schedule);
}

std::string Strategy::getSchedule() const {
  return !schedule.empty() ? schedule : chunks > 1 ? "interleaved" : "1f1b";
}

int64_t Strategy::getChunks() const {
  return chunks ? chunks : hasTwoChunks(schedule) ? 2 : 1;
}

Result<int32_t> Strategy::findPipeAxis(sharding::MeshAttr mesh) const {
  int32_t axis = mesh.lookup(pipeAxis.empty() ? "pipe" : pipeAxis);
  if (axis < 0 && !pipeAxis.empty())
    return Error{"--pipe-axis: " + cost::explainMissingAxis(mesh, pipeAxis)};
  std::string given = !stagePatterns.empty() ? "--stage"
                      : !stages.empty()      ? "--stages"
                      : chunks               ? "--chunks"
                      : !schedule.empty()    ? "--schedule"
                                             : "";
  if (axis < 0 && !given.empty())
    return Error{given + ": the mesh has no axis for the stages of a pipeline; "
                         "call one 'pipe', as in --mesh data=2,pipe=4, or name "
                         "it with --pipe-axis"};
  // One rank is accepted, so that one command works for meshes of any size.
  bool isForOne = chunks <= 1 && stagePatterns.empty() &&
                  llvm::is_contained({"", "auto", "1"}, stages);
  if (axis >= 0 && mesh.getAxisSizes()[axis] == 1 && !isForOne)
    return Error{given + ": the pipe axis has one rank, which has the whole "
                         "model; give it more in --mesh, or leave this out"};
  if (axis < 0 || mesh.getAxisSizes()[axis] == 1)
    return -1;
  // A schedule file says itself where its stages are.
  if (!StringRef(schedule).starts_with("file:"))
    if (auto made = stage_order::getCoordinates(
            getSchedule(), mesh.getAxisSizes()[axis], getChunks());
        !made)
      return made.error();
  return axis;
}

bool Strategy::splitsBatch(std::string_view axis) const {
  return llvm::is_contained(sharding::getBatchAxisNames(batchAxes),
                            StringRef(axis));
}

/// Returns true if the dims of a constraint name the axis.
static bool names(StringRef shard, StringRef axis) {
  auto pattern = sharding::ShardPattern::parse(shard);
  return pattern && llvm::any_of(pattern->dims, [&](const auto &dim) {
           return llvm::is_contained(dim.axes, axis);
         });
}

bool Strategy::constrains(std::string_view axis) const {
  return llvm::any_of(
      shards, [&](const std::string &shard) { return names(shard, axis); });
}

Strategy Strategy::on(MeshAxes axes) const {
  Strategy result = *this;
  llvm::erase_if(result.shards, [&](const std::string &shard) {
    return llvm::any_of(mesh, [&](const MeshAxis &axis) {
      return !findAxis(axes, axis.name) && names(shard, axis.name);
    });
  });
  result.mesh = std::move(axes);
  return result;
}
