// Random kernels of each target give, to the bit, what their schedules mean.
//
//   random-kernels-test --kernels 2000            those of programs 1, 2, ..
//   random-kernels-test --seed 17 --programs 1 --print
//                        one program that failed; prints its kernels
//   random-kernels-test --gtest_filter=*Cpu*      those of one target

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <gtest/gtest.h>

#include "compiler/target/Target.h"
#include "dialects/Register.h"
#include "test/compiler/target/cuda/CudaExecutor.h"
#include "test/compiler/target/schedule/Executor.h"
#include "test/compiler/target/schedule/RandomKernels.h"
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
  bool print = false;
} options;

void parse(int argc, char **argv) {
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
    else if (flag == "--print")
      options.print = true;
    else {
      std::fprintf(stderr, "unknown option %s\n", flag.c_str());
      std::exit(1);
    }
  }
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
  explicit Comparison(Executor &executor) : executor(executor) {}

  /// Compares the kernels of one program.
  void run(MLIRContext &context, uint64_t seed);
  bool isDone() const {
    return done >= options.kernels || failed >= options.failures;
  }

  int64_t done = 0, failed = 0;
  KernelCounts counts;

private:
  void fail(uint64_t seed, const std::string &what);
  std::vector<rank::KernelOp> choose(ModuleOp module, uint64_t seed);
  std::string check(rank::KernelOp kernel, uint64_t seed);

  Executor &executor;
  /// Kernels that were compared already, without their names.
  llvm::StringSet<> seen;
};

} // namespace

void Comparison::fail(uint64_t seed, const std::string &what) {
  ++failed;
  ADD_FAILURE() << "--seed " << seed << ": " << what;
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
/// compared before, and of each kind a few, since programs have many maps. A
/// window of hundreds of elements makes a kernel of thousands of ops, which
/// takes minutes to compile.
std::vector<rank::KernelOp> Comparison::choose(ModuleOp module, uint64_t seed) {
  constexpr int64_t mostOfKind = 2;
  constexpr size_t mostValues = 300;
  std::vector<rank::KernelOp> all(module.getOps<rank::KernelOp>().begin(),
                                  module.getOps<rank::KernelOp>().end()),
      chosen;
  test::Random random(seed);
  for (size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[random.below(i)]);
  // Maps of one loop, as elementwise ops are, come last.
  std::stable_partition(all.begin(), all.end(), [](rank::KernelOp kernel) {
    return (*loopsOf(kernel)).getVariables().size() > 1;
  });
  llvm::StringMap<int64_t> kinds;
  for (rank::KernelOp kernel : all) {
    kernel::LoopsOp loops = *loopsOf(kernel);
    int64_t &ofKind = kinds[executor.getKind(loops)];
    std::string text;
    llvm::raw_string_ostream stream(text);
    kernel.getBody().front().print(stream);
    stream << kernel.getFunctionType();
    if (ofKind < mostOfKind && loops.countValues() <= mostValues &&
        seen.insert(text).second) {
      ++ofKind;
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
    return fail(seed, "a pass fails");
  std::vector<rank::KernelOp> kernels = choose(*module, seed);
  test::Random random(seed ^ 0x7363);
  for (rank::KernelOp kernel : kernels)
    if (random.chance(50))
      executor.vary(*loopsOf(kernel), random);
  if (options.print) {
    module->print(llvm::outs(), OpPrintingFlags().useLocalScope());
    llvm::outs().flush();
  }
  if (std::string error = executor.compile(*module); !error.empty())
    return fail(seed, error);
  for (rank::KernelOp kernel : kernels) {
    kernel::LoopsOp loops = *loopsOf(kernel);
    atWork = "seed " + std::to_string(seed) + ", " + kernel.getSymName().str();
    std::string kind = executor.getKind(loops);
    if (std::string error = check(kernel, seed); !error.empty())
      fail(seed, kernel.getSymName().str() + ", a " + kind + ", " + error);
    counts.add(kernel, kind);
    if (FailureOr<ReductionOrder> order = executor.getOrder(loops);
        succeeded(order) && order->part)
      counts.add(kernel, "column in parts");
    if (++done, isDone())
      return;
  }
}

/// Compares as many kernels as are wanted, and demands all kinds and types.
static void compare(std::unique_ptr<Executor> executor) {
  DialectRegistry registry;
  registerDialects(registry);
  executor->registerTarget(registry);
  Comparison comparison(*executor);
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
  std::printf("%ld kernels of %ld programs: %s\n%s", comparison.done, programs,
              comparison.counts.print().c_str(), executor->getReport().c_str());
  if (comparison.done >= 100)
    EXPECT_EQ(comparison.counts.getMissing(), std::vector<std::string>());
}

TEST(RandomKernels, OfTheCpuGiveWhatTheirSchedulesMean) {
  compare(createCpuExecutor());
}

TEST(RandomKernels, OfGpusGiveWhatTheirSchedulesMeanInEveryOrder) {
  compare(createCudaExecutor());
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  parse(argc, argv);
  for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL})
    std::signal(signal, onCrash);
  return RUN_ALL_TESTS();
}
