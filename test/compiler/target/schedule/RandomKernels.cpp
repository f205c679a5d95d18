// Random kernels: those of random programs, with larger tensors.

#include "test/compiler/target/schedule/RandomKernels.h"

#include <cmath>
#include <cstring>

#include "compiler/codegen/Passes.h"
#include "compiler/lowering/Passes.h"
#include "compiler/sharding/Passes.h"
#include "compiler/target/Target.h"
#include "compiler/training/Passes.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "support/ElementValues.h"
#include "test/random/Narrow.h"
#include "test/random/Program.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;
using test::Random;

static constexpr int64_t dims[] = {1,  2,  3,  3,  5,   7,   16,  17,
                                   31, 33, 64, 70, 130, 257, 600, 1031};
static constexpr int64_t batches[] = {1, 2, 3, 5, 17, 33, 600, 1031};
/// Bounds serve to compare results with a tolerance; here bits are compared.
static const test::Sizes largeSizes{dims, batches, 12000, HUGE_VAL};

/// A third of the programs have little but sums: of long columns, and of rows
/// that are scattered. Another third mostly move elements, so that loops are
/// several, in orders of their own. No program has products in groups, for
/// which not every target has a call.
static SmallVector<StringRef> drawOps(Random &random) {
  if (random.chance(33))
    return {"reduce", "scatter_add", "gather", "mul",
            "add",    "layer_norm",  "cos",    "softmax"};
  if (random.chance(50))
    return {"transpose", "slice", "pad", "concat", "unfold",
            "broadcast", "add",   "neg", "reduce"};
  SmallVector<StringRef> ops;
  for (const test::OpEntry &entry : test::opTable())
    if (!StringRef(entry.op).starts_with("grouped"))
      ops.push_back(entry.op);
  return ops;
}

OwningOpRef<ModuleOp> target::drawKernels(MLIRContext &context, uint64_t seed,
                                          Attribute target) {
  Random random(seed ^ 0x6b65726e);
  test::Program program =
      test::drawProgram(context, seed, largeSizes, drawOps(random));
  if (random.chance(50))
    test::narrowSomeOps(*program.module, random);
  if (random.chance(35))
    test::widenSomeOps(*program.module, random);
  (*program.module)
      ->setAttr(rank::machineAttrName,
                rank::MachineAttr::get(&context, target));
  // One device has all of the program.
  sharding::setMesh(*program.module,
                    sharding::MeshAttr::get(
                        &context, {StringAttr::get(&context, "data")}, {1}));
  training::BuildStepPassOptions step;
  step.mode = program.mode;
  step.optimizer = program.optimizer;
  step.microbatches = program.microbatches;
  training::LowerPrecisionPassOptions precision;
  if (random.chance(30))
    precision.precision = random.pick({"bf16", "fp16"});
  lowering::ChooseOrdersOptions orders;
  orders.always = random.chance(50); // other orders have other strides
  lowering::FormAttentionOptions attention;
  attention.attention = lowering::AttentionKind::Parts;
  codegen::FormKernelsOptions form;
  form.fuse = random.chance(80);
  PassManager passes(&context);
  passes.addPass(training::createBuildStepPass(step));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(training::createLowerPrecisionPass(precision));
  passes.addNestedPass<func::FuncOp>(sharding::createPropagateLayouts());
  passes.addNestedPass<func::FuncOp>(sharding::createDecomposeComposites());
  passes.addNestedPass<func::FuncOp>(sharding::createPlanReshards());
  passes.addPass(lowering::createLocalize());
  passes.addPass(lowering::createChooseOrders(orders));
  passes.addPass(lowering::createFormLoops());
  passes.addPass(lowering::createFormAttention(attention));
  passes.addPass(lowering::createFormGemms());
  passes.addPass(codegen::createFormKernels(form));
  passes.addPass(codegen::createLowerKernels());
  return succeeded(passes.run(*program.module)) ? std::move(program.module)
                                                : nullptr;
}

