// Runs a function of graph ops by reference and as kernels.

#include "test/compiler/codegen/KernelRunner.h"

#include <chrono>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "compiler/codegen/Passes.h"
#include "compiler/target/cpu/Cpu.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/graph/ElementTypes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "support/ElementValues.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::Tensor;

template <typename Number>
static void put(Bytes &bytes, int64_t i, Number value) {
  std::memcpy(bytes.data() + i * sizeof(Number), &value, sizeof(Number));
}
template <typename Number>
static Number take(const Bytes &bytes, int64_t i) {
  Number value;
  std::memcpy(&value, bytes.data() + i * sizeof(Number), sizeof(Number));
  return value;
}

Bytes polyrank::codegen::toBytes(const Tensor &tensor) {
  Bytes bytes(rank::getByteSize(tensor.getType()));
  Type type = tensor.elementType;
  for (int64_t i = 0, n = tensor.size(); i < n; ++i) {
    visitElements(*graph::toElementType(type), [&]<typename T>(T) {
      if constexpr (std::is_floating_point_v<Arithmetic<T>>)
        put(bytes, i, T(static_cast<Arithmetic<T>>(tensor.floats[i])));
      else
        put(bytes, i, T(static_cast<Arithmetic<T>>(tensor.integers[i])));
    });
  }
  return bytes;
}

Tensor polyrank::codegen::fromBytes(const Bytes &bytes, RankedTensorType type) {
  Tensor tensor(type);
  Type element = type.getElementType();
  for (int64_t i = 0, n = tensor.size(); i < n; ++i) {
    visitElements(*graph::toElementType(element), [&]<typename T>(T) {
      Arithmetic<T> value = take<T>(bytes, i);
      if constexpr (std::is_floating_point_v<Arithmetic<T>>)
        tensor.floats[i] = value;
      else
        tensor.integers[i] = value;
    });
  }
  return tensor;
}

Tensor polyrank::codegen::randomTensor(RankedTensorType type, double low,
                                       double high, unsigned seed) {
  Tensor tensor(type);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> number(low, high);
  for (int64_t i = 0, n = tensor.size(); i < n; ++i) {
    double value = number(random);
    if (tensor.isFloat())
      tensor.floats[i] = graph::roundTo(
          cast<FloatType>(type.getElementType().isF64()
                              ? Float32Type::get(type.getContext())
                              : type.getElementType()),
          value);
    else if (type.getElementType().isInteger(1))
      tensor.integers[i] = value > (low + high) / 2;
    else
      tensor.integers[i] = static_cast<int64_t>(std::floor(value));
  }
  return tensor;
}

KernelRunner::KernelRunner(const std::string &text, bool fuse,
                           const std::string &machine) {
  DialectRegistry registry;
  registry.insert<graph::GraphDialect, sharding::ShardingDialect,
                  rank::RankDialect, func::FuncDialect>();
  cpu::registerTarget(registry);
  context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  source = parseSourceString<ModuleOp>(text, context.get());
  if (!source) {
    ADD_FAILURE() << "cannot parse " << text;
    return;
  }
  type = source->lookupSymbol<func::FuncOp>("main").getFunctionType();
  (*source)->setAttr(
      rank::machineAttrName,
      rank::MachineAttr::get(context.get(),
                             cpu::TargetAttr::get(context.get(), machine)));
  module = source->clone();
  PassManager passes(context.get());
  FormKernelsOptions formOptions;
  formOptions.fuse = fuse;
  passes.addPass(createFormKernels(formOptions));
  passes.addPass(createLowerKernels());
  if (failed(passes.run(*module))) {
    ADD_FAILURE() << "form-kernels fails";
    return;
  }
  module->walk([&](rank::LaunchOp) { ++numLaunches; });
  const char *directory = std::getenv("POLYRANK_DUMP_KERNELS");
  FailureOr<target::CompiledKernels> compiled =
      target::getKernelTarget(*module)->compileKernels(
          *module, {.dumpDirectory = directory ? directory : ""});
  if (failed(compiled)) {
    ADD_FAILURE() << "the kernels do not compile";
    return;
  }
  kernels = std::move(*compiled);
  if (kernels.kernels.empty())
    return;
  load();
}

void KernelRunner::load() {
  auto loaded = KernelImage::load(kernels);
  ASSERT_TRUE(bool(loaded)) << loaded.error().message;
  image = std::move(*loaded);
  for (const target::CompiledKernel &kernel : kernels.kernels) {
    int64_t &range = ranges[kernel.symbol];
    range = KernelImage::getRange(
        module->lookupSymbol<rank::KernelOp>(kernel.symbol));
    ASSERT_GT(range, 0) << kernel.symbol;
  }
}

rank::KernelOp KernelRunner::getKernel(unsigned index) {
  return *std::next(module->getOps<rank::KernelOp>().begin(), index);
}

std::vector<Tensor> KernelRunner::evaluate(const std::vector<Tensor> &inputs,
                                           graph::Rounding rounding) {
  auto function = source->lookupSymbol<func::FuncOp>("main");
  DenseMap<Value, Tensor> values;
  for (auto [argument, input] :
       llvm::zip_equal(function.getArguments(), inputs))
    values[argument] = input;
  std::vector<Tensor> results;
  for (Operation &op : function.getBody().front()) {
    SmallVector<Tensor> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    if (isa<func::ReturnOp>(op)) {
      results.assign(operands.begin(), operands.end());
      break;
    }
    SmallVector<Tensor> opResults;
    for (Value result : op.getResults())
      opResults.emplace_back(cast<RankedTensorType>(result.getType()));
    EXPECT_TRUE(
        succeeded(cast<graph::GraphOp>(op).evaluate(operands, opResults)));
    for (auto [result, value] : llvm::zip_equal(op.getResults(), opResults)) {
      value.round(rounding);
      values[result] = value;
    }
  }
  return results;
}

