// Token files and npz sets as samples.

#include "runtime/data/DataSource.h"

#include "support/FileFormat.h"
#include "support/Names.h"
#include "support/arrays/Npy.h"
#include "support/arrays/Npz.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace polyrank::runtime {
namespace {

std::string shapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d == 0 ? "" : ",") + std::to_string(shape[d]);
  return text + "]";
}

/// The last suffix of a path, lower case, with its dot.
std::string suffixOf(const std::string &path) {
  size_t slash = path.rfind('/'), dot = path.rfind('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
    return "";
  std::string suffix = path.substr(dot);
  for (char &c : suffix)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  return suffix;
}

Result<ValueType> tokenTypeOf(const DataOptions &options) {
  std::string name = options.tokenType, suffix = suffixOf(options.path);
  if (name.empty()) {
    if (suffix == ".bin" || suffix == ".u16")
      name = "uint16";
    else if (suffix == ".u32")
      name = "uint32";
    else if (suffix == ".txt" || suffix == ".u8")
      name = "uint8";
    else
      return Error{options.path + ": the name does not say what it holds; name "
                                  "it .txt (bytes), .bin (uint16 tokens), "
                                  ".u32, .npy or .npz, or give the type of its "
                                  "tokens: uint8, uint16 or uint32"};
  }
  auto type = valueTypeNamed(name);
  if (type != ValueType::U8 && type != ValueType::U16 && type != ValueType::U32)
    return Error{"tokens of type '" + name +
                 "' are not read; use uint8, uint16 or uint32"};
  return *type;
}

Result<StoredArray> openTokenFile(const DataOptions &options) {
  if (suffixOf(options.path) == ".npy" && options.tokenType.empty()) {
    POLYRANK_ASSIGN(array, openNpy(options.path));
    if (array.shape().size() != 1 || !isInteger(array.type()))
      return Error{options.path + ": an array " + shapeText(array.shape()) +
                   " of " + nameOf(array.type()) +
                   "; a .npy file of tokens has one dim of integers. For "
                   "other inputs, save a .npz set"};
    return std::move(array);
  }
  POLYRANK_ASSIGN(type, tokenTypeOf(options));
  POLYRANK_ASSIGN(array, openRawArray(options.path, type));
  // llm.c's token files begin with 256 32-bit words of header.
  constexpr uint32_t llmcMagic = 20240520;
  uint32_t first = 0;
  if (type != ValueType::U8 && array.elements() * bytesOf(type) >= 4) {
    int64_t count = 4 / bytesOf(type);
    if (auto done = array.read(0, count, reinterpret_cast<std::byte *>(&first));
        !done)
      return done.error();
    if (first == llmcMagic)
      return Error{options.path + ": begins with llm.c's header; cut off its "
                                  "first 1024 bytes"};
  }
  return std::move(array);
}

/// What does not count beside the classes, and how another value would not.
std::string describeIgnored(const InputSpec &spec, const std::string &value) {
  int64_t ignore = spec.range.ignore;
  if (ignore >= 0 || ignore == std::numeric_limits<int64_t>::min())
    return "";
  std::string text =
      ", or " + std::to_string(ignore) + " for what does not count";
  if (spec.labels && value.starts_with("-"))
    text += "; where that is " + value +
            ", compile with --loss 'cross_entropy(OUTPUT," + spec.name +
            ",ignore_index=" + value + ")'";
  return text;
}

/// A file that is neither tokens nor arrays.
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

/// Whether labels that count, of which there are any, are the inputs.
bool isEqualWhereCounted(const InputSpec &spec,
                         const std::vector<int64_t> &labels,
                         const std::vector<int64_t> &inputs) {
  bool counts = false;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == spec.range.ignore)
      continue;
    if (labels[i] != inputs[i])
      return false;
    counts = true;
  }
  return counts;
}

Error cannotConvert(const std::string &where, ValueType from,
                    const InputSpec &spec) {
  return {where + ": holds " + nameOf(from) + ", but input '" + spec.name +
          "' takes " + nameOf(spec.dtype)};
}

} // namespace

int64_t InputSpec::rowElements() const {
  int64_t product = 1;
  for (int64_t extent : rowShape)
    product *= extent;
  return product;
}

Result<DataSource> DataSource::open(const DataOptions &options,
                                    std::span<const InputSpec> inputs) {
  // Any bytes may be tokens of a type that the user names.
  if (options.tokenType.empty())
    if (Result<void> known = refuseForeign(options.path); !known)
      return known.error();
  auto opened = [&]() -> Result<DataSource> {
    if (suffixOf(options.path) == ".npz" && options.tokenType.empty())
      return openSet(options.path, inputs);
    POLYRANK_ASSIGN(tokens, openTokenFile(options));
    return openTokens(std::move(tokens), inputs);
  }();
  if (!opened)
    return opened;
  opened->options = options;
  if (auto reserved = opened->reserveHoldout(); !reserved)
    return reserved.error();
  return opened;
}

