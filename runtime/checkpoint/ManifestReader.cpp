// Reads manifests, whose text is untrusted.

#include "runtime/checkpoint/Checksum.h"
#include "runtime/checkpoint/Manifest.h"
#include "support/File.h"
#include "support/Json.h"
#include "support/JsonBudget.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace polyrank::runtime {
namespace {

using Json = nlohmann::json;

constexpr uint64_t textLimit = uint64_t(1) << 30;
constexpr size_t rankLimit = 32;
constexpr std::string_view head = "{\"digest\":\"",
                           middle = "\",\"manifest\":", tail = "}\n";
constexpr size_t digestDigits = 32;

/// Thrown only within this file: a manifest can be wrong in many places.
struct Wrong {
  std::string what;
  Error::Cause cause = Error::Cause::Content;
};

/// Parses JSON whose objects have no duplicate keys, and whose nesting is no
/// deeper than a manifest's.
Json parse(std::string_view text) {
  constexpr int deepest = 8;
  if (Budget budget(text.size()); !takeJson(budget, text))
    throw Wrong{budget.describe()};
  UniqueKeys keys;
  Json document = Json::parse(text.begin(), text.end(), std::ref(keys), false);
  if (keys.deepest > deepest)
    throw Wrong{"it is nested too deeply"};
  if (!keys.second.empty())
    throw Wrong{"the key '" + keys.second + "' stands twice"};
  if (document.is_discarded())
    throw Wrong{"it is not JSON"};
  return document;
}

/// The fields of an object, each of which must be read.
class Fields {
public:
  Fields(const Json &object, std::string where)
      : object(object), where(std::move(where)) {
    if (!object.is_object())
      throw Wrong{this->where + " is no object"};
  }

  const Json &get(const char *key) {
    auto found = object.find(key);
    if (found == object.end())
      throw Wrong{where + " has no '" + key + "'"};
    ++asked;
    return *found;
  }
  uint64_t number(const char *key) {
    const Json &value = get(key);
    if (!value.is_number_unsigned())
      throw Wrong{where + ": '" + key + "' is no whole number from 0"};
    return value.get<uint64_t>();
  }
  int64_t integer(const char *key) {
    const Json &value = get(key);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() &&
         value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())))
      throw Wrong{where + ": '" + key + "' is no integer"};
    return value.get<int64_t>();
  }
  std::string text(const char *key) {
    const Json &value = get(key);
    if (!value.is_string())
      throw Wrong{where + ": '" + key + "' is no text"};
    return value.get<std::string>();
  }
  const Json &array(const char *key) {
    const Json &value = get(key);
    if (!value.is_array())
      throw Wrong{where + ": '" + key + "' is no array"};
    return value;
  }
  std::vector<int64_t> extents(const char *key) {
    std::vector<int64_t> extents;
    for (const Json &value : array(key)) {
      if (!value.is_number_unsigned() ||
          value.get<uint64_t>() >
              uint64_t(std::numeric_limits<int64_t>::max()) ||
          extents.size() == rankLimit)
        throw Wrong{where + ": '" + key + "' is no list of up to 32 sizes"};
      extents.push_back(value.get<int64_t>());
    }
    return extents;
  }
  /// Fails if a field was not read: its key is unknown.
  void close() const {
    if (asked != object.size())
      throw Wrong{where + " has an unknown key"};
  }

private:
  const Json &object;
  std::string where;
  size_t asked = 0;
};

ManifestChunk chunkFrom(const Json &json, const std::string &tensor,
                        uint64_t elementBytes) {
  Fields fields(json, "a chunk of '" + tensor + "'");
  ManifestChunk chunk;
  uint64_t file = fields.number("file");
  if (file > std::numeric_limits<uint32_t>::max())
    throw Wrong{"a chunk of '" + tensor + "' is in file number " +
                std::to_string(file)};
  chunk.file = static_cast<uint32_t>(file);
  chunk.key = fields.text("key");
  chunk.box = {fields.extents("offsets"), fields.extents("sizes")};
  uint64_t bytes = elementBytes;
  for (int64_t size : chunk.box.sizes)
    if (__builtin_mul_overflow(bytes, uint64_t(size), &bytes))
      throw Wrong{"chunk '" + chunk.key + "' is too large"};
  const Json &checksums = fields.array("xxh3");
  if (checksums.size() != checksumBlocksOf(bytes))
    throw Wrong{"chunk '" + chunk.key + "' of " + std::to_string(bytes) +
                " bytes has " + std::to_string(checksums.size()) +
                " checksums instead of " +
                std::to_string(checksumBlocksOf(bytes))};
  for (const Json &value : checksums) {
    auto checksum = value.is_string()
                        ? checksumFromHex(value.get<std::string>())
                        : std::nullopt;
    if (!checksum)
      throw Wrong{"chunk '" + chunk.key + "' has a checksum that is none"};
    chunk.checksums.push_back(*checksum);
  }
  fields.close();
  return chunk;
}

