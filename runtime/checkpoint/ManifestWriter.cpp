// Writes a manifest as text, and checks what every manifest must satisfy.

#include "runtime/checkpoint/Checksum.h"
#include "runtime/checkpoint/Manifest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace polyrank::runtime {

const char *nameOf(TensorRole role) {
  switch (role) {
  case TensorRole::Parameter:
    return "parameter";
  case TensorRole::Buffer:
    return "buffer";
  case TensorRole::State:
    break;
  }
  return "state";
}

std::string shardFileName(uint64_t number, uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof(text), "shard-%05llu-of-%05llu.safetensors",
                static_cast<unsigned long long>(number + 1),
                static_cast<unsigned long long>(count));
  return text;
}

uint64_t ManifestTensor::bytes() const {
  uint64_t bytes = bytesOf(dtype);
  for (int64_t size : shape)
    bytes *= static_cast<uint64_t>(size);
  return bytes;
}

const ManifestTensor *Manifest::find(TensorRole role,
                                     std::string_view name) const {
  for (const ManifestTensor &tensor : tensors)
    if (tensor.role == role && tensor.name == name)
      return &tensor;
  return nullptr;
}

const ManifestTensor *Manifest::findStored(std::string_view name) const {
  const ManifestTensor *found = find(TensorRole::Parameter, name);
  return found ? found : find(TensorRole::Buffer, name);
}

uint64_t Manifest::bytes() const {
  uint64_t sum = 0;
  for (const ManifestFile &file : files)
    sum += file.bytes;
  return sum;
}

std::string textOf(const Manifest &manifest) {
  using Json = nlohmann::ordered_json;
  Json metrics = Json::object();
  for (auto &[name, value] : manifest.metrics) // JSON has no NaN
    metrics[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  Json files = Json::array(), tensors = Json::array();
  for (const ManifestFile &file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  for (const ManifestTensor &tensor : manifest.tensors) {
    Json chunks = Json::array();
    for (const ManifestChunk &chunk : tensor.chunks) {
      Json checksums = Json::array();
      for (uint64_t checksum : chunk.checksums)
        checksums.push_back(toHex(checksum));
      chunks.push_back({{"file", chunk.file},
                        {"key", chunk.key},
                        {"offsets", chunk.box.offsets},
                        {"sizes", chunk.box.sizes},
                        {"xxh3", std::move(checksums)}});
    }
    Json entry{{"name", tensor.name}, {"role", nameOf(tensor.role)}};
    if (tensor.role == TensorRole::State) {
      entry["parameter"] = tensor.parameter;
      entry["suffix"] = tensor.suffix;
    }
    entry["dtype"] = nameOf(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["chunks"] = std::move(chunks);
    tensors.push_back(std::move(entry));
  }
  const ManifestData &data = manifest.data;
  Json body{{"format", "polyrank checkpoint"},
            {"version", manifest.evaluation ? checkpointVersion : 1},
            {"step", manifest.step},
            {"seed", manifest.seed},
            {"program", manifest.program},
            {"model", manifest.model},
            {"plan", manifest.planHash},
            {"mesh", manifest.mesh},
            {"data",
             {{"description", data.description},
              {"fingerprint", data.fingerprint},
              {"order", data.order},
              {"samples", data.samples},
              {"samples_per_step", data.samplesPerStep},
              {"origin", data.origin}}},
            {"metrics", std::move(metrics)},
            {"checksum_block", checksumBlock},
            {"files", std::move(files)},
            {"tensors", std::move(tensors)}};
  if (const auto &evaluation = manifest.evaluation)
    body["evaluation"] = {{"step", evaluation->step},
                          {"best_step", evaluation->bestStep},
                          {"best_loss", std::isfinite(evaluation->bestLoss)
                                            ? Json(evaluation->bestLoss)
                                            : Json(nullptr)},
                          {"without", evaluation->without}};
  std::string text = body.dump(1, ' ', false, Json::error_handler_t::replace);
  return "{\"digest\":\"" + digestOf(text) + "\",\"manifest\":" + text + "}\n";
}

namespace {

bool isShardName(std::string_view name) {
  unsigned number = 0, count = 0;
  std::string text(name);
  return std::sscanf(text.c_str(), "shard-%5u-of-%5u", &number, &count) == 2 &&
         number >= 1 && number <= count &&
         shardFileName(number - 1, count) == name;
}

Result<void> checkChunks(const ManifestTensor &tensor,
                         const std::vector<ManifestFile> &files,
                         std::vector<std::set<std::string_view>> &keys) {
  std::string who = "tensor '" + tensor.name + "'";
  std::vector<Box> boxes;
  for (const ManifestChunk &chunk : tensor.chunks) {
    if (chunk.file >= files.size())
      return Error{who + ": chunk '" + chunk.key + "' is in file number " +
                   std::to_string(chunk.file) + " of " +
                   std::to_string(files.size())};
    if (!keys[chunk.file].insert(chunk.key).second)
      return Error{who + ": the key '" + chunk.key + "' stands twice in '" +
                   files[chunk.file].name + "'"};
    const Box &box = chunk.box;
    if (box.offsets.size() != tensor.shape.size() ||
        box.sizes.size() != tensor.shape.size())
      return Error{who + ": chunk '" + chunk.key + "' has another rank"};
    for (size_t d = 0; d < tensor.shape.size(); ++d)
      if (box.sizes[d] < 1 || box.offsets[d] < 0 ||
          box.offsets[d] > tensor.shape[d] ||
          box.sizes[d] > tensor.shape[d] - box.offsets[d])
        return Error{who + ": chunk '" + chunk.key + "' has elements " +
                     std::to_string(box.offsets[d]) + " + " +
                     std::to_string(box.sizes[d]) + " of dim " +
                     std::to_string(d) + ", which has " +
                     std::to_string(tensor.shape[d])};
    boxes.push_back(box);
  }
  if (Result<void> tiled = checkTiling(tensor.shape, boxes); !tiled)
    return Error{who + ": " + tiled.error().message};
  return {};
}

} // namespace

Result<void> checkManifest(const Manifest &manifest) {
  std::set<std::string_view> files;
  for (const ManifestFile &file : manifest.files) {
    if (!isShardName(file.name))
      return Error{"'" + file.name + "' is no name of a shard"};
    if (!files.insert(file.name).second)
      return Error{"file '" + file.name + "' is named twice"};
  }
  // Parameters and buffers are both tensors of the model.
  std::set<std::pair<bool, std::string_view>> names;
  std::vector<std::set<std::string_view>> keys(manifest.files.size());
  for (const ManifestTensor &tensor : manifest.tensors) {
    if (!names.insert({tensor.role == TensorRole::State, tensor.name}).second)
      return Error{"tensor '" + tensor.name + "' is named twice"};
    uint64_t bytes = static_cast<uint64_t>(bytesOf(tensor.dtype));
    for (int64_t size : tensor.shape)
      if (size < 0 || __builtin_mul_overflow(bytes, uint64_t(size), &bytes) ||
          bytes > uint64_t(1) << 60)
        return Error{"tensor '" + tensor.name + "' has an impossible shape"};
    if (Result<void> chunks = checkChunks(tensor, manifest.files, keys);
        !chunks)
      return chunks;
  }
  return {};
}

} // namespace polyrank::runtime