Result<DataSource> DataSource::openTokens(StoredArray tokens,
                                          std::span<const InputSpec> inputs) {
  DataSource source;
  const std::string &path = tokens.path();
  const InputSpec *first = nullptr, *labels = nullptr;
  for (const InputSpec &spec : inputs) {
    // More than one input of a kind: which of them is the text?
    const InputSpec *&seen = spec.labels ? labels : first;
    if (seen || spec.rowShape.size() != 1 || !isInteger(spec.dtype))
      return Error{path +
                   ": a token file feeds one integer input of [batch, "
                   "length] and its labels, but '" +
                   spec.name + "' is " + nameOf(spec.dtype) + " with rows of " +
                   shapeText(spec.rowShape) +
                   (seen ? " beside '" + seen->name + "'" : "") +
                   "; give a .npz set with one array per input"};
    seen = &spec;
    if (spec.rowShape[0] != inputs[0].rowShape[0] || spec.rowShape[0] < 1)
      return Error{path + ": inputs '" + inputs[0].name + "' and '" +
                   spec.name + "' have rows of different lengths, " +
                   std::to_string(inputs[0].rowShape[0]) + " and " +
                   std::to_string(spec.rowShape[0])};
    if (!canConvert(tokens.type(), spec.dtype))
      return cannotConvert(path, tokens.type(), spec);
    source.columns.push_back({spec, 0, spec.rowShape[0], spec.labels ? 1 : 0});
  }
  if (inputs.empty())
    return Error{path + ": the plan has no inputs to feed"};
  int64_t length = inputs[0].rowShape[0];
  int64_t samples = std::max<int64_t>(0, (tokens.elements() - 1) / length);
  source.totalSamples = samples;
  source.arrays.push_back(std::move(tokens));
  return std::move(source);
}

Result<DataSource> DataSource::openSet(const std::string &path,
                                       std::span<const InputSpec> inputs) {
  DataSource source;
  POLYRANK_ASSIGN(arrays, openNpz(path));
  auto find = [&](const std::string &name) {
    return std::find_if(arrays.begin(), arrays.end(),
                        [&](auto &array) { return array.name() == name; });
  };
  auto numLabels =
      std::count_if(inputs.begin(), inputs.end(),
                    [](const InputSpec &spec) { return spec.labels; });
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
    if (shape.empty() ||
        !std::equal(shape.begin() + 1, shape.end(), spec.rowShape.begin(),
                    spec.rowShape.end()))
      return Error{path + ": array '" + found->name() + "' has shape " +
                   shapeText(shape) + ", but input '" + spec.name +
                   "' takes samples of " + shapeText(spec.rowShape) +
                   " after a leading dim of samples"};
    if (!canConvert(found->type(), spec.dtype))
      return cannotConvert(path + ", array '" + found->name() + "'",
                           found->type(), spec);
    uint64_t samples = shape[0];
    if (!source.columns.empty() && samples != source.totalSamples)
      return Error{path + ": array '" + found->name() + "' has " +
                   std::to_string(samples) + " samples, but '" +
                   arrays[source.columns[0].array].name() + "' has " +
                   std::to_string(source.totalSamples)};
    source.totalSamples = samples;
    source.columns.push_back(
        {spec, size_t(found - arrays.begin()), spec.rowElements(), 0});
  }
  if (inputs.empty())
    return Error{path + ": the plan has no inputs to feed"};
  source.arrays = std::move(arrays);
  return std::move(source);
}

Result<void> DataSource::reserveHoldout() {
  if (!(options.holdout >= 0 && options.holdout < 1))
    return Error{"a held-out fraction of " + std::to_string(options.holdout) +
                 " is not in [0, 1)"};
  // Rounded up, but 0.07 of 100 is 7, though the double is a little more.
  double exact = static_cast<double>(totalSamples) * options.holdout;
  double whole = std::round(exact);
  bool isWhole = std::abs(exact - whole) <=
                 exact * 2 * std::numeric_limits<double>::epsilon();
  holdoutSamples = static_cast<uint64_t>(isWhole ? whole : std::ceil(exact));
  trainSamples = totalSamples - holdoutSamples;
  for (Split split : {Split::Train, Split::Holdout}) {
    bool train = split == Split::Train;
    if ((train || options.holdout > 0) && samples(split) < options.batch)
      return Error{
          describe() + ": the " + (train ? "" : "held-out ") +
          "samples are fewer than one global batch of " +
          std::to_string(options.batch) + "; give more data" +
          (options.holdout > 0 ? " or another held-out fraction" : "")};
  }
  return {};
}

uint64_t DataSource::sampleOf(Split split, uint64_t step, int64_t row) const {
  uint64_t position = step * options.batch + row;
  return split == Split::Train
             ? sampleAt(options.order, trainSamples, options.seed, position)
             : trainSamples + position % holdoutSamples;
}

std::string DataSource::describeValue(const StoredArray &array,
                                      const std::string &value,
                                      int64_t element, uint64_t sample) {
  return array.path() +
         (array.name() == array.path() ? ""
                                       : ", array '" + array.name() + "'") +
         ": value " + value + " at element " + std::to_string(element) +
         " (sample " + std::to_string(sample) + ")";
}

