// Distributes the tensors of a plan over the ranks.

#include "runtime/exec/CheckpointLayout.h"

#include "runtime/exec/Weights.h"

#include <algorithm>
#include <map>
#include <set>

namespace polyrank::runtime {
namespace {

// A block with fewer bytes is written by one of its replicas alone.
constexpr int64_t splitBytes = 1 << 20;

std::string textOf(const flatbuffers::String *text) {
  return text ? text->str() : "";
}

class LayoutBuilder {
public:
  explicit LayoutBuilder(const plan::Plan &plan)
      : plan(plan), mesh(plan), load(static_cast<size_t>(mesh.ranks()), 0) {
    layout.parts.resize(load.size());
    layout.files.resize(load.size(), -1);
  }

  Result<CheckpointLayout> build() {
    std::set<std::string_view> seen; // if programs share one, the first's
    for (uint32_t program = 0; program < plan.programs()->size(); ++program)
      for (const plan::Argument *argument :
           *plan.programs()->Get(program)->arguments())
        if (isKept(*argument) &&
            seen.insert(argument->name()->string_view()).second)
          if (Result<void> added = add(program, *argument); !added)
            return added.error();
    if (Result<void> added = addConstants(); !added)
      return added.error();
    nameFiles();
    if (Result<void> checked = checkManifest(layout.manifest); !checked)
      return Error{"no checkpoint can be written of this plan: " +
                   checked.error().message};
    return std::move(layout);
  }

private:
  /// Returns the tensor of this name, which is new or must have these
  /// properties.
  Result<uint32_t> tensorFor(const CheckpointName &name, ElementType dtype,
                             std::vector<int64_t> shape) {
    auto [place, isNew] = numbers.try_emplace(
        {name.role == TensorRole::State, name.name},
        static_cast<uint32_t>(layout.manifest.tensors.size()));
    if (isNew) {
      layout.manifest.tensors.push_back({name.name,
                                         name.role,
                                         name.parameter,
                                         name.suffix,
                                         dtype,
                                         std::move(shape),
                                         {}});
      return place->second;
    }
    ManifestTensor &tensor = layout.manifest.tensors[place->second];
    if (tensor.dtype != dtype || tensor.shape != shape)
      return Error{"no checkpoint can be written of this plan: parts of '" +
                   name.name + "' are of different types or shapes"};
    if (name.role == TensorRole::Parameter)
      tensor.role = name.role; // a part of the tensor is trained
    return place->second;
  }

  Result<void> add(uint32_t program, const plan::Argument &argument) {
    CheckpointName name = checkpointNameOf(plan, argument);
    POLYRANK_ASSIGN(tensor, tensorFor(name, ElementType(argument.dtype()),
                                      keptShapeOf(plan, argument)));
    // The ranks that have the same block, the owner first.
    const auto *at = plan.programs()->Get(program)->at();
    std::map<std::vector<int64_t>, std::vector<std::pair<int64_t, int64_t>>>
        blocks;
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      if (!isAt(mesh, rank, at))
        continue;
      std::vector<int64_t> starts;
      for (const BlockDim &block : blockOf(mesh, rank, argument.dims()))
        starts.push_back(block.start);
      blocks[starts].push_back(
          {replicaOf(mesh, rank, argument.dims(), at).index, rank});
    }
    for (auto &[starts, replicas] : blocks) {
      std::sort(replicas.begin(), replicas.end());
      Placement placement =
          keptPlacementOf(mesh, replicas.front().second, argument);
      Result<std::vector<LocalBox>> boxes =
          boxesOf(placement, layout.manifest.tensors[tensor].shape);
      if (!boxes)
        return Error{"no checkpoint can be written of this plan: '" +
                     name.name + "': " + boxes.error().message};
      for (const LocalBox &box : *boxes)
        for (const Box &piece :
             piecesOf(box.box, replicas.size(),
                      bytesOf(ElementType(argument.dtype()))))
          addPart(tensor, piece, leastLoaded(replicas),
                  {.argument = &argument,
                   .placement = placementWithin(piece, box, piece)});
    }
    return {};
  }

  /// Adds what no argument has: tensors that the model does not use, or parts
  /// of them.
  Result<void> addConstants() {
    std::vector<std::pair<int64_t, int64_t>> all;
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
      all.emplace_back(rank, rank);
    for (uint32_t s = 0; plan.stored() && s < plan.stored()->size(); ++s) {
      const plan::StoredTensor &stored = *plan.stored()->Get(s);
      auto known = numbers.find({false, stored.name()->str()});
      ElementType dtype = known == numbers.end()
                              ? ElementType(stored.dtype())
                              : layout.manifest.tensors[known->second].dtype;
      POLYRANK_ASSIGN(
          tensor, tensorFor({TensorRole::Buffer, stored.name()->str(), {}, {}},
                            dtype, shapeOf(stored)));
      std::vector<Box> covered;
      int64_t left = wholeBox(shapeOf(stored)).elements();
      for (const ManifestChunk &chunk :
           layout.manifest.tensors[tensor].chunks) {
        covered.push_back(chunk.box);
        left -= chunk.box.elements();
      }
      if (left == 0)
        continue;
      for (const Box &rest : subtract(wholeBox(shapeOf(stored)), covered)) {
        // The placement refers to the tensor's own order, so that a tensor that
        // is stored transposed is read by rows and columns.
        std::vector<int64_t> inTensor = stridesOf(shapeOf(stored)),
                             inChunk = stridesOf(rest.sizes);
        Placement placement;
        for (size_t d = 0; d < inTensor.size(); ++d) {
          placement.storedBase += rest.offsets[d] * inTensor[d];
          placement.extents.push_back({rest.sizes[d], inTensor[d], inChunk[d]});
        }
        addPart(tensor, rest, leastLoaded(all),
                {.placement = placement, .stored = s});
      }
    }
    return {};
  }