ManifestTensor tensorFrom(const Json &json) {
  Fields fields(json, "a tensor");
  ManifestTensor tensor;
  tensor.name = fields.text("name");
  std::string role = fields.text("role");
  bool known = false;
  for (TensorRole each :
       {TensorRole::Parameter, TensorRole::Buffer, TensorRole::State})
    if (role == nameOf(each))
      tensor.role = each, known = true;
  if (!known)
    throw Wrong{"tensor '" + tensor.name + "' has the unknown role '" + role +
                "'"};
  if (tensor.role == TensorRole::State) {
    tensor.parameter = fields.text("parameter");
    tensor.suffix = fields.text("suffix");
  }
  std::string dtype = fields.text("dtype");
  std::optional<ElementType> type =
      findElementType(&ElementTypeRow::name, dtype);
  if (!type || !isInPrograms(*type))
    throw Wrong{"tensor '" + tensor.name + "' has the unknown dtype '" + dtype +
                "'"};
  tensor.dtype = *type;
  tensor.shape = fields.extents("shape");
  for (const Json &chunk : fields.array("chunks"))
    tensor.chunks.push_back(
        chunkFrom(chunk, tensor.name, uint64_t(bytesOf(tensor.dtype))));
  fields.close();
  return tensor;
}

ManifestData dataFrom(const Json &json) {
  Fields fields(json, "'data'");
  ManifestData data;
  data.description = fields.text("description");
  data.fingerprint = fields.text("fingerprint");
  data.order = fields.text("order");
  data.samples = fields.number("samples");
  data.samplesPerStep = fields.number("samples_per_step");
  data.origin = fields.number("origin");
  fields.close();
  return data;
}

ManifestEvaluation evaluationFrom(const Json &json) {
  Fields fields(json, "'evaluation'");
  ManifestEvaluation evaluation;
  evaluation.step = fields.number("step");
  evaluation.bestStep = fields.number("best_step");
  evaluation.without = fields.number("without");
  const Json &loss = fields.get("best_loss");
  if (!loss.is_number() && !loss.is_null())
    throw Wrong{"'evaluation': 'best_loss' is no number"};
  if (loss.is_number())
    evaluation.bestLoss = loss.get<double>();
  fields.close();
  return evaluation;
}

Manifest manifestFrom(const Json &json) {
  Fields fields(json, "the manifest");
  if (fields.text("format") != "polyrank checkpoint")
    throw Wrong{"it is of another format"};
  uint64_t version = fields.number("version");
  if (version < 1 || version > checkpointVersion)
    throw Wrong{"it has version " + std::to_string(version) +
                    ", and this program reads versions 1 to " +
                    std::to_string(checkpointVersion) +
                    (version > checkpointVersion
                         ? ": go on from it with the newer program that wrote "
                           "it, or from an older one with --resume "
                           "DIR/step-NUMBER"
                         : ""),
                version > checkpointVersion ? Error::Cause::Version
                                            : Error::Cause::Content};
  Manifest manifest;
  manifest.step = fields.number("step");
  manifest.seed = fields.integer("seed");
  manifest.program = fields.text("program");
  manifest.model = fields.text("model");
  manifest.planHash = fields.text("plan");
  manifest.mesh = fields.text("mesh");
  manifest.data = dataFrom(fields.get("data"));
  if (manifest.data.origin > manifest.step)
    throw Wrong{"its data begin after its step"};
  const Json &metrics = fields.get("metrics");
  if (!metrics.is_object())
    throw Wrong{"'metrics' is no object"};
  for (auto &[name, value] : metrics.items()) {
    if (!value.is_number() && !value.is_null())
      throw Wrong{"metric '" + name + "' is no number"};
    manifest.metrics.emplace_back(
        name, value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                              : value.get<double>());
  }
  if (version > 1) {
    manifest.evaluation = evaluationFrom(fields.get("evaluation"));
    if (manifest.evaluation->step > manifest.step ||
        manifest.evaluation->bestStep > manifest.evaluation->step)
      throw Wrong{"'evaluation' is of a later step"};
  }
  if (fields.number("checksum_block") != checksumBlock)
    throw Wrong{"its checksums are of blocks of another size"};
  for (const Json &each : fields.array("files")) {
    Fields file(each, "a file");
    manifest.files.push_back({file.text("name"), file.number("bytes")});
    file.close();
  }
  for (const Json &tensor : fields.array("tensors"))
    manifest.tensors.push_back(tensorFrom(tensor));
  fields.close();
  return manifest;
}

} // namespace

Result<Manifest> manifestFromText(const std::string &path,
                                  const std::string &text) {
  auto wrong = [&](const std::string &what) {
    return Error{path + ": " + what};
  };
  std::string_view all = text;
  size_t before = head.size() + digestDigits + middle.size();
  if (!all.starts_with(head) || all.size() < before + tail.size() ||
      all.substr(head.size() + digestDigits, middle.size()) != middle ||
      !all.ends_with(tail))
    return wrong("not a checkpoint's manifest, or cut off");
  std::string_view body = all.substr(before, all.size() - before - tail.size());
  if (all.substr(head.size(), digestDigits) != digestOf(body))
    return wrong("the digest differs: the manifest is damaged");
  try {
    Manifest manifest = manifestFrom(parse(body));
    if (Result<void> checked = checkManifest(manifest); !checked)
      return wrong(checked.error().message);
    return manifest;
  } catch (const Wrong &problem) {
    return Error{path + ": " + problem.what, Error::Fault::Input,
                 problem.cause};
  }
}

Result<Manifest> readManifest(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  if (file.size() > textLimit)
    return Error{path + ": has " + std::to_string(file.size()) +
                 " bytes, more than any manifest"};
  std::string text(file.size(), '\0');
  if (Result<void> read = file.readAt(0, text.data(), text.size()); !read)
    return read.error();
  return manifestFromText(path, text);
}

} // namespace polyrank::runtime
