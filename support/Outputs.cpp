// Identifies files by device and inode, and by their first bytes.

#include "support/Outputs.h"

#include "support/File.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace polyrank {
namespace {

/// The file that a path leads to. A file that does not exist yet is a name in
/// its folder.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;

  bool operator==(const Identity &) const = default;
};

/// Follows a link to a missing file: writing through the link creates that
/// file.
std::string resolved(std::string path) {
  for (int links = 0; links < 40; ++links) { // as many as Linux follows
    char target[PATH_MAX];
    ssize_t length = readlink(path.c_str(), target, sizeof(target));
    if (length < 0)
      break;
    std::string next(target, length);
    size_t slash = path.rfind('/');
    path = next.starts_with('/') || slash == std::string::npos
               ? next
               : path.substr(0, slash + 1) + next;
  }
  return path;
}

/// Nullopt for what is not and will not be a file: a terminal, a pipe, a path
/// without a folder. Opening these reports the error.
std::optional<Identity> identityOf(const std::string &path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode))
      return std::nullopt;
    return Identity{status.st_dev, status.st_ino, ""};
  }
  std::string there = resolved(path);
  size_t slash = there.rfind('/');
  std::string folder =
      slash == std::string::npos ? "." : there.substr(0, slash + 1);
  if (stat(folder.c_str(), &status) != 0)
    return std::nullopt;
  return Identity{status.st_dev, status.st_ino,
                  slash == std::string::npos ? there : there.substr(slash + 1)};
}

struct KindRow {
  const char *article, *suffix; // "a plan", ".plan"
};

KindRow rowOf(FileKind kind) {
  switch (kind) {
  case FileKind::Plan:
    return {"a plan", ".plan"};
  case FileKind::Safetensors:
    return {"a safetensors file", ".safetensors"};
  case FileKind::WeightsIndex:
    return {"an index of safetensors", ".json"};
  case FileKind::Npz:
    return {"a npz set", ".npz"};
  case FileKind::Folder:
    return {"a folder", ""};
  case FileKind::Log:
    return {"a log of polyrank-run", ".jsonl"};
  case FileKind::Svg:
    return {"an SVG picture", ".svg"};
  case FileKind::Machine:
    return {"a machine file of polyrank-run --calibrate", ".toml"};
  case FileKind::Trace:
    return {"a trace of polyrank-run", ".json"};
  case FileKind::Times:
    return {"a file of times of polyrank-inspect", ".json"};
  case FileKind::Profile:
    break;
  }
  return {"a profile of polyrank-run", ".txt"};
}

/// Suffixes that imply a format, and what writes or reads it. Other suffixes
/// imply nothing.
struct SuffixRow {
  std::string_view suffix, is;
  std::optional<FileKind> kind = std::nullopt;  // if it is one of ours
  std::optional<FileKind> taken = std::nullopt; // for these outputs only
};
constexpr SuffixRow suffixes[] = {
    {".pt", "PyTorch's pickle"},
    {".pth", "PyTorch's pickle"},
    {".ckpt", "a pickle"},
    {".pkl", "a pickle"},
    {".bin", "PyTorch's pickle", {}, FileKind::Safetensors},
    {".onnx", "an ONNX model"},
    {".npy", "one NumPy array"},
    {".h5", "HDF5"},
    {".gguf", "GGUF"},
    {".safetensors", "safetensors", FileKind::Safetensors},
    {".npz", "a NumPy set", FileKind::Npz},
    {".plan", "a plan", FileKind::Plan},
    {".svg", "an SVG picture", FileKind::Svg},
    {".png", "a PNG picture"},
    {".html", "a page"},
};

std::string lowerSuffixOf(const std::string &path) {
  size_t slash = path.rfind('/'), dot = path.rfind('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
    return "";
  std::string suffix = path.substr(dot);
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  });
  return suffix;
}