  /// Splits a box among `replicas` replicas, each of which may write a part.
  static std::vector<Box> piecesOf(const Box &box, size_t replicas,
                                   int64_t elementBytes) {
    auto pieces = static_cast<int64_t>(replicas);
    if (pieces == 1 || box.elements() * elementBytes < splitBytes)
      return {box};
    for (size_t d = 0; d < box.sizes.size(); ++d) {
      if (box.sizes[d] < pieces)
        continue;
      std::vector<Box> result;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        Box part = box;
        int64_t begin = box.sizes[d] * piece / pieces,
                end = box.sizes[d] * (piece + 1) / pieces;
        part.offsets[d] += begin;
        part.sizes[d] = end - begin;
        result.push_back(std::move(part));
      }
      return result;
    }
    return {box};
  }

  int64_t
  leastLoaded(const std::vector<std::pair<int64_t, int64_t>> &replicas) const {
    int64_t least = replicas.front().second;
    for (auto [index, rank] : replicas)
      if (load[static_cast<size_t>(rank)] < load[static_cast<size_t>(least)])
        least = rank;
    return least;
  }

  void addPart(uint32_t number, const Box &box, int64_t rank,
               CheckpointPart part) {
    ManifestTensor &tensor = layout.manifest.tensors[number];
    auto at = static_cast<size_t>(rank);
    part.tensor = number;
    part.chunk = static_cast<uint32_t>(tensor.chunks.size());
    ManifestChunk chunk;
    chunk.file = static_cast<uint32_t>(rank); // see nameFiles
    chunk.box = box;
    // Chooses a key that is new in the rank's file.
    std::string name =
        (tensor.role == TensorRole::State ? "state." : "") + tensor.name;
    chunk.key = name;
    for (int count = 2; !keys.insert({rank, chunk.key}).second; ++count)
      chunk.key = name + "#" + std::to_string(count);
    load[at] += box.elements() * bytesOf(tensor.dtype);
    tensor.chunks.push_back(std::move(chunk));
    layout.parts[at].push_back(std::move(part));
  }

  void nameFiles() {
    int64_t count = 0;
    for (size_t rank = 0; rank < load.size(); ++rank)
      if (!layout.parts[rank].empty())
        layout.files[rank] = count++;
    for (int64_t number = 0; number < count; ++number)
      layout.manifest.files.push_back(
          {shardFileName(uint64_t(number), uint64_t(count)), 0});
    for (ManifestTensor &tensor : layout.manifest.tensors)
      for (ManifestChunk &chunk : tensor.chunks)
        chunk.file = static_cast<uint32_t>(layout.files[chunk.file]);
  }

  const plan::Plan &plan;
  Mesh mesh;
  CheckpointLayout layout;
  std::vector<int64_t> load; // bytes that each rank has to write
  std::map<std::pair<bool, std::string>, uint32_t> numbers;
  std::set<std::pair<int64_t, std::string>> keys;
};

} // namespace

bool isKept(const plan::Argument &argument) {
  return argument.role() == plan::Role::State ||
         (argument.role() == plan::Role::Parameter && argument.view());
}

CheckpointName checkpointNameOf(const plan::Plan &plan,
                                const plan::Argument &argument) {
  if (argument.role() == plan::Role::Parameter)
    return {argument.trainable() ? TensorRole::Parameter : TensorRole::Buffer,
            plan.stored()->Get(argument.view()->stored())->name()->str(),
            {},
            {}};
  // The state belongs to the whole step. Its argument may have been renamed
  // because of an input of the same name.
  if (!argument.state_of()) {
    std::string name = argument.state_suffix() ? textOf(argument.state_suffix())
                                               : argument.name()->str();
    return {TensorRole::State, name, {}, name};
  }
  std::string parameter =
      argument.view()
          ? plan.stored()->Get(argument.view()->stored())->name()->str()
          : argument.state_of()->str();
  std::string suffix = textOf(argument.state_suffix());
  return {TensorRole::State, parameter + "." + suffix, parameter, suffix};
}

std::vector<int64_t> keptShapeOf(const plan::Plan &plan,
                                 const plan::Argument &argument) {
  if (argument.view())
    return shapeOf(*plan.stored()->Get(argument.view()->stored()));
  std::vector<int64_t> shape;
  if (argument.dims())
    for (const plan::Dim *dim : *argument.dims())
      shape.push_back(dim->size());
  return shape;
}

Placement keptPlacementOf(const Mesh &mesh, int64_t rank,
                          const plan::Argument &argument) {
  return keptPlacementOf(blockOf(mesh, rank, argument.dims()), argument);
}

Placement keptPlacementOf(const std::vector<BlockDim> &blocks,
                          const plan::Argument &argument) {
  return argument.view() ? placementOf(blocks, *argument.view())
                         : placementIn(blocks, 0);
}

std::vector<TensorSpec> CheckpointLayout::specsOf(int64_t rank) const {
  std::vector<TensorSpec> specs;
  for (const CheckpointPart &part : parts[static_cast<size_t>(rank)]) {
    const ManifestTensor &tensor = manifest.tensors[part.tensor];
    const ManifestChunk &chunk = tensor.chunks[part.chunk];
    specs.push_back({chunk.key, tensor.dtype, chunk.box.sizes});
  }
  return specs;
}

uint64_t CheckpointLayout::bytes() const {
  uint64_t sum = 0;
  for (const ManifestTensor &tensor : manifest.tensors)
    sum += tensor.bytes();
  return sum;
}

Result<CheckpointLayout> checkpointLayoutOf(const plan::Plan &plan) {
  return LayoutBuilder(plan).build();
}

} // namespace polyrank::runtime
