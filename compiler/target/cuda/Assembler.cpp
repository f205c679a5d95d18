// CUDA's assembler, `ptxas`, which makes machine code of PTX.

#include "compiler/target/cuda/Assembler.h"

#include <cstdlib>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
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

namespace {
/// A process that assembles one text, and its files.
struct Run {
  std::string input, output, log;
  sys::ProcessInfo process;
};
} // namespace

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

polyrank::Result<void>
Assembler::assemble(std::vector<Assembly> &assemblies) const {
  SmallString<128> directory;
  if (std::error_code error =
          sys::fs::createUniqueDirectory("polyrank-ptx", directory))
    return polyrank::Error{"cannot make a folder for temporary files: " +
                           error.message()};
  scope_exit remove([&] { sys::fs::remove_directories(directory); });
  std::vector<Run> runs;
  std::string problem;
  for (const Assembly &assembly : assemblies) {
    Run &run = runs.emplace_back();
    std::string stem = directory.str().str() + "/" + assembly.architecture;
    run.input = stem + ".ptx";
    run.output = stem + ".cubin";
    run.log = stem + ".log";
    if (std::error_code error = writeFile(run.input, assembly.ptx)) {
      problem = "cannot write temporary files: " + error.message();
      break;
    }
    std::string architecture = "-arch=" + assembly.architecture;
    StringRef arguments[] = {path, architecture, "-v",
                             "-o", run.output,   run.input};
    std::optional<StringRef> redirects[] = {StringRef(""), StringRef(run.log),
                                            StringRef(run.log)};
    bool failed = false;
    run.process = sys::ExecuteNoWait(path, arguments, std::nullopt, redirects,
                                     /*MemoryLimit=*/0, &problem, &failed);
    if (failed)
      break;
  }
  for (auto [assembly, run] : llvm::zip(assemblies, runs)) {
    if (run.process.Pid == sys::ProcessInfo::InvalidPid)
      continue;
    std::string why;
    int status = sys::Wait(run.process, std::nullopt, &why).ReturnCode;
    std::string log = readFile(run.log);
    assembly.reports = parseReports(log);
    assembly.cubin = status == 0 ? readFile(run.output) : "";
    if (status > 0)
      assembly.failure = wordsOf(log);
    else if (status < 0)
      assembly.failure = "it was ended: " + why;
    else if (assembly.cubin.empty())
      assembly.failure = "it wrote nothing";
    if (status != 0 && assembly.failure.empty())
      assembly.failure = "it ended with status " + std::to_string(status);
  }
  if (!problem.empty())
    return polyrank::Error{"cannot run '" + path + "': " + problem};
  return {};
}