Result<void> checkSuffix(const OutputUse &output) {
  if (output.kind == FileKind::Folder) // it may have any name
    return {};
  std::string suffix = lowerSuffixOf(output.path);
  for (const SuffixRow &row : suffixes) {
    if (row.suffix != suffix || row.kind == output.kind ||
        (row.taken && row.taken != output.kind))
      continue;
    KindRow kind = rowOf(output.kind);
    std::string stem = output.path.substr(0, output.path.rfind('.'));
    return Error{
        output.option + " '" + output.path + "': writes " + kind.article +
        ", and '" + suffix + "' is the name of " + std::string(row.is) +
        ", as which nothing could read it; write '" + stem + kind.suffix + "'" +
        (output.kind == FileKind::Safetensors
             ? ", which safetensors.torch.load_file reads for PyTorch"
             : "")};
  }
  return {};
}

/// Returns true if a file begins like an output of this kind.
bool isOfKind(FileKind kind, std::string_view start, uint64_t size) {
  switch (kind) {
  case FileKind::Plan:
    return start.starts_with("POLYRANK");
  case FileKind::Safetensors: {
    uint64_t header = 0;
    if (start.size() < 9)
      return false;
    std::memcpy(&header, start.data(), sizeof(header));
    return header <= size - 8 && start[8] == '{';
  }
  case FileKind::WeightsIndex:
    return start.starts_with("{") &&
           (start.find("\"metadata\"") != std::string_view::npos ||
            start.find("\"weight_map\"") != std::string_view::npos);
  case FileKind::Npz:
    return start.starts_with("PK");
  case FileKind::Folder:
    return false;
  case FileKind::Log:
    // A log that ended early may have no step, and that of a resumed run may
    // begin with another record.
    for (std::string_view record :
         {"{\"run\":", "{\"step\":", "{\"restart\":", "{\"checkpoint\":"})
      if (start.starts_with(record))
        return true;
    return false;
  case FileKind::Svg:
    return start.starts_with("<svg ");
  case FileKind::Machine: // not one that somebody has written
    return start.starts_with("# Measured by polyrank-run --calibrate");
  case FileKind::Trace:
    return start.starts_with("{\"displayTimeUnit\":");
  case FileKind::Times:
    return start.starts_with("{\n  \"report\": \"times\"");
  case FileKind::Profile:
    break;
  }
  // A report in JSON, or a table.
  return start.starts_with("{\n  \"report\": \"profile\"") ||
         start.starts_with("       ms     floor ");
}

Result<void> checkReplaced(const OutputUse &output) {
  struct stat status;
  if (stat(output.path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size == 0)
    return {};
  Descriptor file(open(output.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char start[64];
  ssize_t got =
      file.get() < 0 ? -1 : pread(file.get(), start, sizeof(start), 0);
  if (got < 0)
    return fileError(output.option + " '" + output.path + "'",
                     "exists, and what it holds cannot be read");
  if (isOfKind(output.kind, {start, size_t(got)}, status.st_size))
    return {};
  return Error{output.option + " '" + output.path + "': exists and is not " +
               rowOf(output.kind).article +
               ", which would take its place; give another name, or remove "
               "that file first"};
}

} // namespace

Result<void> checkOutputs(std::span<const InputUse> inputs,
                          std::span<const OutputUse> outputs) {
  std::vector<std::pair<Identity, std::string>> known;
  for (const InputUse &input : inputs)
    if (auto identity = identityOf(input.path);
        identity && identity->name.empty())
      known.emplace_back(*identity, input.what + " '" + input.path + "'");
  for (const OutputUse &output : outputs) {
    std::optional<Identity> identity = identityOf(output.path);
    if (!identity)
      continue;
    for (auto &[other, what] : known)
      if (other == *identity)
        return Error{output.option + " '" + output.path +
                     "': is the same file as " + what +
                     ", which would be lost; give another name"};
    known.emplace_back(*identity, output.option + " '" + output.path + "'");
  }
  for (const OutputUse &output : outputs) {
    if (Result<void> fits = checkSuffix(output); !fits)
      return fits;
    if (Result<void> replaced = checkReplaced(output); !replaced)
      return replaced;
  }
  return {};
}

} // namespace polyrank
