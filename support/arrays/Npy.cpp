// Reads .npy files, with a parser for just the Python literal in their header.

#include "support/arrays/Npy.h"

#include <cstring>
#include <string_view>

namespace polyrank {
namespace {

constexpr std::string_view magic("\x93NUMPY", 6);

/// A cursor over {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Literal {
public:
  explicit Literal(std::string_view text) : text(text) {}

  bool accept(char c) {
    skipSpace();
    if (position >= text.size() || text[position] != c)
      return false;
    ++position;
    return true;
  }
  bool acceptWord(std::string_view word) {
    skipSpace();
    if (text.substr(position, word.size()) != word)
      return false;
    position += word.size();
    return true;
  }
  bool string(std::string &value) {
    skipSpace();
    if (position >= text.size() ||
        (text[position] != '\'' && text[position] != '"'))
      return false;
    size_t end = text.find(text[position], position + 1);
    if (end == std::string_view::npos)
      return false;
    value = text.substr(position + 1, end - position - 1);
    position = end + 1;
    return value.find('\\') == std::string::npos;
  }
  bool integer(int64_t &value) {
    skipSpace();
    size_t start = position;
    for (value = 0; position < text.size() && text[position] >= '0' &&
                    text[position] <= '9';
         ++position)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text[position] - '0', &value))
        return false;
    return position > start;
  }
  bool atEnd() {
    skipSpace();
    return position == text.size();
  }

private:
  void skipSpace() {
    while (position < text.size() &&
           (text[position] == ' ' || text[position] == '\n'))
      ++position;
  }

  std::string_view text;
  size_t position = 0;
};

bool parseShape(Literal &literal, std::vector<int64_t> &shape) {
  if (!literal.accept('('))
    return false;
  while (!literal.accept(')')) {
    int64_t extent;
    if (!literal.integer(extent))
      return false;
    literal.accept('L'); // Python 2 wrote an L after long integers
    shape.push_back(extent);
    if (!literal.accept(',')) {
      if (!literal.accept(')'))
        return false;
      break;
    }
  }
  return shape.size() <= 32;
}

Result<ElementType> parseType(const std::string &text,
                              const std::string &where) {
  std::string code = text;
  char order = code.empty() ? '\0' : code[0];
  if (order == '<' || order == '>' || order == '|' || order == '=')
    code.erase(0, 1);
  if (auto type = findElementType(&ElementTypeRow::npy, code)) {
    if (order == '>' && bytesOf(*type) > 1)
      return Error{where + ": big-endian values (" + text +
                   "); convert them with array.astype('<" + code + "')"};
    return *type;
  }
  if (code.starts_with("O"))
    return Error{where + ": holds Python objects, which are not read; save an "
                         "array of numbers"};
  return Error{where + ": values of type '" + text +
               "' are not read; save integers, floats or booleans"};
}

} // namespace

Result<NpyHeader> parseNpyHeader(std::span<const std::byte> bytes,
                                 uint64_t size, const std::string &where) {
  std::string_view text(reinterpret_cast<const char *>(bytes.data()),
                        bytes.size());
  if (text.size() < 10 || text.substr(0, 6) != magic)
    return Error{where + ": not a .npy array"};
  int major = static_cast<unsigned char>(text[6]);
  if (major < 1 || major > 3)
    return Error{where + ": .npy version " + std::to_string(major) +
                 " is not known; 1 to 3 are"};
  size_t lengthBytes = major == 1 ? 2 : 4, start = 8 + lengthBytes;
  if (text.size() < start)
    return Error{where + ": the header is cut off"};
  uint64_t length = 0;
  std::memcpy(&length, text.data() + 8, lengthBytes);
  if (length > npyHeaderLimit - start || length > text.size() - start ||
      start + length > size)
    return Error{where + ": the header says that it has " +
                 std::to_string(length) + " bytes"};

  Literal literal(text.substr(start, length));
  NpyHeader header;
  std::string type;
  bool hasType = false, hasOrder = false, hasShape = false, fortran = false;
  bool good = literal.accept('{');
  while (good && !literal.accept('}')) {
    std::string key;
    good = literal.string(key) && literal.accept(':');
    if (!good)
      break;
    if (key == "descr" && !hasType) {
      if (literal.accept('['))
        return Error{where + ": an array of records is not read; save one "
                             "array per field"};
      good = hasType = literal.string(type);
    } else if (key == "fortran_order" && !hasOrder) {
      fortran = literal.acceptWord("True");
      good = hasOrder = fortran || literal.acceptWord("False");
    } else if (key == "shape" && !hasShape) {
      good = hasShape = parseShape(literal, header.shape);
    } else {
      good = false;
    }
    if (good && !literal.accept(',')) {
      good = literal.accept('}');
      break;
    }
  }
  if (!good || !hasType || !hasOrder || !hasShape || !literal.atEnd())
    return Error{where + ": the .npy header is malformed"};
  POLYRANK_ASSIGN(parsed, parseType(type, where));
  header.type = parsed;
  if (fortran && header.shape.size() > 1)
    return Error{where + ": is in Fortran order; save "
                         "numpy.ascontiguousarray(array) instead"};
  uint64_t dataBytes = bytesOf(header.type);
  for (int64_t extent : header.shape)
    if (__builtin_mul_overflow(dataBytes, extent, &dataBytes) ||
        dataBytes > uint64_t(1) << 62)
      return Error{where + ": the shape is too large"};
  header.dataOffset = start + length;
  header.dataBytes = dataBytes;
  if (dataBytes != size - header.dataOffset)
    return Error{where + ": the shape needs " + std::to_string(dataBytes) +
                 " bytes, but " + std::to_string(size - header.dataOffset) +
                 " follow the header"};
  return header;
}

std::string makeNpyHeader(const std::string &type,
                          std::span<const int64_t> shape) {
  std::string text =
      "{'descr': '" + type + "', 'fortran_order': False, " + "'shape': (";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  text += shape.size() == 1 ? ",), }" : "), }";
  size_t padded = (10 + text.size() + 1 + 63) / 64 * 64;
  text.append(padded - 10 - text.size() - 1, ' ');
  text += '\n';
  std::string header(magic);
  header += '\1';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

Result<StoredArray> openNpy(const std::string &path) {
  POLYRANK_ASSIGN(file, InputFile::open(path));
  std::vector<std::byte> start(std::min(file.size(), npyHeaderLimit));
  if (auto done = file.readAt(0, start.data(), start.size()); !done)
    return done.error();
  POLYRANK_ASSIGN(header, parseNpyHeader(start, file.size(), path));
  uint64_t offset = header.dataOffset;
  return StoredArray(path, header.type, header.shape,
                     std::make_shared<InputFile>(std::move(file)), offset);
}

} // namespace polyrank
