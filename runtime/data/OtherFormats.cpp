// Errors for data in formats that --data does not read, with the commands that
// convert or load them.

#include "runtime/data/OtherFormats.h"

#include "runtime/data/TokenTypes.h"
#include "support/File.h"

#include <array>
#include <fmt/format.h>
#include <string_view>

namespace polyrank::runtime {
namespace {

/// {0} is the path as a word of the shell, {1} the same without its suffix, and
/// {2} the path as a word of a command that is in single quotes.
constexpr std::string_view textFile =
    "text in it becomes tokens by: polyrank tokenize {0} --tokenizer "
    "tokenizer.json -o tokens; then give --data tokens.bin";
constexpr std::string_view textOrColumns =
    "text in it becomes tokens by: polyrank tokenize {0} --tokenizer "
    "tokenizer.json --text-field text -o tokens (then --data tokens.bin); "
    "columns of numbers are read by: --data 'command:python3 -m "
    "polyrank.columns {2}'";
constexpr std::string_view loader =
    "a loader of yours reads it: --data 'command:python3 loader.py', with "
    "polyrank.feed(loader) in it; docs/your-data.md has one for archives of "
    "WebDataset and one for folders of images";

struct Format {
  std::string_view suffix, what, todo;
};
constexpr std::array formats{
    Format{".parquet", "a Parquet file", textOrColumns},
    Format{".pq", "a Parquet file", textOrColumns},
    Format{".arrow", "an Arrow file", textOrColumns},
    Format{".feather", "an Arrow file", textOrColumns},
    Format{".csv", "a table of text", textOrColumns},
    Format{".jsonl", "a file of JSON lines", textFile},
    Format{".json", "a JSON file", textFile},
    Format{".tar", "an archive", loader},
    Format{".tgz", "an archive", loader},
    Format{".h5", "an HDF5 file", loader},
    Format{".hdf5", "an HDF5 file", loader},
    Format{".tfrecord", "a file of TFRecords", loader},
    Format{".jpg", "an image", loader},
    Format{".jpeg", "an image", loader},
    Format{".png", "an image", loader},
    Format{".gz", "compressed with gzip",
           "unpack it first: gzip -dk {0}; then give --data {1}"},
    Format{".zst", "compressed with zstd",
           "unpack it first: zstd -d {0}; then give --data {1}"},
    Format{".xz", "compressed with xz",
           "unpack it first: xz -dk {0}; then give --data {1}"},
};

/// The path as a word of the shell.
std::string quoted(const std::string &path) {
  constexpr std::string_view safe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:@%";
  if (path.find_first_not_of(safe) == std::string::npos)
    return path;
  std::string word = "\"";
  for (char c : path) {
    if (std::string_view("\"\\$`").find(c) != std::string_view::npos)
      word += '\\';
    word += c;
  }
  return word + "\"";
}

/// The text within single quotes of the shell.
std::string withinQuotes(const std::string &text) {
  std::string within;
  for (char c : text)
    within += c == '\'' ? "'\\''" : std::string(1, c);
  return within;
}

} // namespace

Result<void> refuseOtherFormat(const std::string &path) {
  std::string suffix = suffixOf(path), word = quoted(path),
              without = quoted(path.substr(0, path.size() - suffix.size()));
  if (isFolder(path))
    return Error{fmt::format("{}: is a folder; its files are named by a "
                             "pattern in quotes (--data '{}/*.bin'), or {}",
                             path, withinQuotes(withoutSlash(path)), loader)};
  for (const Format &format : formats)
    if (suffix == format.suffix)
      return Error{fmt::format("{}: is {}; {}", path, format.what,
                               fmt::format(fmt::runtime(format.todo), word,
                                           without, withinQuotes(word)))};
  return {};
}

} // namespace polyrank::runtime
