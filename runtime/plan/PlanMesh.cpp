// Mesh coordinates, groups and blocks.

#include "runtime/plan/PlanMesh.h"

#include <algorithm>

namespace polyrank::runtime {

Mesh::Mesh(const plan::Plan &plan) {
  for (const plan::Axis *axis : *plan.mesh()) {
    names.push_back(axis->name()->str());
    sizes.push_back(axis->size());
    total *= axis->size();
  }
  int64_t stride = total;
  for (int64_t size : sizes)
    strides.push_back(stride /= size);
}

int64_t Mesh::coordinate(int64_t rank, int64_t axis) const {
  return rank / strides[axis] % sizes[axis];
}

int64_t Mesh::digit(int64_t rank, const plan::AxisRef &ref) const {
  int64_t inner = sizes[ref.axis()] / (ref.pre() * ref.size());
  return coordinate(rank, ref.axis()) / inner % ref.size();
}

int64_t Mesh::linearIndex(int64_t rank, const AxisRefs *refs) const {
  int64_t index = 0;
  if (refs)
    for (const plan::AxisRef *ref : *refs)
      index = index * ref->size() + digit(rank, *ref);
  return index;
}

int64_t Mesh::groupSize(const AxisRefs *refs) {
  int64_t size = 1;
  if (refs)
    for (const plan::AxisRef *ref : *refs)
      size *= ref->size();
  return size;
}

std::vector<uint32_t> Mesh::group(int64_t rank, const AxisRefs *refs) const {
  std::vector<uint32_t> members(groupSize(refs));
  for (size_t index = 0; index < members.size(); ++index) {
    int64_t member = rank, rest = index;
    for (int64_t r = refs ? int64_t(refs->size()) - 1 : -1; r >= 0; --r) {
      const plan::AxisRef &ref = *refs->Get(r);
      int64_t inner = sizes[ref.axis()] / (ref.pre() * ref.size());
      member +=
          (rest % ref.size() - digit(rank, ref)) * inner * strides[ref.axis()];
      rest /= ref.size();
    }
    members[index] = member;
  }
  return members;
}

std::string Mesh::describe(const AxisRefs *refs) const {
  std::string text;
  if (refs)
    for (const plan::AxisRef *ref : *refs) {
      text += (text.empty() ? "" : ",") + names[ref->axis()];
      if (ref->size() != sizes[ref->axis()])
        text += ":(" + std::to_string(ref->pre()) + ")" +
                std::to_string(ref->size());
    }
  return text;
}

std::string Mesh::describeRank(int64_t rank) const {
  std::string text = "rank " + std::to_string(rank);
  for (int64_t axis = 0; axis < axes(); ++axis)
    text += (axis ? "," : " (") + names[axis] + "=" +
            std::to_string(coordinate(rank, axis));
  return axes() ? text + ")" : text;
}

std::vector<BlockDim> blockOf(const Mesh &mesh, int64_t rank,
                              const Dims *dims) {
  std::vector<BlockDim> blocks;
  if (dims)
    for (const plan::Dim *dim : *dims) {
      int64_t block = dim->padded() / Mesh::groupSize(dim->axes());
      int64_t start = mesh.linearIndex(rank, dim->axes()) * block;
      int64_t valid = std::clamp<int64_t>(dim->size() - start, 0, block);
      blocks.push_back({dim->size(), block, start, valid});
    }
  return blocks;
}

bool isAt(const Mesh &mesh, int64_t rank, const Places *at) {
  return !at || std::all_of(at->begin(), at->end(), [&](const plan::Place *p) {
    return mesh.coordinate(rank, p->axis()) == p->coordinate();
  });
}

std::string describePlaces(const Mesh &mesh, const Places *at) {
  std::string text;
  if (at)
    for (const plan::Place *place : *at)
      text += (text.empty() ? "" : ",") + mesh.name(place->axis()) + "=" +
              std::to_string(place->coordinate());
  return text;
}

uint32_t programOf(const plan::Plan &plan, const Mesh &mesh, int64_t rank) {
  uint32_t number = 0;
  while (!isAt(mesh, rank, plan.programs()->Get(number)->at()))
    ++number;
  return number;
}

int64_t firstRankOf(const Mesh &mesh, const Places *at) {
  int64_t rank = 0;
  if (at)
    for (const plan::Place *place : *at)
      rank += place->coordinate() * mesh.stride(place->axis());
  return rank;
}

int64_t ranksOf(const Mesh &mesh, const Places *at) {
  int64_t ranks = mesh.ranks();
  if (at)
    for (const plan::Place *place : *at)
      ranks /= mesh.size(place->axis());
  return ranks;
}

bool ownsBlock(const Mesh &mesh, int64_t rank, const Dims *dims,
               const Places *at) {
  // Each coordinate without the digits that the layout uses.
  std::vector<int64_t> unused(mesh.axes());
  for (int64_t axis = 0; axis < mesh.axes(); ++axis)
    unused[axis] = mesh.coordinate(rank, axis);
  if (at)
    for (const plan::Place *place : *at)
      unused[place->axis()] -= place->coordinate();
  if (dims)
    for (const plan::Dim *dim : *dims)
      if (dim->axes())
        for (const plan::AxisRef *ref : *dim->axes())
          unused[ref->axis()] -=
              mesh.digit(rank, *ref) *
              (mesh.size(ref->axis()) / (ref->pre() * ref->size()));
  return std::all_of(unused.begin(), unused.end(),
                     [](int64_t rest) { return rest == 0; });
}

Replica replicaOf(const Mesh &mesh, int64_t rank, const Dims *dims,
                  const Places *at) {
  Replica replica{0, 0};
  for (int64_t other = 0; other < mesh.ranks(); ++other) {
    bool same = isAt(mesh, other, at);
    if (dims)
      for (const plan::Dim *dim : *dims)
        same &= mesh.linearIndex(rank, dim->axes()) ==
                mesh.linearIndex(other, dim->axes());
    replica.index += same && other < rank;
    replica.count += same;
  }
  return replica;
}

std::string describeLayout(const Mesh &mesh, const Dims *dims) {
  std::string text = "[";
  if (dims)
    for (const plan::Dim *dim : *dims) {
      text += (text.size() > 1 ? ", " : "") + std::to_string(dim->size());
      if (dim->padded() != dim->size())
        text += " pad " + std::to_string(dim->padded());
      if (dim->axes() && dim->axes()->size())
        text += " {" + mesh.describe(dim->axes()) + "}";
    }
  return text + "]";
}

} // namespace polyrank::runtime
