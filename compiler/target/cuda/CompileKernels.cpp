// Compiles kernels to PTX and to machine code.

#include "compiler/target/cuda/CompileKernels.h"

#include "compiler/cost/KernelCost.h"
#include "compiler/target/KernelCache.h"
#include "compiler/target/Threads.h"
#include "compiler/target/cuda/Architecture.h"
#include "compiler/target/cuda/Assembler.h"
#include "compiler/target/cuda/LowerToLlvm.h"
#include "compiler/target/math/ExpandMath.h"
#include "mlir/IR/Threading.h"
#include "runtime/plan/plan_generated.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cuda;

LogicalResult cuda::scheduleKernel(rank::KernelOp kernel) {
  FailureOr<LoopsOp> loops = target::loopsOf(kernel);
  if (failed(loops))
    return failure();
  loops->setScheduleAttr(scheduleLoops(*loops).write(*loops));
  // The threads of a row run at different times.
  target::setInPlace(kernel, *loops, kernel::ThreadWork::PartOfRow);
  return success();
}

LogicalResult cuda::writeLaunch(rank::KernelOp kernel,
                                runtime::plan::LaunchT &written) {
  FailureOr<LoopsOp> loops = target::loopsOf(kernel);
  if (failed(loops))
    return failure();
  FailureOr<KernelSchedule> schedule = KernelSchedule::read(*loops);
  if (failed(schedule))
    return failure();
  runtime::plan::CudaLaunchT launch;
  launch.blocks = schedule->numBlocks(*loops);
  if (kernel::ScatterAddOp scatter = loops->getScatter()) {
    launch.begins = scatter.getInit() ? runtime::plan::Beginning::Copy
                                      : runtime::plan::Beginning::Zeros;
    if (scatter.getInit())
      launch.source = loops->getArgumentNumber(scatter.getInit());
  }
  written.body.Set(launch);
  return success();
}

/// As the path of the assembler: the plan has PTX alone.
static constexpr StringLiteral noAssembler = "none";

namespace {
/// The PTX of one kernel for each architecture.
struct KernelPtx {
  target::CompiledEntry entry;
  std::vector<std::string> texts;
};
} // namespace

static FailureOr<KernelPtx>
compileKernel(rank::KernelOp kernel, ArrayRef<std::string> architectures,
              const FrozenRewritePatternSet &expansions,
              const target::CompileSettings &settings) {
  llvm::LLVMContext context;
  FailureOr<LoweredKernel> lowered = lowerToLlvm(kernel, context, expansions);
  if (failed(lowered))
    return failure();
  KernelPtx result;
  result.entry.symbol = lowered->symbol;
  result.entry.threads = lowered->threads;
  result.entry.sharedBytes = lowered->sharedBytes;
  result.entry.kind = lowered->kind;
  result.entry.requestedBytes = lowered->requestedBytes;
  result.entry.loadedBytes = lowered->loadedBytes;
  for (StringRef architecture : architectures) {
    result.texts.push_back(writePtx(*lowered, architecture));
    if (result.texts.back().empty())
      return kernel.emitOpError("has no PTX for ") << architecture;
  }
  return result;
}

/// Joins the texts of kernels, each of which begins with the version, the
/// target and the size of addresses. `lines`, if it is not null, gets the
/// number of the last line of each.
static std::string joinPtx(ArrayRef<KernelPtx> kernels, size_t architecture,
                           std::vector<int64_t> *lines = nullptr) {
  constexpr StringLiteral lastOfHeader = ".address_size 64\n";
  std::string all;
  int64_t count = 0;
  for (const KernelPtx &kernel : kernels) {
    StringRef text = kernel.texts[architecture];
    if (!all.empty())
      text = text.substr(text.find(lastOfHeader) + lastOfHeader.size());
    all += text;
    count += llvm::count(text, '\n');
    if (lines)
      lines->push_back(count);
  }
  return all;
}

