// polyrank-compile: an exported model to a plan.

#include "runtime/report/Messages.h"
#include "support/OutOfMemory.h"
#include "tools/polyrank-compile/Options.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <malloc.h>

/// The status of a call whose output may have been lost. LLVM would end it
/// with a signal; what standard error has lost is no reason to.
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
  // LLVM's own containers ask malloc.
  llvm::install_bad_alloc_error_handler(
      [](void *, const char *, bool) { polyrank::endOutOfMemory(); });
  // A file that reaches the limit of `ulimit -f`, and a reader that is gone,
  // are write errors and no signals.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // Tensors of masks and tables come and go; given back to the system, each of
  // them would be made of new, zeroed pages.
  constexpr int keptBytes = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, keptBytes);
  mallopt(M_TRIM_THRESHOLD, keptBytes);
  auto parsed = polyrank::driver::parseOptions(argc, argv);
  if (int *status = std::get_if<int>(&parsed))
    return *status;
  return checkStandardOutput(
      polyrank::driver::compile(std::get<polyrank::driver::Options>(parsed)));
}
