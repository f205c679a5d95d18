// Meshes, and groups of ranks as functions of a rank's coordinates.

#include "runtime/progress/RankGroups.h"

using namespace polyrank::progress;

Mesh::Mesh(std::vector<MeshAxis> axes)
    : axes(std::move(axes)), strides(this->axes.size()) {
  for (size_t i = this->axes.size(); i-- > 0;) {
    strides[i] = numRanks;
    numRanks *= this->axes[i].size;
  }
}

int64_t Mesh::getBase(int64_t rank, const Group &group) const {
  int64_t base = rank;
  for (const SubAxis &part : group.axes) {
    int64_t weight = getWeight(part);
    base -= rank / weight % part.size * weight;
  }
  return base;
}

std::vector<int64_t> Mesh::getRanks(int64_t rank, const Group &group) const {
  int64_t base = getBase(rank, group), count = 1;
  for (const SubAxis &part : group.axes)
    count *= part.size;
  auto getMember = [&](int64_t index) {
    int64_t member = base;
    for (size_t i = group.axes.size(); i-- > 0;) {
      member += index % group.axes[i].size * getWeight(group.axes[i]);
      index /= group.axes[i].size;
    }
    return member;
  };
  std::vector<int64_t> ranks;
  if (group.members.empty())
    for (int64_t index = 0; index < count; ++index)
      ranks.push_back(getMember(index));
  for (int64_t index : group.members)
    ranks.push_back(index >= 0 && index < count ? getMember(index) : -1);
  return ranks;
}

std::string Mesh::describeRank(int64_t rank) const {
  std::string text = "rank " + std::to_string(rank);
  for (size_t i = 0; i < axes.size(); ++i)
    text += (i == 0 ? " (" : ",") + axes[i].name + "=" +
            std::to_string(getCoordinate(rank, i));
  return text + (axes.empty() ? "" : ")");
}
