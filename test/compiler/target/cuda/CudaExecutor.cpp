// Runs the twins of the cuda target's kernels, in ten orders each.

#include "test/compiler/target/cuda/CudaExecutor.h"

#include <cstring>

#include "compiler/target/Target.h"
#include "compiler/target/cuda/Cuda.h"
#include "compiler/target/cuda/CudaTarget.h"
#include "compiler/target/cuda/LowerToLlvm.h"
#include "compiler/target/math/ExpandMath.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "test/compiler/target/cuda/TwinModule.h"
#include "test/compiler/target/schedule/EvaluateElement.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;
using twin::TwinModule;

namespace {

constexpr uint64_t numOrders = 10;
/// Buffers begin where those of a device begin.
constexpr size_t bufferAlignment = 256;

/// Memory of a device, with a copy of some bytes.
class DeviceMemory {
public:
  explicit DeviceMemory(const Bytes &bytes) : DeviceMemory(bytes.size()) {
    std::memcpy(data(), bytes.data(), bytes.size());
  }
  explicit DeviceMemory(size_t size)
      : size(size), storage(size + bufferAlignment, 0xFF) {}

  unsigned char *data() {
    void *place = storage.data();
    size_t space = storage.size();
    return static_cast<unsigned char *>(
        std::align(bufferAlignment, size, place, space));
  }

private:
  size_t size;
  Bytes storage;
};

class CudaExecutor : public Executor {
public:
  void registerTarget(DialectRegistry &registry) const override {
    cuda::registerTarget(registry);
  }
  Attribute getTarget(MLIRContext &context) const override {
    return cuda::parseTarget(context, "");
  }
  FailureOr<ReductionOrder> getOrder(kernel::LoopsOp loops) const override {
    return getCudaOrder(loops);
  }
  bool flushesDenormals(rank::KernelOp kernel) const override;
  std::string getKind(kernel::LoopsOp loops) const override;
  void vary(kernel::LoopsOp loops, test::Random &random) const override;
  std::string compile(ModuleOp module) override;
  std::string check(rank::KernelOp kernel, ArrayRef<Bytes> arguments,
                    ArrayRef<Bytes> expected, uint64_t seed) override;
  std::string getReport() const override;

private:
  /// A compiled kernel.
  struct Compiled {
    std::unique_ptr<TwinModule> twin;
    std::string symbol;
    int64_t blocks;
    int threads;
    bool flushesDenormals;
  };
  std::string run(rank::KernelOp kernel, ArrayRef<Bytes> arguments,
                  ArrayRef<Bytes> expected, uint64_t seed, bool inPlace,
                  bool countsTraffic);

  llvm::StringMap<Compiled> kernels;
  /// By kind.
  llvm::StringMap<twin::Traffic> traffic;
};

} // namespace

/// A CPU would flush f64, too, which a GPU never does.
bool CudaExecutor::flushesDenormals(rank::KernelOp kernel) const {
  auto isDouble = [](Type type) {
    return cast<RankedTensorType>(type).getElementType().isF64();
  };
  auto known = kernels.find(kernel.getSymName());
  return known != kernels.end() && known->second.flushesDenormals &&
         llvm::none_of(kernel.getArgumentTypes(), isDouble) &&
         llvm::none_of(kernel.getResultTypes(), isDouble);
}

std::string CudaExecutor::getKind(kernel::LoopsOp loops) const {
  auto schedule = dyn_cast_or_null<cuda::ScheduleAttr>(loops.getScheduleAttr());
  return schedule ? cuda::stringifyLoopKind(schedule.getKind()).str() : "";
}

