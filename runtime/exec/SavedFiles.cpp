// Splits weights into files.

#include "runtime/exec/SavedFiles.h"

#include "runtime/checkpoint/SafetensorsSet.h"
#include "runtime/exec/Weights.h"

#include <iterator>

namespace polyrank::runtime {
namespace {

/// A stored tensor under all of its names.
SavedFile tensorOf(const plan::Plan &plan, uint32_t number, ElementType held,
                   const SavedWeights &what) {
  const plan::StoredTensor &stored = *plan.stored()->Get(number);
  ElementType dtype = savedTypeOf(stored, held, what);
  std::vector<int64_t> shape = shapeOf(stored);
  uint64_t bytes = polyrank::bytesOf(dtype);
  for (int64_t size : shape)
    bytes *= static_cast<uint64_t>(size);
  SavedFile group;
  for (const std::string &name : namesOf(stored)) {
    group.entries.push_back({number, {name, dtype, shape, stored.complex()}});
    group.bytes += bytes;
  }
  return group;
}

void append(SavedFile &file, SavedFile group) {
  file.bytes += group.bytes;
  std::move(group.entries.begin(), group.entries.end(),
            std::back_inserter(file.entries));
}

} // namespace

std::vector<SavedFile> savedFilesOf(const plan::Plan &plan,
                                    const SavedWeights &what,
                                    const std::string &path,
                                    uint64_t shardBytes) {
  bool isFolder = path.ends_with('/');
  std::vector<SavedFile> files;
  SavedFile current;
  std::vector<SavedTensor> saved = savedTensorsOf(plan, what);
  for (uint32_t number = 0; number < saved.size(); ++number) {
    if (what.trainedAlone && !saved[number].isTrained)
      continue;
    SavedFile group = tensorOf(plan, number, saved[number].dtype, what);
    if (isFolder && group.bytes > shardBytes) {
      files.push_back(std::move(group));
      continue;
    }
    if (isFolder && current.bytes + group.bytes > shardBytes)
      files.push_back(std::exchange(current, {}));
    append(current, std::move(group));
  }
  if (!current.entries.empty() || files.empty())
    files.push_back(std::move(current));
  for (size_t number = 0; number < files.size(); ++number)
    files[number].path = !isFolder ? path
                         : files.size() == 1
                             ? path + wholeName
                             : path + shardName(number + 1, files.size());
  return files;
}

const std::map<std::string, std::string> &savedMetadata() {
  static const std::map<std::string, std::string> metadata{{"format", "pt"}};
  return metadata;
}

Result<SafetensorsWriter> layoutOf(const SavedFile &file) {
  std::vector<TensorSpec> tensors;
  for (const SavedEntry &entry : file.entries)
    tensors.push_back(entry.tensor);
  return SafetensorsWriter::layOut(file.path, tensors, savedMetadata());
}

std::string indexOf(const std::vector<SavedFile> &files) {
  if (files.size() == 1)
    return "";
  std::vector<std::pair<std::string, std::vector<std::string>>> names;
  for (const SavedFile &file : files) {
    auto &[name, tensors] = names.emplace_back();
    name = file.path.substr(file.path.rfind('/') + 1);
    for (const SavedEntry &entry : file.entries)
      tensors.push_back(entry.tensor.name);
  }
  return indexText(names, bytesOf(files));
}

uint64_t bytesOf(const std::vector<SavedFile> &files) {
  uint64_t sum = 0;
  for (const SavedFile &file : files)
    sum += file.bytes;
  return sum;
}

} // namespace polyrank::runtime