std::string DataSource::findNan(Split split, uint64_t step) const {
  for (size_t input = 0; input < columns.size(); ++input) {
    const Column &column = columns[input];
    int64_t elements = column.spec.rowElements();
    std::vector<std::byte> row(column.spec.rowBytes());
    for (uint64_t b = 0; b < options.batch && !isInteger(column.spec.dtype);
         ++b) {
      // The step has read it: what cannot be read has been said.
      if (!read(split, step, input, b, b + 1, row.data()))
        break;
      int64_t found =
          polyrank::findNan(column.spec.dtype, row.data(), elements);
      uint64_t sample = sampleOf(split, step, b);
      if (found < elements)
        return describeValue(
            arrays[column.array], "nan",
            static_cast<int64_t>(sample) * column.stride + column.shift + found,
            sample);
    }
  }
  return "";
}

std::string DataSource::findUnshifted() const {
  constexpr uint64_t rows = 16; // equal by chance is another 16
  for (size_t labels = 0; labels < columns.size(); ++labels) {
    const InputSpec &spec = columns[labels].spec;
    // Of a token file they are shifted, and one number is no row of tokens.
    if (!spec.labels || spec.dtype != DType::I64 || spec.rowElements() < 2 ||
        columns[labels].shift != 0)
      continue;
    for (size_t input = 0; input < columns.size(); ++input) {
      const InputSpec &other = columns[input].spec;
      if (other.labels || other.rowShape != spec.rowShape ||
          other.dtype != spec.dtype)
        continue;
      uint64_t count = std::min({rows, trainSamples, options.batch});
      std::vector<int64_t> a(count * spec.rowElements()), b = a;
      // What cannot be read is said when a step reads it.
      if (!read(Split::Train, 0, labels, 0, count,
                std::as_writable_bytes(std::span(a)).data()) ||
          !read(Split::Train, 0, input, 0, count,
                std::as_writable_bytes(std::span(b)).data()))
        continue;
      if (isEqualWhereCounted(spec, a, b))
        return arrays[columns[labels].array].path() + ": the labels '" +
               spec.name + "' are '" + other.name +
               "' itself, so the model learns to repeat its input; for the "
               "next token, save labels that are shifted by one: labels[:, "
               ":-1] = " +
               other.name +
               "[:, 1:], labels[:, -1] = " + std::to_string(spec.range.ignore);
    }
  }
  return "";
}

Result<void> DataSource::read(Split split, uint64_t step, size_t input,
                              int64_t begin, int64_t end,
                              std::byte *into) const {
  const Column &column = columns[input];
  std::vector<std::byte> stored;
  for (int64_t b = begin; b < end; ++b) {
    if (auto done = readSample(column, sampleOf(split, step, b), stored, into);
        !done)
      return done;
    into += column.spec.rowBytes();
  }
  return {};
}

Result<void> DataSource::readSample(const Column &column, uint64_t sample,
                                    std::vector<std::byte> &stored,
                                    std::byte *into) const {
  const StoredArray &array = arrays[column.array];
  int64_t elements = column.spec.rowElements();
  stored.resize(elements * bytesOf(array.type()));
  int64_t first = static_cast<int64_t>(sample) * column.stride + column.shift;
  if (auto done = array.read(first, elements, stored.data()); !done)
    return done;
  auto bad = convertValues(array.type(), stored.data(), elements,
                           column.spec.dtype, column.spec.range, into);
  if (!bad)
    return {};
  std::string takes = nameOf(column.spec.dtype);
  if (int64_t limit = column.spec.range.limit)
    takes += " in [0, " + std::to_string(limit) + ")" +
             describeIgnored(column.spec, bad->value);
  return Error{describeValue(array, bad->value, first + bad->index, sample) +
               ", but input '" + column.spec.name + "' takes " + takes};
}

Result<void> DataSource::checkAll() const {
  std::vector<std::byte> stored, row;
  for (const Column &column : columns) {
    row.resize(column.spec.rowBytes());
    for (uint64_t sample = 0; sample < totalSamples; ++sample)
      if (auto done = readSample(column, sample, stored, row.data()); !done)
        return done;
  }
  return {};
}

uint64_t DataSource::memoryBytes() const {
  uint64_t sum = 0;
  for (const StoredArray &array : arrays)
    sum += array.memoryBytes();
  return sum;
}

std::string DataSource::describe() const {
  std::string text = arrays[0].path() + ": ";
  if (arrays[0].name() == arrays[0].path())
    text += std::to_string(arrays[0].elements()) + " " +
            nameOf(arrays[0].type()) + " tokens, " +
            std::to_string(totalSamples) + " samples of " +
            std::to_string(columns[0].stride);
  else
    text += std::to_string(totalSamples) + " samples";
  std::string unused;
  for (size_t a = 0; a < arrays.size(); ++a)
    if (std::none_of(columns.begin(), columns.end(),
                     [&](const Column &column) { return column.array == a; }))
      unused += (unused.empty() ? "" : ", ") + arrays[a].name();
  if (!unused.empty())
    text += " (no input takes: " + unused + ")";
  if (holdoutSamples > 0)
    text += ", of which " + std::to_string(holdoutSamples) + " are held out";
  return text;
}

} // namespace polyrank::runtime
