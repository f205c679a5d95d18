// Random kernels of a target give, to the bit, what their schedules mean.
//
//   random-kernels-test --seed 1 --kernels 2000   those of programs 1, 2, ..
//   random-kernels-test --seed 17 --programs 1 --print
//                        one program that failed, with its kernels

#include <chrono>
#include <csignal>
#include <cstdio>

#include "compiler/target/Target.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
#include "test/compiler/target/schedule/Executor.h"
#include "test/compiler/target/schedule/RandomKernels.h"
#include "test/random/Random.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;

namespace {

struct Options {
  uint64_t seed = 1;
  int64_t kernels = 200;
  /// At most so many programs; 0: as many as give the kernels.
  int64_t programs = 0;
  int64_t failures = 5;
  std::string target = "cpu";
  bool print = false;
};

Options parse(int argc, char **argv) {
  Options options;
  auto number = [&](int &i) { return i + 1 < argc ? atoll(argv[++i]) : 0; };
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--seed")
      options.seed = number(i);
    else if (flag == "--kernels")
      options.kernels = number(i);
    else if (flag == "--programs")
      options.programs = number(i);
    else if (flag == "--failures")
      options.failures = number(i);
    else if (flag == "--target")
      options.target = i + 1 < argc ? argv[++i] : "";
    else if (flag == "--print")
      options.print = true;
    else {
      std::fprintf(stderr, "unknown option %s\n", flag.c_str());
      std::exit(1);
    }
  }
  return options;
}

std::unique_ptr<Executor> createExecutor(const std::string &target) {
  if (target == "cpu")
    return createCpuExecutor();
  std::fprintf(stderr, "no target '%s': cpu\n", target.c_str());
  std::exit(1);
}

/// The program and the kernel in progress, for the message of a crash.
std::string atWork;

void onCrash(int signal) {
  std::fprintf(stderr, "\ncrashed (signal %d) at %s\n", signal, atWork.c_str());
  std::signal(signal, SIG_DFL);
  raise(signal);
}

/// Compares kernels until there are enough.
class Comparison {
public:
  Comparison(const Options &options, Executor &executor)
      : options(options), executor(executor) {}

  /// Compares the kernels of one program.
  void run(MLIRContext &context, uint64_t seed);
  bool isDone() const {
    return done >= options.kernels || failed >= options.failures;
  }

  int64_t done = 0, failed = 0;
  KernelCounts counts;

private:
  void fail(uint64_t seed, const std::string &what, Operation *op);
  std::vector<rank::KernelOp> choose(ModuleOp module, uint64_t seed);
  std::string check(rank::KernelOp kernel, uint64_t seed);

  const Options &options;
  Executor &executor;
  /// Kernels that were compared already, without their names.
  llvm::StringSet<> seen;
};

} // namespace

void Comparison::fail(uint64_t seed, const std::string &what, Operation *op) {
  ++failed;
  std::printf("\n--seed %lu: %s\n", seed, what.c_str());
  if (options.print && op) {
    op->print(llvm::outs(), OpPrintingFlags().useLocalScope());
    llvm::outs() << "\n";
  }
  std::fflush(stdout);
}

std::string Comparison::check(rank::KernelOp kernel, uint64_t seed) {
  FailureOr<ReductionOrder> order = executor.getOrder(*loopsOf(kernel));
  if (mlir::failed(order))
    return "has no order";
  std::vector<Bytes> arguments = drawArguments(kernel, seed);
  auto expected = evaluateKernel(kernel, *order,
                                 executor.flushesDenormals(kernel), arguments);
  if (mlir::failed(expected))
    return "has no meaning";
  return executor.check(kernel, arguments, *expected, seed);
}

/// Leaves some of a module's kernels, and nothing else: those that were not
/// compared before, of each program a few, most of which are no maps.
std::vector<rank::KernelOp> Comparison::choose(ModuleOp module, uint64_t seed) {
  constexpr size_t mostKernels = 8;
  constexpr int64_t mostMaps = 3;
  std::vector<rank::KernelOp> all(module.getOps<rank::KernelOp>().begin(),
                                  module.getOps<rank::KernelOp>().end()),
      chosen;
  test::Random random(seed);
  for (size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[random.below(i)]);
  int64_t maps = 0;
  for (rank::KernelOp kernel : all) {
    FailureOr<kernel::LoopsOp> loops = loopsOf(kernel);
    bool isMap = succeeded(loops) && executor.getKind(*loops) == "map";
    std::string text;
    llvm::raw_string_ostream stream(text);
    kernel.getBody().front().print(stream);
    stream << kernel.getFunctionType();
    if (chosen.size() < mostKernels && !(isMap && maps == mostMaps) &&
        seen.insert(text).second) {
      maps += isMap;
      chosen.push_back(kernel);
    }
  }
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (auto kernel = dyn_cast<rank::KernelOp>(op);
        !kernel || !llvm::is_contained(chosen, kernel))
      op.erase();
  return chosen;
}

void Comparison::run(MLIRContext &context, uint64_t seed) {
  atWork = "seed " + std::to_string(seed);
  OwningOpRef<ModuleOp> module =
      drawKernels(context, seed, executor.getTarget(context));
  if (!module)
    return fail(seed, "a pass fails", nullptr);
  std::vector<rank::KernelOp> kernels = choose(*module, seed);
  if (std::string error = executor.compile(*module); !error.empty())
    return fail(seed, error, *module);
  for (rank::KernelOp kernel : kernels) {
    FailureOr<kernel::LoopsOp> loops = loopsOf(kernel);
    if (mlir::failed(loops))
      return fail(seed, "a kernel is not lowered", kernel);
    atWork = "seed " + std::to_string(seed) + ", " + kernel.getSymName().str();
    std::string kind = executor.getKind(*loops);
    if (std::string error = check(kernel, seed); !error.empty())
      fail(seed, kernel.getSymName().str() + ", a " + kind + ", " + error,
           kernel);
    counts.add(kernel, kind);
    if (++done, isDone())
      return;
  }
}

int main(int argc, char **argv) {
  Options options = parse(argc, argv);
  for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL})
    std::signal(signal, onCrash);
  DialectRegistry registry;
  registerDialects(registry);
  cpu::registerTarget(registry);
  std::unique_ptr<Executor> executor = createExecutor(options.target);
  Comparison comparison(options, *executor);
  auto start = std::chrono::steady_clock::now();
  std::unique_ptr<MLIRContext> context;
  int64_t programs = 0;
  for (uint64_t seed = options.seed;
       !comparison.isDone() &&
       (options.programs == 0 || programs < options.programs);
       ++seed, ++programs) {
    // Attributes live as long as their context.
    if (programs % 100 == 0) {
      context = std::make_unique<MLIRContext>(registry,
                                              MLIRContext::Threading::DISABLED);
      context->loadAllAvailableDialects();
      context->printOpOnDiagnostic(false);
    }
    comparison.run(*context, seed);
  }
  std::printf(
      "%ld kernels of %ld programs in %.1f s, %ld failed: %s\n",
      comparison.done, programs,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count(),
      comparison.failed, comparison.counts.print().c_str());
  bool isWhole = true;
  if (options.kernels >= 100 && options.programs == 0)
    for (const std::string &missing : comparison.counts.getMissing()) {
      std::printf("there was no kernel with %s\n", missing.c_str());
      isWhole = false;
    }
  return comparison.failed != 0 || !isWhole;
}
