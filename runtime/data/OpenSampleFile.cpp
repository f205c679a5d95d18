// Detects the format of a data file, and checks that it has what the inputs
// need.

#include "runtime/data/MegatronIndex.h"
#include "runtime/data/OtherFormats.h"
#include "runtime/data/SampleFile.h"
#include "runtime/data/TokenTypes.h"

#include "support/FileFormat.h"
#include "support/ModelDims.h"
#include "support/Names.h"
#include "support/arrays/Npy.h"
#include "support/arrays/Npz.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

constexpr const char *positionsName = "position_ids";
constexpr const char *maskName = "attention_mask";

Result<StoredArray> openTokenFile(const std::string &path,
                                  const std::string &tokenType) {
  if (suffixOf(path) == ".npy" && tokenType.empty()) {
    POLYRANK_ASSIGN(array, openNpy(path));
    if (array.shape().size() != 1 || !isInteger(array.type()))
      return Error{path + ": an array " + shapeText(array.shape()) + " of " +
                   longNameOf(array.type()) +
                   "; a .npy file of tokens has one dim of integers. For "
                   "other inputs, save a .npz set"};
    return std::move(array);
  }
  POLYRANK_ASSIGN(type, tokenTypeOf(path, tokenType));
  POLYRANK_ASSIGN(array, openRawArray(path, type));
  // llm.c's token files begin with 256 32-bit words of header.
  constexpr uint32_t llmcMagic = 20240520;
  uint32_t first = 0;
  if (type != ElementType::U8 && array.elements() * bytesOf(type) >= 4) {
    int64_t count = 4 / bytesOf(type);
    if (auto done = array.read(0, count, reinterpret_cast<std::byte *>(&first));
        !done)
      return done.error();
    if (first == llmcMagic)
      return Error{path + ": begins with llm.c's header; cut off its "
                          "first 1024 bytes"};
  }
  return std::move(array);
}

/// Fails if the file is neither tokens nor arrays.
Result<void> refuseForeign(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  std::string start(std::min<uint64_t>(file.size(), formatBytes), '\0');
  if (auto done = file.readAt(0, start.data(), start.size()); !done)
    return done;
  std::string format = foreignFormat(start, WantedFile::Data);
  if (format.empty())
    return {};
  std::string suffix = suffixOf(path);
  bool isSet = suffix == ".npz" || suffix == ".npy";
  return Error{path + ": " + format +
               (isSet ? ""
                      : "; if these are tokens all the same, give their "
                        "--token-type")};
}

Error cannotConvert(const std::string &where, ElementType from,
                    const InputSpec &spec) {
  return {where + ": holds " + longNameOf(from) + ", but input '" + spec.name +
          "' takes " + nameOf(spec.dtype)};
}

/// Returns the index of a Megatron pair that is given by any of its names, or
/// nothing.
Result<std::string> indexOf(const std::string &path) {
  std::string suffix = suffixOf(path), index = path;
  if (suffix == ".bin")
    index.resize(path.size() - 4);
  if (suffix != ".idx")
    index += ".idx";
  bool isPrefix =
      suffix != ".idx" && suffix != ".bin" && access(path.c_str(), F_OK) != 0;
  if (suffix == ".idx" || suffix == ".bin" || isPrefix) {
    POLYRANK_ASSIGN(is, isMegatronIndex(index));
    if (is)
      return index;
  }
  return suffix == ".idx" ? path : "";
}

/// Returns the least bound on token ids: the size of an embedding table or a
/// number of classes; 0 if none is known.
int64_t vocabularyOf(std::span<const InputSpec> inputs) {
  int64_t limit = 0;
  for (const InputSpec &spec : inputs)
    if (spec.name != positionsName && spec.range.limit > 0)
      limit = limit == 0 ? spec.range.limit : std::min(limit, spec.range.limit);
  return limit;
}

/// Returns true if the input allows labels that are ignored.
bool canIgnore(const InputSpec &spec) {
  return spec.range.ignore != std::numeric_limits<int64_t>::min();
}

/// The input that a model which computes its loss itself calls so, as
/// transformers' models do.
constexpr const char *labelsName = "labels";

