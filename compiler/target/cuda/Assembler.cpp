// CUDA's assembler, `ptxas`, which makes machine code of PTX.

#include "compiler/target/cuda/Assembler.h"

#include <cstdlib>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace polyrank;
using namespace polyrank::cuda;

static constexpr StringLiteral toolName = "ptxas";

polyrank::Result<std::optional<Assembler>>
Assembler::find(const std::string &path) {
  if (!path.empty()) {
    if (!sys::fs::can_execute(path))
      return polyrank::Error{"'" + path +
                             "' is no program; name CUDA's ptxas, or leave "
                             "the option out"};
    return std::optional(Assembler(path));
  }
  std::vector<std::string> folders = {"/usr/local/cuda/bin"};
  if (const char *home = std::getenv("CUDA_HOME"); home && *home)
    folders.insert(folders.begin(), std::string(home) + "/bin");
  if (auto found = sys::findProgramByName(toolName))
    return std::optional(Assembler(*found));
  for (const std::string &folder : folders)
    if (auto found = sys::findProgramByName(toolName, {StringRef(folder)}))
      return std::optional(Assembler(*found));
  return std::optional<Assembler>();
}

/// Returns the number before `unit`, 0 if there is none: "24 bytes smem".
static int64_t numberBefore(StringRef line, StringRef unit) {
  size_t at = line.find(unit);
  if (at == StringRef::npos)
    return 0;
  StringRef before = line.take_front(at).rtrim();
  StringRef digits = before.take_back(
      before.size() - before.find_last_not_of("0123456789") - 1);
  int64_t number = 0;
  return digits.getAsInteger(10, number) ? 0 : number;
}

std::map<std::string, CodeReport> cuda::parseReports(StringRef text) {
  std::map<std::string, CodeReport> reports;
  CodeReport *report = nullptr;
  for (StringRef line : split(text, '\n')) {
    if (line.contains("Compiling entry function '"))
      report =
          &reports[line.split("function '").second.split('\'').first.str()];
    if (!report)
      continue;
    if (line.contains("bytes stack frame")) {
      report->stackBytes = numberBefore(line, "bytes stack frame");
      report->spillStores = numberBefore(line, "bytes spill stores");
      report->spillLoads = numberBefore(line, "bytes spill loads");
    }
    if (line.contains("Used ")) {
      report->registers = numberBefore(line, "registers");
      report->sharedBytes = numberBefore(line, "bytes smem");
    }
  }
  return reports;
}

int64_t cuda::lineOfFailure(StringRef failure) {
  StringRef rest = failure.split(", line ").second;
  int64_t line = 0;
  return rest.consumeInteger(10, line) ? 0 : line;
}

/// Returns the words of the assembler without those of its report.
static std::string wordsOf(StringRef text) {
  std::string words;
  for (StringRef line : split(text, '\n'))
    if (line.contains("error") || line.contains("fatal"))
      words += (words.empty() ? "" : "; ") + line.trim().str();
  return words.empty() ? text.trim().str() : words;
}

static std::string readFile(const std::string &path) {
  auto file = MemoryBuffer::getFile(path);
  return file ? (*file)->getBuffer().str() : "";
}

static std::error_code writeFile(const std::string &path, StringRef text) {
  std::error_code error;
  raw_fd_ostream file(path, error);
  if (error)
    return error;
  file << text;
  file.close();
  error = file.error();
  file.clear_error();
  return error;
}

namespace {
/// A folder for temporary files, which is removed with them.
class TemporaryFolder {
public:
  TemporaryFolder() {
    error = sys::fs::createUniqueDirectory("polyrank-ptx", path);
  }
  ~TemporaryFolder() {
    if (!error)
      sys::fs::remove_directories(path);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;

  std::string operator/(const char *name) const {
    return path.str().str() + "/" + name;
  }

  std::error_code error;

private:
  SmallString<128> path;
};
} // namespace

/// Runs a program, whose messages go to a file. Returns its status; below 0,
/// with the reason, if it did not end by itself.
static int run(ArrayRef<StringRef> arguments, const std::string &log,
               std::string &why) {
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  return sys::ExecuteAndWait(arguments[0], arguments, std::nullopt, redirects,
                             /*SecondsToWait=*/0, /*MemoryLimit=*/0, &why);
}

polyrank::Result<Assembled> Assembler::assemble(StringRef architecture,
                                                StringRef ptx) const {
  TemporaryFolder folder;
  std::string input = folder / "kernels.ptx", output = folder / "kernels.cubin",
              log = folder / "log";
  std::error_code error = folder.error ? folder.error : writeFile(input, ptx);
  if (error)
    return polyrank::Error{"cannot write temporary files: " + error.message()};
  std::string choice = ("-arch=" + architecture).str(), why;
  int status = run({path, choice, "-v", "-o", output, input}, log, why);
  Assembled assembled{readFile(output), readFile(log)};
  if (status < 0)
    return polyrank::Error{"it was ended: " + why};
  if (status > 0) {
    std::string words = wordsOf(assembled.report);
    return polyrank::Error{words.empty() ? "it ended with status " +
                                               std::to_string(status)
                                         : words};
  }
  if (assembled.cubin.empty())
    return polyrank::Error{"it wrote nothing"};
  return assembled;
}

std::string Assembler::getVersion() const {
  TemporaryFolder folder;
  std::string log = folder / "log", why;
  if (folder.error || run({path, "--version"}, log, why) != 0)
    return "";
  return readFile(log);
}
