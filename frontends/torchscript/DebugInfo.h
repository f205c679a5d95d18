// Where code comes from in the user's sources: the `.debug_pkl` beside each
// file of code.

#pragma once

#include "frontends/archive/Pickle.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::frontends::torchscript {

/// A line of a file of the user's.
struct SourceLine {
  std::string file;
  int64_t line = 0; // from 1
};

/// From places in the code of the archive to lines of the user's sources.
class DebugInfo {
public:
  /// Knows nothing.
  DebugInfo() = default;
  /// Of a file's pickle; what is not understood in it is an error that begins
  /// with `name`. What it keeps is taken from `budget`.
  static Result<DebugInfo> read(archive::Pickle pickle, const std::string &name,
                                Budget &budget);

  /// The line that the code at `offset` was made from. Of a traced function it
  /// is the innermost one that is not PyTorch's own, or else the innermost.
  std::optional<SourceLine> find(uint32_t offset) const;

private:
  /// A text that code was made from. It is one string for each line, or for the
  /// file; as functions have thousands of lines and thousands of records each,
  /// it is never put together for a record.
  struct Source {
    struct Part {
      const std::string *text;
      int64_t begin, lines; // bytes and ends of lines before it
    };
    std::vector<Part> parts;
    int64_t size = 0; // bytes
    int64_t firstLine = 0;
    const std::string *file = nullptr; // null: the text is a stack of frames
    /// What the stack of frames says; unset until somebody asks.
    mutable std::optional<std::optional<SourceLine>> frame;

    /// That in which the byte `start` is.
    const Part &partAt(int64_t start) const;
    /// The line in which the byte `start` is.
    int64_t lineOf(int64_t start) const;
  };
  /// From `offset` on: what begins at `start` of the source's text.
  struct Record {
    int64_t offset = 0, start = 0;
    size_t source = 0;
  };
  /// How many characters of texts may still be looked through, all questions
  /// together: records may all be of one long text.
  mutable int64_t charactersLeft = int64_t(1) << 28;
  archive::Pickle pickle; // owns the texts
  std::vector<Source> sources;
  std::vector<Record> records; // by offset
};

} // namespace polyrank::frontends::torchscript