/// Labels that a model's own loss ignores have -100 in PyTorch. A plan knows
/// the range of an input only if it is used as an index.
InputSpec asLabels(InputSpec spec) {
  constexpr int64_t ignored = -100;
  if (!spec.labels && !canIgnore(spec) && spec.range.limit == 0)
    spec.range.ignore = ignored;
  return spec;
}

} // namespace

std::string markFileOf(const std::string &tokens) {
  return tokens.substr(0, tokens.size() - suffixOf(tokens).size()) + ".mask";
}

Result<SampleFile> SampleFile::open(const std::string &path,
                                    const std::string &tokenType,
                                    const DocumentOptions &documents,
                                    std::span<const InputSpec> inputs) {
  // If the user states the type, any bytes may be tokens.
  if (tokenType.empty()) {
    POLYRANK_ASSIGN(index, indexOf(path));
    if (!index.empty())
      return openPair(index, documents, inputs);
    if (Result<void> other = refuseOtherFormat(path); !other)
      return other.error();
    if (Result<void> known = refuseForeign(path); !known)
      return known.error();
    if (suffixOf(path) == ".npz") {
      if (documents.isAny())
        return Error{path + ": rules about documents and labels (--documents, "
                            "--eos, --mask-eos, --reset-position-ids, "
                            "--pad-token, --labels, --mask-prompts) are for "
                            "files of tokens; a .npz set has its rows and "
                            "labels as they are"};
      return openSet(path, inputs);
    }
  }
  POLYRANK_ASSIGN(tokens, openTokenFile(path, tokenType));
  bool isRaw = !tokenType.empty() || suffixOf(path) != ".npy";
  if (isRaw && tokenType.empty())
    if (Result<void> checked = refuseWiderTokens(tokens, vocabularyOf(inputs));
        !checked)
      return checked.error();
  POLYRANK_ASSIGN(file, openTokens(std::move(tokens), {}, documents, inputs));
  file.isRaw = isRaw;
  return std::move(file);
}

Result<SampleFile> SampleFile::openPair(const std::string &index,
                                        const DocumentOptions &documents,
                                        std::span<const InputSpec> inputs) {
  std::string path = index.substr(0, index.size() - 4) + ".bin";
  POLYRANK_ASSIGN(indexFile, InputFile::open(index));
  Result<InputFile> data = InputFile::open(path);
  if (!data)
    return data.error().saying(
        index + ": its tokens are not beside it: " + data.error().message);
  POLYRANK_ASSIGN(read, readMegatronIndex(indexFile, data->size()));
  StoredArray tokens(path, read.type, {int64_t(read.tokens)},
                     std::make_shared<InputFile>(*std::move(data)), 0);
  if (!documents.needsDocuments())
    read.documentEnds.clear();
  POLYRANK_ASSIGN(identity, indexFile.identity());
  POLYRANK_ASSIGN(pair,
                  openTokens(std::move(tokens), std::move(read.documentEnds),
                             documents, inputs));
  pair.besideIdentity += identity;
  return std::move(pair);
}

Result<SampleFile> SampleFile::openTokens(StoredArray tokens,
                                          std::vector<uint64_t> documentEnds,
                                          const DocumentOptions &documents,
                                          std::span<const InputSpec> inputs) {
  SampleFile file;
  file.name = tokens.path();
  file.isTokens = true;
  file.documents = documents;
  file.arrays.push_back(std::move(tokens));
  if (documents.maskPrompts)
    if (Result<void> opened = file.openMarks(); !opened)
      return opened.error();
  if (Result<void> added = file.addTokenColumns(inputs); !added)
    return added.error();
  if (Result<void> cut = file.cutRows(std::move(documentEnds)); !cut)
    return cut.error();
  return std::move(file);
}

Result<void> SampleFile::openMarks() {
  std::string path = markFileOf(name);
  Result<StoredArray> marks = openRawArray(path, ElementType::U8);
  if (!marks)
    return marks.error().saying(
        marks.error().message +
        "; --mask-prompts needs it beside the tokens: one byte for each token, "
        "1 if it is learned, 0 if not");
  if (marks->elements() != arrays[0].elements())
    return Error{path + ": has " + std::to_string(marks->elements()) +
                 " bytes, but '" + name + "' has " +
                 std::to_string(arrays[0].elements()) +
                 " tokens, each of which needs a mark of one byte"};
  POLYRANK_ASSIGN(identity, marks->source().identity());
  besideIdentity += identity;
  arrays.push_back(*std::move(marks));
  return {};
}

