// Reads rows of a data file in the types of the inputs.

#include "runtime/data/SampleFile.h"

#include "runtime/data/TokenTypes.h"
#include "support/ElementValues.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace polyrank::runtime {
namespace {

/// Describes the ignored label besides the classes, and how another value can
/// be ignored.
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

/// Fills `count` elements of the input's type with a number. Returns the number
/// as text if it does not fit.
std::string fill(const InputSpec &spec, int64_t number, int64_t count,
                 std::byte *into) {
  int64_t bytes = bytesOf(spec.dtype);
  for (int64_t i = 0; i < count; ++i)
    if (auto bad = convertValues(ElementType::I64,
                                 reinterpret_cast<std::byte *>(&number), 1,
                                 spec.dtype, spec.range, into + i * bytes))
      return bad->value;
  return "";
}

} // namespace

int64_t InputSpec::rowElements(int64_t from) const {
  int64_t product = 1;
  for (size_t d = from; d < rowShape.size(); ++d)
    product *= rowShape[d];
  return product;
}

bool InputSpec::takes(const std::vector<int64_t> &shape) const {
  if (!hasBatch())
    return shape == rowShape;
  return shape.size() == rowShape.size() + 1 &&
         std::equal(rowShape.begin(), rowShape.begin() + batchDim,
                    shape.begin()) &&
         std::equal(rowShape.begin() + batchDim, rowShape.end(),
                    shape.begin() + batchDim + 1);
}

std::string SampleFile::describeValue(const StoredArray &array,
                                      const std::string &value, int64_t element,
                                      uint64_t sample) const {
  return name +
         (array.name() == array.path() ? ""
                                       : ", array '" + array.name() + "'") +
         ": value " + value + " at element " + std::to_string(element) +
         " (sample " + std::to_string(sample) + ")";
}

std::string SampleFile::findNan(uint64_t sample, size_t input) const {
  const Column &column = columns[input];
  if (isInteger(column.spec.dtype) || column.kind != Kind::Values)
    return "";
  std::vector<std::byte> stored, row(column.spec.rowBytes());
  // The step has read this sample before, and has reported any read error.
  if (!read(sample, input, stored, row.data()))
    return "";
  int64_t elements = column.spec.rowElements(),
          found = polyrank::findNan(column.spec.dtype, row.data(), elements);
  if (found == elements)
    return "";
  int64_t inner =
      column.spec.rowElements(std::max<int64_t>(0, column.spec.batchDim));
  return describeValue(arrays[column.array], "nan",
                       elementOf(column, sample, found / inner) + found % inner,
                       sample);
}

int64_t SampleFile::elementOf(const Column &column, uint64_t sample,
                              int64_t outer) const {
  const InputSpec &spec = column.spec;
  return spec.hasBatch() ? (outer * static_cast<int64_t>(numSamples) +
                            static_cast<int64_t>(sample)) *
                               spec.rowElements(spec.batchDim)
                         : 0;
}

Result<void> SampleFile::read(uint64_t sample, size_t input,
                              std::vector<std::byte> &stored,
                              std::byte *into) const {
  const Column &column = columns[input];
  if (column.kind != Kind::Values)
    return readTokens(sample, column, stored, into);
  const InputSpec &spec = column.spec;
  int64_t elements = spec.rowElements(),
          inner = spec.rowElements(std::max<int64_t>(0, spec.batchDim));
  for (int64_t done = 0; done < elements; done += inner)
    if (auto read =
            readValues(sample, column, elementOf(column, sample, done / inner),
                       inner, stored, into + done * bytesOf(spec.dtype));
        !read)
      return read;
  return {};
}

Result<void> SampleFile::readValues(uint64_t sample, const Column &column,
                                    int64_t first, int64_t count,
                                    std::vector<std::byte> &stored,
                                    std::byte *into) const {
  const StoredArray &array = arrays[column.array];
  stored.resize(count * bytesOf(array.type()));
  if (auto done = array.read(first, count, stored.data()); !done)
    return done;
  auto bad = convertValues(array.type(), stored.data(), count,
                           column.spec.dtype, column.spec.range, into);
  if (!bad)
    return {};
  std::string takes = nameOf(column.spec.dtype);
  if (int64_t limit = column.spec.range.limit)
    takes += " in [0, " + std::to_string(limit) + ")" +
             describeIgnored(column.spec, bad->value);
  std::string hint, limit = std::to_string(column.spec.range.limit);
  if (isRaw && column.spec.range.limit > 0)
    if (std::string fits = otherTypeThatFits(array, column.spec.range.limit);
        !fits.empty())
      hint = "; as " + fits + " the file's tokens are below " + limit +
             ": is it --token-type " + fits + "?";
  return Error{describeValue(array, bad->value, first + bad->index, sample) +
               ", but input '" + column.spec.name + "' takes " + takes + hint};
}