void CudaExecutor::vary(kernel::LoopsOp loops, test::Random &random) const {
  FailureOr<cuda::KernelSchedule> read = cuda::KernelSchedule::read(loops);
  if (failed(read))
    return;
  cuda::KernelSchedule schedule = *read;
  using cuda::LoopKind;
  int64_t size =
      schedule.vector < 0 ? 1 : loops.getVariables()[schedule.vector].size;
  if (schedule.kind != LoopKind::Column && schedule.vector >= 0)
    schedule.lanes = random.pick({1, 2, 4, 8});
  while (schedule.kind != LoopKind::Map && size % schedule.lanes != 0)
    schedule.lanes /= 2;
  switch (schedule.kind) {
  case LoopKind::Map:
    schedule.tiled = -1;
    schedule.inside.clear();
    schedule.threads = random.pick({32, 64, 96, 256});
    if (schedule.vector < 0)
      break;
    if (!schedule.items.empty() && random.chance(50)) {
      // Tiles of any item, with or without another one inside.
      schedule.lanes = schedule.vectors = 1;
      schedule.tiled = random.pick(schedule.items);
      int within = random.pick(schedule.items);
      if (within != schedule.tiled)
        schedule.inside.push_back(within);
      schedule.threads = schedule.inside.empty() ? 256 : 32;
    } else {
      schedule.vectors = random.between(1, 4);
    }
    break;
  case LoopKind::Row: {
    schedule.threads = random.pick({32, 64, 96, 128, 192, 512});
    schedule.sharing =
        random.pick<int64_t>({1, 2, 8, 32, schedule.threads, schedule.threads});
    auto vectors = static_cast<int64_t>(
        llvm::divideCeil(schedule.numShared(loops), schedule.sharing));
    schedule.kept = vectors <= 8 && random.chance(60) ? vectors : 0;
    break;
  }
  case LoopKind::Column:
    schedule.sharing = random.pick({1, 2, 3, 5, 8, 16});
    schedule.threads = schedule.sharing * twin::warpSize;
    schedule.part = random.pick({0, 0, 2, 7});
    break;
  case LoopKind::Scatter:
    schedule.threads = random.pick({32, 64, 96, 128});
    break;
  }
  // Tiles of large windows do not fit in shared memory.
  ScopedDiagnosticHandler quiet(loops.getContext(),
                                [](Diagnostic &) { return success(); });
  if (succeeded(schedule.verify(loops)))
    loops.setScheduleAttr(schedule.write(loops));
}

std::string CudaExecutor::compile(ModuleOp module) {
  kernels.clear();
  MLIRContext *context = module.getContext();
  cuda::loadDialects(context);
  RewritePatternSet patterns(context);
  populateMathExpansions(patterns);
  FrozenRewritePatternSet expansions(std::move(patterns));
  for (auto kernel : module.getOps<rank::KernelOp>()) {
    llvm::LLVMContext llvmContext;
    FailureOr<cuda::LoweredKernel> lowered =
        cuda::lowerToLlvm(kernel, llvmContext, expansions);
    if (failed(lowered))
      return kernel.getSymName().str() + " does not lower to LLVM IR";
    llvm::Attribute denormals = lowered->module->getFunction(lowered->symbol)
                                    ->getFnAttribute("denormal-fp-math-f32");
    auto created = TwinModule::create(*lowered->module);
    if (!created)
      return created.error().message;
    kernels[kernel.getSymName()] = {
        std::move(*created), lowered->symbol, lowered->blocks,
        static_cast<int>(lowered->threads),
        denormals.isValid() &&
            denormals.getValueAsString().starts_with("preserve-sign")};
  }
  return "";
}