Result<void> SampleFile::addTokenColumns(std::span<const InputSpec> inputs) {
  const InputSpec *seen[5] = {};
  for (const InputSpec &given : inputs) {
    bool isLabels =
        given.labels || (documents.labels && given.name == labelsName);
    InputSpec spec = isLabels ? asLabels(given) : given;
    Kind kind = isLabels                     ? Kind::Labels
                : spec.name == positionsName ? Kind::Positions
                : spec.name == maskName      ? Kind::Mask
                                             : Kind::Tokens;
    // Several inputs of one kind are ambiguous.
    const InputSpec *&other = seen[int(kind)];
    bool isMask = kind == Kind::Mask && spec.dtype == ElementType::BOOL,
         isSameInAll = kind == Kind::Positions || kind == Kind::Mask;
    int64_t length = spec.rowElements();
    if (other ||
        (spec.rowShape.size() != 1 && (spec.hasBatch() || !isSameInAll)) ||
        !(isInteger(spec.dtype) || isMask))
      return Error{
          name +
          ": a token file feeds one integer input of [batch, "
          "length] and its labels, but '" +
          spec.name + "' is " + nameOf(spec.dtype) + " with rows of " +
          shapeText(spec.rowShape) +
          (other ? " beside '" + other->name + "'" : "") + "; " +
          (other && (spec.name == labelsName || other->name == labelsName)
               ? "if 'labels' are the tokens' labels, say which: "
                 "--labels same, where the model shifts them itself, "
                 "as those of transformers do, or --labels next; else "
               : "") +
          "give a .npz set with one array per input"};
    other = &given;
    if (!spec.hasBatch() &&
        (!isSameInAll || documents.rule != DocumentRule::Stream ||
         documents.resetPositions))
      return Error{name + ": input '" + spec.name +
                   "' has no batch: all samples take the same, but rows of " +
                   (isSameInAll ? "documents" : "tokens") +
                   " differ; export the model with one row for each sample, or "
                   "give a .npz set with one array per input"};
    if (length != inputs[0].rowElements() || length < 1)
      return Error{name + ": inputs '" + inputs[0].name + "' and '" +
                   spec.name + "' have rows of different lengths, " +
                   std::to_string(inputs[0].rowElements()) + " and " +
                   std::to_string(length)};
    if ((kind == Kind::Tokens || kind == Kind::Labels) &&
        !canConvert(arrays[0].type(), spec.dtype))
      return cannotConvert(name, arrays[0].type(), spec);
    columns.push_back({spec, kind, 0});
    if (isLabels &&
        (documents.rule != DocumentRule::Stream || documents.maskLabels ||
         documents.maskPrompts) &&
        !canIgnore(spec))
      return Error{name + ": " +
                   (documents.rule != DocumentRule::Stream
                        ? "rows of documents are filled up with labels"
                    : documents.maskLabels ? "--mask-eos needs labels"
                                           : "--mask-prompts needs labels") +
                   " that do not count, and the plan's '" + spec.name +
                   "' have no value for that; compile with a loss that has "
                   "ignore_index"};
  }
  if (inputs.empty())
    return Error{name + ": the plan has no inputs to feed"};
  if (documents.resetPositions && !seen[int(Kind::Positions)])
    return Error{name + ": --reset-position-ids: the plan has no input "
                        "'position_ids' to reset; export the model with one "
                        "of [batch, length]"};
  for (auto [isGiven, option] : {std::pair(documents.maskLabels, "--mask-eos"),
                                 {documents.maskPrompts, "--mask-prompts"},
                                 {documents.labels.has_value(), "--labels"}})
    if (isGiven && !seen[int(Kind::Labels)])
      return Error{name + ": " + option +
                   " is about labels, and the plan has none"};
  return {};
}

