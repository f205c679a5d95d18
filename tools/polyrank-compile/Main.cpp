// polyrank-compile compiles an exported model to a plan.

#include "runtime/report/Messages.h"
#include "support/OutOfMemory.h"
#include "tools/polyrank-compile/Options.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <malloc.h>

/// Returns the exit status, an error if output was lost. LLVM would end the
/// process with a signal. Losses on standard error are ignored.
static int checkStandardOutput(int status) {
  llvm::outs().flush();
  if (llvm::outs().has_error()) {
    llvm::errs() << "error: cannot write to standard output: "
                 << llvm::outs().error().message() << "\n";
    llvm::outs().clear_error();
    status = status ? status : 2;
  }
  llvm::errs().clear_error();
  return status;
}

int main(int argc, char **argv) {
  polyrank::runtime::takeStandardDescriptors();
  polyrank::endWhenOutOfMemory("polyrank-compile");
  // LLVM's own containers call malloc, not operator new.
  llvm::install_bad_alloc_error_handler(
      [](void *, const char *, bool) { polyrank::endOutOfMemory(); });
  // A file that reaches the limit of `ulimit -f`, and a reader that is gone,
  // become write errors instead of signals.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // Tensors of masks and tables are allocated and freed often. If freed memory
  // went back to the system, each of them would need new, zeroed pages.
  constexpr int keptBytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, keptBytes);
  mallopt(M_TRIM_THRESHOLD, keptBytes);
  auto parsed = polyrank::driver::parseOptions(argc, argv);
  if (int *status = std::get_if<int>(&parsed))
    return *status;
  return checkStandardOutput(
      polyrank::driver::compile(std::get<polyrank::driver::Options>(parsed)));
}