std::string CudaExecutor::run(rank::KernelOp kernel, ArrayRef<Bytes> arguments,
                              ArrayRef<Bytes> expected, uint64_t seed,
                              bool inPlace, bool countsTraffic) {
  const Compiled &compiled = kernels.find(kernel.getSymName())->second;
  kernel::LoopsOp loops = *loopsOf(kernel);
  auto elementOf = [](Type type) {
    return cast<RankedTensorType>(type).getElementType();
  };
  twin::Launch launch;
  std::vector<DeviceMemory> memory;
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes()))
    memory.emplace_back(arguments[i]);
  // For each result, the argument whose buffer it takes.
  SmallVector<int64_t> taken(expected.size(), -1);
  for (auto [r, result] : llvm::enumerate(expected)) {
    for (int64_t argument : kernel.getInPlace(r))
      if (inPlace && taken[r] < 0 && !llvm::is_contained(taken, argument))
        taken[r] = argument;
    memory.emplace_back(result.size());
  }
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes()))
    launch.buffers.push_back({"argument " + std::to_string(i), memory[i].data(),
                              arguments[i].size(),
                              getElementBytes(elementOf(type)),
                              /*isArgument=*/true, false, false});
  // A scatter begins with zeros, or with what it is added to.
  kernel::ScatterAddOp scatter = loops.getScatter();
  SmallVector<unsigned char *> places;
  for (auto [r, result] : llvm::enumerate(expected)) {
    unsigned char *place = memory[arguments.size() + r].data();
    if (taken[r] >= 0) {
      places.push_back(memory[taken[r]].data());
      launch.buffers[taken[r]].isResult =
          !scatter && arguments[taken[r]].size() == result.size();
      continue;
    }
    if (scatter) {
      std::memset(place, 0, result.size());
      if (Value init = scatter.getInit())
        std::memcpy(place,
                    arguments[cast<BlockArgument>(init).getArgNumber()].data(),
                    result.size());
    }
    places.push_back(place);
    launch.buffers.push_back(
        {"result " + std::to_string(r), place, result.size(),
         getElementBytes(elementOf(kernel.getResultTypes()[r])),
         /*isArgument=*/scatter != nullptr, /*isResult=*/!scatter, false});
  }
  SmallVector<void *> pointers;
  for (size_t i = 0; i < arguments.size(); ++i)
    pointers.push_back(memory[i].data());
  llvm::append_range(pointers, places);
  for (void *&pointer : pointers)
    launch.parameters.push_back(&pointer);
  launch.blocks = compiled.blocks;
  launch.threads = compiled.threads;
  launch.seed = seed;
  launch.countsTraffic = countsTraffic;
  launch.flushesDenormals = flushesDenormals(kernel);
  auto report = compiled.twin->run(compiled.symbol, launch);
  if (!report)
    return report.error().message;
  if (!report->findings.empty())
    return report->print();
  // What other schedules move is not the target's choice.
  if (cuda::scheduleLoops(loops).write(loops) == loops.getScheduleAttr()) {
    twin::Traffic &sum = traffic[getKind(loops)];
    sum.accesses += report->traffic.accesses;
    sum.sectors += report->traffic.sectors;
    sum.idealSectors += report->traffic.idealSectors;
  }
  for (auto [r, result] : llvm::enumerate(expected)) {
    Bytes found(places[r], places[r] + result.size());
    if (std::string difference = findDifference(
            elementOf(kernel.getResultTypes()[r]), found, result);
        !difference.empty())
      return "of result " + std::to_string(r) + " " + difference;
  }
  return "";
}

std::string CudaExecutor::check(rank::KernelOp kernel,
                                ArrayRef<Bytes> arguments,
                                ArrayRef<Bytes> expected, uint64_t seed) {
  for (uint64_t order = 0; order < numOrders; ++order) {
    bool inPlace = order % 3 == 2;
    std::string error = run(kernel, arguments, expected, seed + order, inPlace,
                            /*countsTraffic=*/order == 0);
    if (!error.empty())
      return std::string(inPlace ? "in place: " : "") + error;
  }
  return "";
}

std::string CudaExecutor::getReport() const {
  std::string text;
  for (const auto &entry : traffic) {
    const twin::Traffic &sum = entry.getValue();
    text += llvm::formatv("{0}: {1} accesses of warps, {2} sectors, {3:f2} of "
                          "the ideal\n",
                          entry.getKey(), sum.accesses, sum.sectors,
                          static_cast<double>(sum.sectors) /
                              std::max<int64_t>(1, sum.idealSectors))
                .str();
  }
  return text;
}

std::unique_ptr<Executor> target::createCudaExecutor() {
  return std::make_unique<CudaExecutor>();
}