Result<void> SampleFile::findEnds(const TokenRows::Piece &piece,
                                  std::vector<int64_t> &ends) const {
  if (!documentEnds.empty()) {
    auto end =
        std::upper_bound(documentEnds.begin(), documentEnds.end(), piece.begin);
    for (; end != documentEnds.end() && *end <= piece.begin + piece.count;
         ++end)
      ends.push_back(int64_t(*end - piece.begin) - 1);
    return {};
  }
  const StoredArray &array = arrays[0];
  std::vector<std::byte> stored(piece.count * bytesOf(array.type()));
  if (auto done = array.read(piece.begin, piece.count, stored.data()); !done)
    return done;
  visitElements(array.type(), [&]<typename T>(T) {
    for (int64_t i = 0; i < piece.count; ++i)
      if constexpr (std::is_integral_v<T>) // token files hold nothing else
        if (std::cmp_equal(loadElement<T>(stored.data() + i * sizeof(T)),
                           *documents.eos))
          ends.push_back(i);
  });
  return {};
}

Result<void> SampleFile::ignoreLabels(const Column &column,
                                      const TokenRows::Piece &piece,
                                      const std::vector<int64_t> &ends,
                                      std::byte *labels) const {
  const InputSpec &spec = column.spec;
  int64_t bytes = bytesOf(spec.dtype), shift = documents.isShifted() ? 1 : 0;
  auto ignore = [&](int64_t at) {
    fill(spec, spec.range.ignore, 1, labels + at * bytes);
  };
  // The first token of a document is not to be predicted from the one before.
  for (int64_t end : ends)
    if (int64_t at = end + 1 - shift; at < piece.count)
      ignore(at);
  if (!documents.maskPrompts)
    return {};
  const StoredArray &marks = arrays[1];
  std::vector<std::byte> marked(static_cast<size_t>(piece.count));
  int64_t first = static_cast<int64_t>(piece.begin) + shift;
  if (Result<void> done = marks.read(first, piece.count, marked.data()); !done)
    return done;
  for (int64_t i = 0; i < piece.count; ++i) {
    auto mark = std::to_integer<int>(marked[static_cast<size_t>(i)]);
    if (mark > 1)
      return Error{marks.path() + ": byte " + std::to_string(first + i) +
                   " is " + std::to_string(mark) +
                   ", but a mark is 1 for a token that is learned, and 0 for "
                   "one that is not"};
    if (mark == 0)
      ignore(i);
  }
  return {};
}

Result<void> SampleFile::readTokens(uint64_t sample, const Column &column,
                                    std::vector<std::byte> &stored,
                                    std::byte *into) const {
  const InputSpec &spec = column.spec;
  int64_t length = spec.rowElements(), bytes = bytesOf(spec.dtype), filled = 0,
          position = 0;
  bool isStream = documents.rule == DocumentRule::Stream;
  Result<void> result;
  // With the other rules a piece ends with its document, so that no label is of
  // another one.
  std::vector<int64_t> ends;
  rows.forEachPiece(sample, [&](const TokenRows::Piece &piece) {
    std::byte *at = into + filled * bytes;
    filled += piece.count;
    ends.clear();
    bool needsEnds =
        isStream &&
        ((column.kind == Kind::Labels && documents.maskLabels) ||
         (column.kind == Kind::Positions && documents.resetPositions));
    if (needsEnds)
      result = findEnds(piece, ends);
    if (!result)
      return false;
    std::string bad;
    switch (column.kind) {
    case Kind::Tokens:
      result = readValues(sample, column, piece.begin, piece.count, stored, at);
      break;
    case Kind::Labels: {
      uint64_t first = piece.begin + (documents.isShifted() ? 1 : 0);
      result = readValues(sample, column, static_cast<int64_t>(first),
                          piece.count, stored, at);
      if (result)
        result = ignoreLabels(column, piece, ends, at);
      break;
    }
    case Kind::Positions: {
      auto end = ends.begin();
      if (documents.resetPositions)
        position = 0;
      for (int64_t i = 0; i < piece.count && bad.empty(); ++i) {
        bad = fill(spec, position++, 1, at + i * bytes);
        if (end != ends.end() && *end == i)
          position = 0, ++end;
      }
      break;
    }
    case Kind::Mask:
      bad = fill(spec, 1, piece.count, at);
      break;
    case Kind::Values:
      break;
    }
    if (!bad.empty())
      result = Error{name + ": input '" + spec.name + "' cannot take " + bad +
                     ", the position of a token in its row of " +
                     std::to_string(length)};
    return bool(result);
  });
  if (!result || filled == length)
    return result;
  int64_t rest = column.kind == Kind::Tokens
                     ? documents.pad.value_or(documents.eos.value_or(0))
                 : column.kind == Kind::Labels ? spec.range.ignore
                                               : 0;
  if (std::string bad =
          fill(spec, rest, length - filled, into + filled * bytes);
      !bad.empty())
    return Error{name + ": input '" + spec.name + "' cannot take " + bad +
                 ", with which short rows are filled up; give another token "
                 "with --pad-token"};
  return {};
}