Result<void> SampleFile::cutRows(std::vector<uint64_t> ends) {
  int64_t length = columns[0].spec.rowElements();
  if (documents.needsDocuments() && ends.empty() && !documents.eos)
    return Error{name + ": nothing says where its documents end; give the "
                        "token that ends each (--eos ID), or the .idx of a "
                        "Megatron pair"};
  if (documents.rule == DocumentRule::Stream) {
    rows = TokenRows::ofStream(arrays[0].elements(), length,
                               documents.isShifted());
    documentEnds = std::move(ends);
  } else {
    if (ends.empty()) {
      POLYRANK_ASSIGN(found, findDocuments());
      ends = std::move(found);
    }
    bool haveLabels = std::any_of(columns.begin(), columns.end(),
                                  [](const Column &column) {
                                    return column.kind == Kind::Labels;
                                  }) &&
                      documents.isShifted();
    rows = TokenRows::ofDocuments(ends, documents.rule, length, haveLabels);
  }
  numSamples = rows.size();
  return {};
}

Result<std::vector<uint64_t>> SampleFile::findDocuments() const {
  std::vector<uint64_t> ends;
  std::vector<int64_t> found;
  int64_t tokens = arrays[0].elements();
  constexpr int64_t block = 1 << 18;
  for (int64_t begin = 0; begin < tokens; begin += block) {
    found.clear();
    TokenRows::Piece piece{uint64_t(begin), std::min(block, tokens - begin)};
    if (Result<void> done = findEnds(piece, found); !done)
      return done.error();
    for (int64_t at : found)
      ends.push_back(begin + at + 1);
  }
  if (tokens > 0 && (ends.empty() || ends.back() != uint64_t(tokens)))
    ends.push_back(tokens);
  return std::move(ends);
}

Result<SampleFile> SampleFile::openSet(const std::string &path,
                                       std::span<const InputSpec> inputs) {
  SampleFile file;
  file.name = path;
  POLYRANK_ASSIGN(arrays, openNpz(path));
  auto find = [&](const std::string &name) {
    return std::find_if(arrays.begin(), arrays.end(),
                        [&](auto &array) { return array.name() == name; });
  };
  auto numLabels =
      std::count_if(inputs.begin(), inputs.end(),
                    [](const InputSpec &spec) { return spec.labels; });
  std::optional<size_t> counted; // the first array with a dim of samples
  for (const InputSpec &spec : inputs) {
    auto found = find(spec.name);
    if (found == arrays.end() && spec.labels && numLabels == 1)
      found = find("labels");
    if (found == arrays.end()) {
      std::string text;
      std::vector<std::string> names;
      for (const StoredArray &array : arrays) {
        names.push_back(array.name());
        text += (text.empty() ? "" : ", ") + array.name();
      }
      return Error{path + ": has no array '" + spec.name +
                   "' for the input of that name; it has: " +
                   (text.empty() ? "none" : text) +
                   nearestWords(spec.name, names)};
    }
    const std::vector<int64_t> &shape = found->shape();
    if (!spec.takes(shape)) {
      std::string takes =
          !spec.hasBatch()
              ? "' has no batch: all samples take the same " +
                    shapeText(spec.rowShape) + ", which the file has once"
          : spec.batchDim == 0
              ? "' takes samples of " + shapeText(spec.rowShape) +
                    " after a leading dim of samples"
              : "' has the batch in dim " + std::to_string(spec.batchDim) +
                    ": it takes an array of " +
                    samplesText(spec.rowShape, spec.batchDim);
      return Error{path + ": array '" + found->name() + "' has shape " +
                   shapeText(shape) + ", but input '" + spec.name + takes};
    }
    if (!canConvert(found->type(), spec.dtype))
      return cannotConvert(path + ", array '" + found->name() + "'",
                           found->type(), spec);
    size_t array = found - arrays.begin();
    file.columns.push_back({spec, Kind::Values, array});
    if (!spec.hasBatch())
      continue;
    uint64_t samples = shape[spec.batchDim];
    if (counted && samples != file.numSamples)
      return Error{path + ": array '" + found->name() + "' has " +
                   std::to_string(samples) + " samples, but '" +
                   arrays[*counted].name() + "' has " +
                   std::to_string(file.numSamples)};
    file.numSamples = samples;
    counted = counted.value_or(array);
  }
  if (!counted)
    file.numSamples = 1;
  if (inputs.empty())
    return Error{path + ": the plan has no inputs to feed"};
  file.arrays = std::move(arrays);
  return std::move(file);
}

} // namespace polyrank::runtime
