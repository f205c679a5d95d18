// Maps code to the user's sources, using the `.debug_pkl` beside each file of
// code.

#pragma once

#include "frontends/archive/Pickle.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::frontends::torchscript {

/// A line in a file of the user.
struct SourceLine {
  std::string file;
  int64_t line = 0; // from 1
};

/// Maps offsets in the code of the archive to lines of the user's sources.
class DebugInfo {
public:
  /// An empty map.
  DebugInfo() = default;
  /// Reads the pickle of a file; errors begin with `name`. Memory is taken from
  /// `budget`.
  static Result<DebugInfo> read(archive::Pickle pickle, const std::string &name,
                                Budget &budget);

  /// The line from which the code at `offset` was made. For a traced function
  /// this is the innermost line that is not PyTorch's own, or else the
  /// innermost.
  std::optional<SourceLine> find(uint32_t offset) const;

private:
  /// A text from which code was made. It consists of one string per line, or
  /// one for the whole file. Functions have thousands of lines and of records,
  /// so the text is not joined for each record.
  struct Source {
    struct Part {
      const std::string *text;
      int64_t begin, lines; // bytes and line ends before it
    };
    std::vector<Part> parts;
    int64_t size = 0; // bytes
    int64_t firstLine = 0;
    const std::string *file = nullptr; // null: the text is a stack of frames
    /// The line that the stack of frames gives; unset until first requested.
    mutable std::optional<std::optional<SourceLine>> frame;

    /// The part that contains byte `start`.
    const Part &partAt(int64_t start) const;
    /// The line that contains byte `start`.
    int64_t lineOf(int64_t start) const;
  };
  /// The code from `offset` on comes from the source's text at byte `start`.
  struct Record {
    int64_t offset = 0, start = 0;
    size_t source = 0;
  };
  /// The number of characters that all calls of `find` together may still scan:
  /// all records may refer to one long text.
  mutable int64_t charactersLeft = int64_t(1) << 28;
  archive::Pickle pickle; // owns the texts
  std::vector<Source> sources;
  std::vector<Record> records; // by offset
};

} // namespace polyrank::frontends::torchscript
