// Reads and writes indices, and checks them against their files.

#include "runtime/checkpoint/SafetensorsSet.h"

#include "runtime/checkpoint/Checksum.h"
#include "support/Json.h"
#include "support/JsonBudget.h"

#include <fmt/format.h>
#include <functional>
#include <regex>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

using nlohmann::json;
constexpr uint64_t indexLimit = 100'000'000; // as for a safetensors header

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

/// Parses the JSON of an index, and rejects duplicate keys: a tree of values
/// would silently keep the last one.
Result<json> parseIndex(const std::string &path, const std::string &text) {
  if (Budget budget(text.size()); !takeJson(budget, text))
    return Error{path + ": " + budget.describe()};
  UniqueKeys keys;
  json index = json::parse(text, std::ref(keys), /*allow_exceptions=*/false);
  if (index.is_discarded())
    return Error{path + ": is not JSON, as an index of safetensors is"};
  if (!keys.second.empty())
    return Error{fmt::format("{}: has '{}' twice", path, keys.second)};
  return index;
}

/// Returns the map tensor -> file of an index.
Result<std::map<std::string, std::string>> weightMap(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  if (file.size() > indexLimit)
    return Error{fmt::format("{}: has {} bytes, and an index of safetensors at "
                             "most {}",
                             path, file.size(), indexLimit)};
  std::string text(file.size(), '\0');
  if (Result<void> read = file.readAt(0, text.data(), text.size()); !read)
    return read.error();
  POLYRANK_ASSIGN(index, parseIndex(path, text));
  if (!index.is_object() || !index.contains("weight_map") ||
      !index["weight_map"].is_object())
    return Error{path + ": has no object 'weight_map', as an index of "
                        "safetensors has"};
  std::map<std::string, std::string> map;
  for (auto &[tensor, file] : index["weight_map"].items()) {
    if (!file.is_string())
      return Error{fmt::format("{}: says of tensor '{}' not by a name in which "
                               "file it is",
                               path, tensor)};
    std::string name = file.get<std::string>();
    // An index is untrusted: it must not name files outside its folder.
    if (name.empty() || name == "." || name == ".." ||
        name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
      return Error{fmt::format("{}: tensor '{}' is to be in '{}', which is not "
                               "the name of a file beside the index",
                               path, tensor, name)};
    map.emplace(tensor, std::move(name));
  }
  if (map.empty())
    return Error{path + ": names no tensors"};
  return map;
}

} // namespace

std::string shardName(size_t number, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number, count);
}

bool isShardName(std::string_view name) {
  static const std::regex pattern("model-\\d{5,}-of-\\d{5,}\\.safetensors");
  return std::regex_match(name.begin(), name.end(), pattern);
}

std::string indexText(
    const std::vector<std::pair<std::string, std::vector<std::string>>> &files,
    uint64_t totalBytes) {
  json index{{"metadata", {{"total_size", totalBytes}}},
             {"weight_map", json::object()}};
  for (auto &[file, tensors] : files)
    for (const std::string &tensor : tensors)
      index["weight_map"][tensor] = file;
  return index.dump(2) + "\n";
}

const SafetensorsSet::Tensor *
SafetensorsSet::find(std::string_view name) const {
  auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

Result<std::string> SafetensorsSet::identity() const {
  std::string text;
  for (const std::unique_ptr<SafetensorsFile> &file : files) {
    POLYRANK_ASSIGN(each, file->identity());
    text += each;
  }
  return digestOf(text);
}

Result<void> SafetensorsSet::add(const std::string &path) {
  POLYRANK_ASSIGN(file, SafetensorsFile::open(path));
  files.push_back(std::make_unique<SafetensorsFile>(std::move(file)));
  opened.insert(path);
  for (const StoredTensorSpan &span : files.back()->tensors())
    all.emplace(span.name, Tensor{&span, files.back().get()});
  return {};
}

Result<void> SafetensorsSet::openIndex(const std::string &path) {
  POLYRANK_ASSIGN(map, weightMap(path));
  std::string folder = path.substr(0, path.rfind('/') + 1);
  std::set<std::string> names;
  for (auto &[tensor, name] : map)
    names.insert(name);
  for (const std::string &name : names) {
    if (Result<void> added = add(folder + name); !added)
      return added.error().saying(
          fmt::format("{} (which '{}' names)", added.error().message, path));
    for (const StoredTensorSpan &span : files.back()->tensors()) {
      auto mapped = map.find(span.name);
      if (mapped == map.end())
        return Error{fmt::format("{}{}: has tensor '{}', of which '{}' says "
                                 "nothing",
                                 folder, name, span.name, path)};
      if (mapped->second != name)
        return Error{fmt::format("{}{}: has tensor '{}', which by '{}' is in "
                                 "'{}'",
                                 folder, name, span.name, path,
                                 mapped->second)};
    }
  }
  for (auto &[tensor, name] : map)
    if (!all.contains(tensor))
      return Error{fmt::format("{}: says that tensor '{}' is in '{}', which "
                               "does not have it",
                               path, tensor, name)};
  opened.insert(path);
  return {};
}

Result<SafetensorsSet> SafetensorsSet::open(const std::string &path) {
  SafetensorsSet set;
  std::string chosen = path;
  if (isFolder(path)) {
    std::string folder = path.ends_with('/') ? path : path + "/",
                whole = folder + wholeName, index = folder + indexName;
    bool hasWhole = exists(whole), hasIndex = exists(index);
    if (hasWhole && hasIndex)
      return Error{fmt::format("{}: has both {} and {}, which are two sets of "
                               "weights: give the path of the one that is "
                               "meant",
                               path, wholeName, indexName)};
    if (!hasWhole && !hasIndex)
      return Error{fmt::format(
          "{}: has neither {} nor {}, as which transformers' save_pretrained "
          "and --save FOLDER/ save weights in a folder{}",
          path, wholeName, indexName,
          exists(folder + "manifest.json")
              ? "; it is a checkpoint of polyrank-run, from which --resume "
                "goes "
                "on"
          : exists(folder + "pytorch_model.bin") ||
                  exists(folder + "pytorch_model.bin.index.json")
              ? "; pytorch_model.bin is PyTorch's pickle, which is not read: "
                "load it with from_pretrained, and save it again"
              : "")};
    chosen = hasWhole ? whole : index;
  }
  Result<void> done =
      chosen.ends_with(".json") ? set.openIndex(chosen) : set.add(chosen);
  if (!done)
    return done.error();
  return set;
}

} // namespace polyrank::runtime
