// Recognises, by its first bytes, what a file is that is not of the requested
// kind.

#include "support/FileFormat.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace polyrank {
namespace {

using std::string_view_literals::operator""sv;

enum class Format {
  Unknown,
  Gzip,
  Bzip2,
  Xz,
  Zstandard,
  WebPage,
  LfsPointer,
  Pickle,          // torch.save
  ExportedProgram, // torch.export.save
  Npz,
  Zip,
  Npy,
  Safetensors,
  Gguf,
  Hdf5,
  Onnx,
  Plan,
};

struct Magic {
  std::string_view bytes;
  Format format;
};
constexpr Magic magics[] = {
    {"\x1f\x8b\x08"sv, Format::Gzip},
    {"\xfd"
     "7zXZ\0"sv,
     Format::Xz},
    {"\x28\xb5\x2f\xfd"sv, Format::Zstandard},
    {"version https://git-lfs.github.com/"sv, Format::LfsPointer},
    {"\x80\x02\x8a\nl\xfc\x9c"sv, Format::Pickle}, // torch.save before 1.6
    {"\x93NUMPY"sv, Format::Npy},
    {"\x89HDF\r\n\x1a\n"sv, Format::Hdf5},
};

/// The format of a zip archive, by the name of its first member.
Format formatOfZip(std::string_view start) {
  constexpr size_t nameLength = 26, name = 30;
  if (start.size() < name)
    return Format::Zip;
  size_t length = static_cast<unsigned char>(start[nameLength]) +
                  256 * static_cast<unsigned char>(start[nameLength + 1]);
  std::string_view member = start.substr(name, length);
  if (member.ends_with(".npy"))
    return Format::Npz;
  for (const char *part : {"/data/weights/", "/models/", "/archive_format"})
    if (member.find(part) != member.npos)
      return Format::ExportedProgram;
  if (member.ends_with("/data.pkl") || member.find("/data/") != member.npos)
    return Format::Pickle;
  return Format::Zip;
}

bool isWebPage(std::string_view start) {
  while (!start.empty() && std::isspace(static_cast<unsigned char>(start[0])))
    start.remove_prefix(1);
  std::string lower(start.substr(0, 14));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return lower.starts_with("<!doctype html") || lower.starts_with("<html");
}

/// Returns true for a 64-bit length followed by JSON.
bool isSafetensors(std::string_view start) {
  constexpr uint64_t headerLimit = 100'000'000;
  uint64_t header = 0;
  if (start.size() < 10)
    return false;
  std::memcpy(&header, start.data(), sizeof(header));
  return header >= 2 && header <= headerLimit && start[8] == '{' &&
         (start[9] == '"' || start[9] == '}' || start[9] == ' ');
}

/// Returns true for a ModelProto: the field ir_version, a small number, and
/// then a string, the name of the producer.
bool isOnnx(std::string_view start) {
  if (start.size() < 4 || start[0] != 0x08 || start[1] <= 0 ||
      start[1] > 0x20 || start[2] != 0x12 || start[3] <= 0)
    return false;
  std::string_view producer = start.substr(4, static_cast<size_t>(start[3]));
  return producer.size() == static_cast<size_t>(start[3]) &&
         std::all_of(producer.begin(), producer.end(),
                     [](unsigned char c) { return std::isprint(c); });
}

/// Returns true for protocol 4 and later: a frame with its 64-bit length.
bool isPickle(std::string_view start) {
  return start.size() > 11 &&
         (start.starts_with("\x80\x04\x95") ||
          start.starts_with("\x80\x05\x95")) &&
         start.substr(7, 4) == "\0\0\0\0"sv;
}

/// Formats whose first word also occurs in plain text; what follows it decides.
Format formatOfWord(std::string_view start) {
  if (start.size() > 4 && start.starts_with("BZh") &&
      start.substr(4).starts_with("1AY&SY"))
    return Format::Bzip2;
  auto isBinary = [](std::string_view rest) {
    return !rest.empty() && static_cast<unsigned char>(rest[0]) < ' ';
  };
  if (start.starts_with("GGUF") && isBinary(start.substr(4)))
    return Format::Gguf;
  if (start.starts_with("POLYRANK") && isBinary(start.substr(8)))
    return Format::Plan;
  return Format::Unknown;
}

Format formatOf(std::string_view start) {
  for (const Magic &magic : magics)
    if (start.starts_with(magic.bytes))
      return magic.format;
  if (start.starts_with("PK\3\4"))
    return formatOfZip(start);
  if (isWebPage(start))
    return Format::WebPage;
  if (isSafetensors(start))
    return Format::Safetensors;
  if (isPickle(start))
    return Format::Pickle;
  return isOnnx(start) ? Format::Onnx : formatOfWord(start);
}

/// Says how to make the wanted file in Python.
std::string wayTo(WantedFile wanted) {
  switch (wanted) {
  case WantedFile::Model:
    return "write the model with torch.onnx.export(model, inputs, "
           "\"model.onnx\", dynamo=True, optimize=False)";
  case WantedFile::Weights:
    return "save the weights with safetensors.torch.save_model(model, "
           "\"weights.safetensors\")";
  case WantedFile::Data:
    break;
  }
  return "save samples with numpy.savez(\"data.npz\", INPUT=array, ..), or "
         "tokens with array.astype(numpy.uint16).tofile(\"tokens.bin\")";
}

} // namespace

std::string foreignFormat(std::string_view start, WantedFile wanted) {
  auto compressed = [](const char *by, const char *command) {
    return std::string("is compressed with ") + by +
           "; unpack it first: " + command + " FILE";
  };
  auto other = [&](const char *what) {
    return std::string("is ") + what + "; " + wayTo(wanted);
  };
  switch (formatOf(start)) {
  case Format::Unknown:
    break;
  case Format::Gzip:
    return compressed("gzip", "gzip -dk");
  case Format::Bzip2:
    return compressed("bzip2", "bzip2 -dk");
  case Format::Xz:
    return compressed("xz", "xz -dk");
  case Format::Zstandard:
    return compressed("zstd", "zstd -dk");
  case Format::WebPage:
    if (wanted == WantedFile::Data)
      break;
    return "is a web page (HTML), as a download that failed leaves it; look at "
           "it in a text editor, and download the file itself";
  case Format::LfsPointer:
    return "is a pointer of git-lfs and not the file itself; fetch that: git "
           "lfs pull";
  case Format::Pickle:
    return other("what torch.save writes (a pickle)");
  case Format::ExportedProgram:
    return other("what torch.export.save writes (.pt2)");
  case Format::Npz:
    return wanted == WantedFile::Data ? "" : other("a set of NumPy arrays");
  case Format::Zip:
    if (wanted == WantedFile::Data) // a set whose first member is not an array
      break;
    return "is a zip archive; unpack it first: unzip FILE";
  case Format::Npy:
    return wanted == WantedFile::Data ? "" : other("a NumPy array");
  case Format::Safetensors:
    if (wanted == WantedFile::Model)
      return "is a safetensors file, which has weights and no graph; load them "
             "into the model, and " +
             wayTo(wanted);
    return wanted == WantedFile::Weights ? "" : other("a safetensors file");
  case Format::Gguf:
    return other("a GGUF file");
  case Format::Hdf5:
    return other("an HDF5 file");
  case Format::Onnx:
    return wanted == WantedFile::Model ? "" : other("an ONNX model");
  case Format::Plan:
    return other("a plan of polyrank-compile");
  }
  return "";
}

} // namespace polyrank