/// Packs the code of an image as the plan has it.
static void pack(StringRef code, target::CompiledImage &image) {
  if (code.empty())
    return;
  SmallVector<uint8_t, 0> packed;
  llvm::compression::zstd::compress(
      ArrayRef(reinterpret_cast<const uint8_t *>(code.data()), code.size()),
      packed, llvm::compression::zstd::BestSizeCompression);
  image.bytes.assign(packed.begin(), packed.end());
  image.unpacked = code.size();
}

static target::CompiledImage makeImage(StringRef code, StringRef architecture,
                                       runtime::plan::ImageFormat format,
                                       ArrayRef<KernelPtx> kernels) {
  target::CompiledImage image;
  image.format = format;
  image.machine = architecture.str();
  int version = findArchitecture(architecture)->ptxVersion;
  image.features = {
      llvm::formatv("ptx{0}.{1}", version / 10, version % 10).str()};
  for (const KernelPtx &kernel : kernels)
    image.entries.push_back(kernel.entry);
  pack(code, image);
  return image;
}

namespace {
/// Assembles the kernels of a module for several architectures.
class Images {
public:
  Images(ModuleOp module, ArrayRef<rank::KernelOp> kernels,
         ArrayRef<KernelPtx> compiled, const Assembler &assembler,
         target::KernelCache *cache)
      : module(module), kernels(kernels), compiled(compiled),
        assembler(assembler), cache(cache),
        version(cache ? assembler.getVersion() : "") {}

  /// Makes the image of an architecture, whose PTX has this number.
  FailureOr<target::CompiledImage> make(StringRef architecture, size_t number);
  /// Warns of registers that do not fit.
  void warnOfSpills(const target::CompiledImage &image);

private:
  FailureOr<std::string> assemble(StringRef architecture, StringRef ptx,
                                  ArrayRef<int64_t> lines);
  /// Emits an error that the assembler refuses a text, at the kernel that it
  /// names.
  LogicalResult explain(StringRef failure, StringRef architecture,
                        ArrayRef<int64_t> lines);

  ModuleOp module;
  ArrayRef<rank::KernelOp> kernels;
  ArrayRef<KernelPtx> compiled;
  const Assembler &assembler;
  target::KernelCache *cache;
  std::string version;
};
} // namespace

LogicalResult Images::explain(StringRef failure, StringRef architecture,
                              ArrayRef<int64_t> lines) {
  Location location = module.getLoc();
  std::string which = "the kernels";
  if (int64_t line = lineOfFailure(failure)) {
    size_t i = llvm::lower_bound(lines, line) - lines.begin();
    if (i < kernels.size()) {
      rank::KernelOp kernel = kernels[i];
      location = kernel.getLoc();
      which = "the kernel '" + kernel.getSymName().str() + "'";
    }
  }
  return emitError(location)
         << "'" << assembler.getPath() << "' does not assemble " << which
         << " for " << architecture << ": " << failure;
}

/// Returns the report behind its length, then the machine code: what a cache
/// keeps.
FailureOr<std::string> Images::assemble(StringRef architecture, StringRef ptx,
                                        ArrayRef<int64_t> lines) {
  auto assembled = assembler.assemble(architecture, ptx);
  if (!assembled)
    return explain(assembled.error().message, architecture, lines);
  return std::to_string(assembled->report.size()) + "\n" + assembled->report +
         assembled->cubin;
}

FailureOr<target::CompiledImage> Images::make(StringRef architecture,
                                              size_t number) {
  std::vector<int64_t> lines;
  std::string ptx = joinPtx(compiled, number, &lines);
  auto compile = [&] { return assemble(architecture, ptx, lines); };
  FailureOr<std::string> kept =
      cache ? cache->get({"cuda", architecture, version, ptx}, compile,
                         [&](const std::string &problem) {
                           module.emitWarning(problem);
                         })
            : compile();
  if (failed(kept))
    return failure();
  StringRef rest = *kept;
  size_t length = 0;
  rest.consumeInteger(10, length);
  rest = rest.drop_front(); // the end of the line
  auto reports = parseReports(rest.take_front(length));
  target::CompiledImage image =
      makeImage(rest.drop_front(length), architecture,
                runtime::plan::ImageFormat::cubin, compiled);
  for (target::CompiledEntry &entry : image.entries) {
    const CodeReport &report = reports[entry.symbol];
    entry.registers = report.registers;
    entry.spilledBytes = report.spillStores + report.spillLoads;
    entry.stackBytes = report.stackBytes;
  }
  return image;
}

