// Runs a CPU's kernels: whole, in pieces and in place.

#include "compiler/target/cpu/Cpu.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "compiler/target/cpu/KernelSchedule.h"
#include "test/compiler/codegen/KernelImage.h"
#include "test/compiler/target/schedule/Executor.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;
using codegen::KernelImage;

namespace {

/// Bytes after each buffer, which kernels must not touch.
constexpr size_t guardSize = 256;
constexpr unsigned char guardByte = 0xA5;

class CpuExecutor : public Executor {
public:
  void registerTarget(DialectRegistry &registry) const override {
    cpu::registerTarget(registry);
  }
  Attribute getTarget(MLIRContext &context) const override {
    return cpu::TargetAttr::get(&context, "native");
  }
  FailureOr<ReductionOrder> getOrder(kernel::LoopsOp loops) const override {
    return getCpuOrder(loops);
  }
  bool flushesDenormals(rank::KernelOp) const override { return false; }
  std::string getKind(kernel::LoopsOp loops) const override {
    auto schedule =
        dyn_cast_or_null<cpu::ScheduleAttr>(loops.getScheduleAttr());
    return schedule ? cpu::stringifyLoopKind(schedule.getKind()).str() : "";
  }
  void vary(kernel::LoopsOp loops, test::Random &random) const override;
  std::string compile(ModuleOp module) override;
  std::string check(rank::KernelOp kernel, ArrayRef<Bytes> arguments,
                    ArrayRef<Bytes> expected, uint64_t seed) override;

private:
  /// How one run goes.
  struct Manner {
    const char *name;
    /// Items that are run at once, from the last to the first if `backwards`.
    int64_t piece;
    bool backwards, inPlace;
  };
  std::string run(rank::KernelOp kernel, ArrayRef<Bytes> arguments,
                  ArrayRef<Bytes> expected, const Manner &manner) const;

  std::unique_ptr<KernelImage> image;
};

} // namespace

void CpuExecutor::vary(kernel::LoopsOp loops, test::Random &random) const {
  FailureOr<cpu::KernelSchedule> read = cpu::KernelSchedule::read(loops);
  if (failed(read))
    return;
  cpu::KernelSchedule schedule = *read;
  using cpu::LoopKind;
  if (schedule.kind != LoopKind::Scatter)
    schedule.lanes = random.pick({4, 8, 16, 32, 64});
  bool hasBlocks =
      schedule.vectorVariable >= 0 &&
      (schedule.kind == LoopKind::Map || schedule.kind == LoopKind::Column);
  schedule.block = hasBlocks ? schedule.lanes * random.below(4) : 0;
  if (schedule.kind == LoopKind::Column)
    schedule.part = random.pick({0, 0, 2, 7, 16});
  loops.setScheduleAttr(schedule.write(loops));
}

std::string CpuExecutor::compile(ModuleOp module) {
  image.reset();
  FailureOr<KernelTarget> target = getKernelTarget(module);
  if (failed(target))
    return "there is no target";
  FailureOr<CompiledKernels> compiled = target->compileKernels(module, {});
  if (failed(compiled))
    return "the kernels do not compile";
  if (compiled->kernels.empty())
    return "";
  auto loaded = KernelImage::load(*compiled);
  if (!loaded)
    return loaded.error().message;
  image = std::move(*loaded);
  return "";
}

static Bytes guarded(Bytes bytes) {
  bytes.resize(bytes.size() + guardSize, guardByte);
  return bytes;
}

std::string CpuExecutor::run(rank::KernelOp kernel, ArrayRef<Bytes> arguments,
                             ArrayRef<Bytes> expected,
                             const Manner &manner) const {
  SmallVector<Bytes> inputs, outputs;
  for (const Bytes &argument : arguments)
    inputs.push_back(guarded(argument));
  for (const Bytes &result : expected)
    outputs.push_back(guarded(Bytes(result.size(), 0xFF)));
  // For each result, the argument whose buffer it takes.
  SmallVector<int64_t> taken(outputs.size(), -1);
  SmallVector<void *> buffers;
  for (Bytes &input : inputs)
    buffers.push_back(input.data());
  for (auto [r, output] : llvm::enumerate(outputs)) {
    for (int64_t argument : kernel.getInPlace(r))
      if (manner.inPlace && taken[r] < 0 &&
          !llvm::is_contained(taken, argument))
        taken[r] = argument;
    buffers.push_back(taken[r] < 0 ? output.data() : inputs[taken[r]].data());
  }
  int64_t range = KernelImage::getRange(kernel);
  int64_t pieces = llvm::divideCeil(range, manner.piece);
  for (int64_t p = 0; p < pieces; ++p) {
    int64_t begin = (manner.backwards ? pieces - 1 - p : p) * manner.piece;
    image->find(kernel.getSymName())(buffers.data(), begin,
                                     std::min(range, begin + manner.piece));
  }
  for (auto *group : {&inputs, &outputs})
    for (const Bytes &bytes : *group)
      if (std::any_of(bytes.end() - guardSize, bytes.end(),
                      [](unsigned char byte) { return byte != guardByte; }))
        return std::string(manner.name) + " writes behind a buffer";
  for (auto [r, result] : llvm::enumerate(expected)) {
    Bytes &output = taken[r] < 0 ? outputs[r] : inputs[taken[r]];
    output.resize(result.size());
    Type element =
        cast<RankedTensorType>(kernel.getResultTypes()[r]).getElementType();
    if (std::string difference = findDifference(element, output, result);
        !difference.empty())
      return std::string(manner.name) + ": of result " + std::to_string(r) +
             " " + difference;
  }
  return "";
}

std::string CpuExecutor::check(rank::KernelOp kernel, ArrayRef<Bytes> arguments,
                               ArrayRef<Bytes> expected, uint64_t seed) {
  test::Random random(seed);
  for (const Manner &manner :
       {Manner{"whole", int64_t(1) << 40, false, false},
        Manner{"in pieces", random.between(1, 7), true, false},
        Manner{"in place", random.between(1, 7), false, true}})
    if (std::string error = run(kernel, arguments, expected, manner);
        !error.empty())
      return error;
  return "";
}

std::unique_ptr<Executor> target::createCpuExecutor() {
  return std::make_unique<CpuExecutor>();
}