Result<void> SampleFile::checkAll() const {
  std::vector<std::byte> stored, row;
  for (size_t input = 0; input < columns.size(); ++input) {
    const InputSpec &spec = columns[input].spec;
    row.resize(spec.rowBytes());
    uint64_t rows = spec.hasBatch() ? numSamples : 1;
    for (uint64_t sample = 0; sample < rows; ++sample)
      if (auto done = read(sample, input, stored, row.data()); !done)
        return done;
  }
  return {};
}

Result<void> SampleFile::checkRanges() const {
  // Marks are checked where labels are read.
  if (!isTokens || documents.maskPrompts)
    return checkAll();
  const StoredArray &array = arrays[0];
  // The strictest range of all inputs that read tokens.
  InputSpec strictest;
  strictest.dtype = ElementType::I64;
  for (const Column &column : columns)
    if (column.kind == Kind::Tokens || column.kind == Kind::Labels) {
      if (bytesOf(column.spec.dtype) < bytesOf(strictest.dtype))
        strictest.dtype = column.spec.dtype;
      int64_t limit = column.spec.range.limit;
      if (limit != 0 &&
          (strictest.range.limit == 0 || limit < strictest.range.limit))
        strictest.range.limit = limit;
    }
  constexpr int64_t block = 1 << 18;
  std::vector<std::byte> stored(block * bytesOf(array.type())),
      converted(block * 8);
  int64_t all = array.elements();
  for (int64_t begin = 0; begin < all; begin += block) {
    int64_t count = std::min(block, all - begin);
    if (auto done = array.read(begin, count, stored.data()); !done)
      return done;
    // Not every token is in a row, and not every label counts, so the rows have
    // to be checked one by one.
    if (convertValues(array.type(), stored.data(), count, strictest.dtype,
                      strictest.range, converted.data()))
      return checkAll();
  }
  // Rows also have padding, positions and masks. These values are of few kinds,
  // so the first and the last row suffice.
  std::vector<std::byte> row;
  for (size_t input = 0; input < columns.size() && numSamples > 0; ++input) {
    row.resize(columns[input].spec.rowBytes());
    for (uint64_t sample : {uint64_t(0), numSamples - 1})
      if (auto done = read(sample, input, stored, row.data()); !done)
        return done;
  }
  return {};
}

Result<std::string> SampleFile::identity() const {
  POLYRANK_ASSIGN(own, arrays[0].source().identity());
  return own + besideIdentity;
}

uint64_t SampleFile::checkedBytes() const {
  uint64_t sum = 0;
  for (const StoredArray &array : arrays)
    sum += uint64_t(array.elements()) * bytesOf(array.type());
  return sum;
}

uint64_t SampleFile::memoryBytes() const {
  uint64_t sum =
      rows.memoryBytes() + documentEnds.capacity() * sizeof(uint64_t);
  for (const StoredArray &array : arrays)
    sum += array.memoryBytes();
  return sum;
}

std::string SampleFile::describe() const {
  std::string text = name + ": ";
  if (isTokens) {
    text += std::to_string(arrays[0].elements()) + " " +
            longNameOf(arrays[0].type()) + " tokens" +
            (documents.maskPrompts ? " with marks, " : ", ") +
            std::to_string(numSamples) + " samples of " +
            std::to_string(columns[0].spec.rowElements());
  } else {
    text += std::to_string(numSamples) + " samples";
    std::string unused;
    for (size_t a = 0; a < arrays.size(); ++a)
      if (std::none_of(columns.begin(), columns.end(),
                       [&](const Column &column) { return column.array == a; }))
        unused += (unused.empty() ? "" : ", ") + arrays[a].name();
    if (!unused.empty())
      text += " (no input takes: " + unused + ")";
  }
  return text;
}

} // namespace polyrank::runtime