void Images::warnOfSpills(const target::CompiledImage &image) {
  for (auto [each, entry] : llvm::zip_equal(kernels, image.entries))
    if (rank::KernelOp kernel = each; entry.spilledBytes)
      kernel.emitWarning("kernel '")
          << kernel.getSymName() << "' runs out of registers on "
          << image.machine << ": of " << entry.registers
          << " that each thread has, it writes and reads " << entry.spilledBytes
          << " bytes in memory";
}

/// Finds the assembler that the settings ask for; nullopt if there is none, or
/// none is wanted.
static FailureOr<std::optional<Assembler>>
findAssembler(ModuleOp module, const target::CompileSettings &settings) {
  if (settings.assembler == noAssembler)
    return std::optional<Assembler>();
  auto found = Assembler::find(settings.assembler);
  if (!found)
    return module.emitError("--ptxas: ") << found.error().message;
  if (!*found)
    module.emitRemark("PTX only: there is no ptxas in PATH, in $CUDA_HOME/bin "
                      "or in /usr/local/cuda/bin, so that the driver compiles "
                      "the kernels when the plan is loaded; --ptxas FILE names "
                      "one");
  return *std::move(found);
}

FailureOr<target::CompiledKernels>
cuda::compileKernels(ModuleOp module, ArrayRef<std::string> architectures,
                     const target::CompileSettings &settings) {
  SmallVector<rank::KernelOp> kernels(module.getOps<rank::KernelOp>());
  auto assembler = findAssembler(module, settings);
  if (failed(assembler))
    return failure();
  MLIRContext *context = module.getContext();
  loadDialects(context);
  RewritePatternSet patterns(context);
  target::populateMathExpansions(patterns);
  FrozenRewritePatternSet expansions(std::move(patterns));
  // The last text is the PTX of the plan.
  std::vector<std::string> versions;
  if (*assembler)
    versions = architectures.vec();
  versions.push_back(oldestArchitecture.str());
  std::vector<KernelPtx> compiled(kernels.size());
  {
    target::Threads threads(context);
    ParallelDiagnosticHandler diagnostics(context);
    if (failed(failableParallelForEachN(
            context, 0, kernels.size(), [&](size_t i) -> LogicalResult {
              diagnostics.setOrderIDForThread(i);
              FailureOr<KernelPtx> ptx =
                  compileKernel(kernels[i], versions, expansions, settings);
              diagnostics.eraseOrderIDForThread();
              if (failed(ptx))
                return failure();
              compiled[i] = std::move(*ptx);
              return success();
            })))
      return failure();
  }
  target::CompiledKernels result;
  for (rank::KernelOp kernel : kernels) {
    FailureOr<LoopsOp> loops = target::loopsOf(kernel);
    if (failed(loops))
      return failure();
    graph::Cost cost = cost::getCost(*loops);
    result.kernels.push_back({kernel.getSymName().str(), cost.flops,
                              cost.bytesRead, cost.bytesWritten});
  }
  if (*assembler && !kernels.empty()) {
    Images images(module, kernels, compiled, **assembler, settings.cache);
    result.images.resize(architectures.size());
    target::Threads threads(context);
    ParallelDiagnosticHandler diagnostics(context);
    if (failed(failableParallelForEachN(
            context, 0, architectures.size(), [&](size_t i) -> LogicalResult {
              diagnostics.setOrderIDForThread(i);
              auto image = images.make(architectures[i], i);
              diagnostics.eraseOrderIDForThread();
              if (failed(image))
                return failure();
              result.images[i] = std::move(*image);
              return success();
            })))
      return failure();
    for (const target::CompiledImage &image : result.images)
      images.warnOfSpills(image);
    if (settings.cache)
      settings.cache->prune();
  }
  result.images.push_back(makeImage(joinPtx(compiled, versions.size() - 1),
                                    oldestArchitecture,
                                    runtime::plan::ImageFormat::ptx, compiled));
  return result;
}