/// A float in (-4, 4) with random digits.
static double drawNumber(Random &random) {
  return std::ldexp(static_cast<double>(random.between(-(1 << 30), 1 << 30)),
                    -28);
}

static double drawSpecial(Random &random, Type type) {
  double smallest = type.isF64()   ? 0x1p-1070
                    : type.isF16() ? 0x1p-23
                                   : 0x1p-140;
  return random.pick({0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1e30, -1e30,
                      1.0, -1.0, smallest * random.below(100)});
}

static int64_t drawInteger(Random &random) {
  return random.chance(85) ? random.between(-2, 20)
         : random.chance(70)
             ? random.between(-1, 1100)
             : random.between(-(int64_t(1) << 62), int64_t(1) << 62);
}

std::vector<Bytes> target::drawArguments(rank::KernelOp kernel, uint64_t seed) {
  Random random(seed);
  // Of every hundred floats of a kernel, so many are special.
  int64_t special = random.chance(25) ? 5 : 0;
  std::vector<Bytes> arguments;
  for (Type type : kernel.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    Type element = tensor.getElementType();
    Bytes &bytes = arguments.emplace_back(rank::getByteSize(tensor));
    visitElements(*graph::toElementType(element), [&]<typename T>(T) {
      for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
        T value;
        if constexpr (std::is_floating_point_v<Arithmetic<T>>)
          value = T(static_cast<Arithmetic<T>>(
              random.chance(special) ? drawSpecial(random, element)
                                     : drawNumber(random)));
        else
          value = T(static_cast<Arithmetic<T>>(
              element.isInteger(1) ? random.below(2) : drawInteger(random)));
        std::memcpy(bytes.data() + at, &value, sizeof(T));
      }
    });
  }
  return arguments;
}

FailureOr<std::vector<Bytes>>
target::evaluateKernel(rank::KernelOp kernel, const ReductionOrder &order,
                       bool flushesDenormals, ArrayRef<Bytes> arguments) {
  OwningOpRef<rank::KernelOp> copy(kernel.clone());
  kernel::LoopsOp loops = *loopsOf(*copy);
  expandFunctions(loops);
  std::vector<Bytes> operands, results;
  for (Value operand : loops.getArguments())
    operands.push_back(arguments[cast<BlockArgument>(operand).getArgNumber()]);
  for (Type type : loops.getResultTypes())
    results.emplace_back(rank::getByteSize(cast<RankedTensorType>(type)), 0xFF);
  if (failed(
          evaluateSchedule(loops, order, flushesDenormals, operands, results)))
    return failure();
  std::vector<Bytes> returned;
  for (Value value : copy->getBody().front().getTerminator()->getOperands())
    returned.push_back(results[cast<OpResult>(value).getResultNumber()]);
  return returned;
}

void KernelCounts::add(rank::KernelOp kernel, StringRef kind) {
  ++kinds[kind];
  llvm::SmallDenseSet<Type> seen;
  for (TypeRange tensors : {kernel.getArgumentTypes(), kernel.getResultTypes()})
    for (Type tensor : tensors)
      if (Type type = cast<RankedTensorType>(tensor).getElementType();
          seen.insert(type).second) {
        std::string name;
        llvm::raw_string_ostream(name) << type;
        ++types[name];
      }
}

std::vector<std::string> KernelCounts::getMissing() const {
  std::vector<std::string> missing;
  for (StringRef kind : {"map", "row", "column", "scatter"})
    if (!kinds.contains(kind))
      missing.push_back(kind.str());
  for (StringRef type : {"f32", "f64", "bf16", "f16", "i64", "i1"})
    if (!types.contains(type))
      missing.push_back(type.str());
  return missing;
}

std::string KernelCounts::print() const {
  std::string text;
  for (auto *counts : {&kinds, &types}) {
    std::vector<std::string> lines;
    for (const auto &entry : *counts)
      lines.push_back(entry.getKey().str() + " " +
                      std::to_string(entry.getValue()));
    llvm::sort(lines);
    for (const std::string &line : lines)
      text += (text.empty() ? "" : ", ") + line;
  }
  return text;
}