/// A guard after each buffer, which kernels must not touch.
static constexpr size_t guardSize = 256;
static constexpr unsigned char guardByte = 0xA5;

std::vector<Bytes> KernelRunner::run(const std::vector<Bytes> &inputs,
                                     int64_t piece, bool backwards) {
  return run(inputs, piece, backwards, /*inPlace=*/false);
}

std::vector<Bytes> KernelRunner::runInPlace(const std::vector<Bytes> &inputs) {
  return run(inputs, 5, /*backwards=*/false, /*inPlace=*/true);
}

std::vector<Bytes> KernelRunner::run(const std::vector<Bytes> &inputs,
                                     int64_t piece, bool backwards,
                                     bool inPlace) {
  std::vector<Bytes> results;
  if (!module)
    return results;
  auto function = module->lookupSymbol<func::FuncOp>("main");
  DenseMap<Value, Bytes> values;
  auto guarded = [](Bytes bytes) {
    bytes.resize(bytes.size() + guardSize, guardByte);
    return bytes;
  };
  for (auto [argument, input] :
       llvm::zip_equal(function.getArguments(), inputs))
    values[argument] = guarded(input);
  for (Operation &op : function.getBody().front()) {
    if (auto constant = dyn_cast<rank::ConstantOp>(op)) {
      values[constant.getResult()] = guarded(toBytes(
          Tensor::fromAttribute(cast<DenseElementsAttr>(constant.getValue()))));
    } else if (auto view = dyn_cast<rank::ViewOp>(op)) {
      size_t size = rank::getByteSize(view.getResult().getType());
      const Bytes &from = values[view.getInput()];
      Bytes part(from.begin(), from.begin() + size);
      values[view.getResult()] = guarded(part);
    } else if (auto launch = dyn_cast<rank::LaunchOp>(op)) {
      auto kernel = module->lookupSymbol<rank::KernelOp>(launch.getKernel());
      std::vector<Bytes> arguments, outputs;
      for (Value operand : launch.getOperands())
        arguments.push_back(values[operand]);
      std::vector<void *> buffers;
      for (Bytes &argument : arguments)
        buffers.push_back(argument.data());
      // For each result, the argument whose buffer it takes.
      std::vector<int64_t> taken(launch.getNumResults(), -1);
      for (auto [r, result] : llvm::enumerate(launch.getResults())) {
        for (int64_t argument : kernel.getInPlace(r))
          if (inPlace && taken[r] < 0 && !llvm::is_contained(taken, argument))
            taken[r] = argument;
        outputs.push_back(
            guarded(Bytes(rank::getByteSize(result.getType()), 0xFF)));
      }
      for (auto [r, output] : llvm::enumerate(outputs))
        buffers.push_back(taken[r] < 0 ? output.data() : buffers[taken[r]]);
      int64_t range = ranges[launch.getKernel()];
      int64_t pieces = llvm::divideCeil(range, piece);
      for (int64_t p = 0; p < pieces; ++p) {
        int64_t begin = (backwards ? pieces - 1 - p : p) * piece;
        image->find(launch.getKernel())(buffers.data(), begin,
                                        std::min(range, begin + piece));
      }
      for (auto *group : {&arguments, &outputs})
        for (const Bytes &bytes : *group)
          for (size_t i = bytes.size() - guardSize; i < bytes.size(); ++i)
            EXPECT_EQ(bytes[i], guardByte)
                << launch.getKernel().str() << " writes behind a buffer";
      for (auto [r, result] : llvm::enumerate(launch.getResults()))
        values[result] = taken[r] < 0 ? outputs[r] : arguments[taken[r]];
    } else if (isa<func::ReturnOp>(op)) {
      for (Value operand : op.getOperands()) {
        Bytes bytes = values[operand];
        bytes.resize(bytes.size() - guardSize);
        results.push_back(bytes);
      }
    } else {
      ADD_FAILURE() << op.getName().getStringRef().str() << " is left";
    }
  }
  return results;
}

double KernelRunner::time(const std::vector<Bytes> &inputs, int repeats) {
  double best = 1e30;
  auto function = module->lookupSymbol<func::FuncOp>("main");
  DenseMap<Value, Bytes> values;
  for (auto [argument, input] :
       llvm::zip_equal(function.getArguments(), inputs))
    values[argument] = input;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    double total = 0;
    for (Operation &op : function.getBody().front()) {
      if (auto view = dyn_cast<rank::ViewOp>(op))
        values[view.getResult()] = values[view.getInput()];
      auto launch = dyn_cast<rank::LaunchOp>(op);
      if (!launch)
        continue;
      std::vector<void *> buffers;
      for (Value result : launch.getResults())
        if (Bytes &bytes = values[result]; bytes.empty())
          bytes.resize(rank::getByteSize(result.getType()), 0xFF);
      for (Value operand : launch.getOperands())
        buffers.push_back(values[operand].data());
      for (Value result : launch.getResults())
        buffers.push_back(values[result].data());
      auto run = image->find(launch.getKernel());
      auto start = std::chrono::steady_clock::now();
      run(buffers.data(), 0, ranges[launch.getKernel()]);
      total += std::chrono::duration<double, std::milli>(
                   std::chrono::steady_clock::now() - start)
                   .count();
    }
    if (repeat > 0) // the first run touches the memory
      best = std::min(best, total);
  }
  return best;
}
