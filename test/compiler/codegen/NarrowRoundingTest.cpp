// Conversions to and from bf16 and f16, over all patterns of bits: kernels
// round as support/Float16.h does, on every machine.

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "compiler/target/cpu/Machine.h"
#include "runtime/device/cpu/ElfCheck.h"
#include "support/ElementValues.h"
#include "test/compiler/codegen/KernelRunner.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::Tensor;

namespace {

/// The machines for which kernels are compiled and run: the lowest, and this
/// one.
constexpr const char *machines[] = {"x86-64-v3", "native"};

/// Converts `count` elements.
std::string conversion(int64_t count, const std::string &from,
                       const std::string &to) {
  std::string start = "tensor<" + std::to_string(count) + "x", x = start + from,
              y = start + to;
  return "func.func @main(%x: " + x + ">) -> " + y +
         "> {\n  %0 = graph.convert %x : (" + x + ">) -> " + y +
         ">\n  return %0 : " + y + ">\n}\n";
}

template <typename T>
Bytes bytesOf(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> valuesOf(const Bytes &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Expects that kernels convert each of `inputs` to the bits of `expected`.
template <typename In, typename Out>
void expectBits(const std::string &from, const std::string &to,
                const std::vector<In> &inputs,
                const std::vector<Out> &expected) {
  std::string text = conversion(static_cast<int64_t>(inputs.size()), from, to);
  for (const char *machine : machines) {
    SCOPED_TRACE(from + " to " + to + " on " + machine);
    KernelRunner kernels(text, /*fuse=*/true, machine);
    ASSERT_FALSE(testing::Test::HasFailure());
    std::vector<Out> found = valuesOf<Out>(kernels.run({bytesOf(inputs)})[0]);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], expected[i])
          << "element " << i << ", of bits " << std::hex << inputs[i];
  }
}

/// All floats that matter for a rounding to the narrow type: of each two
/// neighbours these, the middle, and what is next to the middle; infinities and
/// NaNs with all upper digits of their payloads.
std::vector<uint32_t> floatsAround(float (*widen)(uint16_t)) {
  std::vector<uint32_t> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = widen(static_cast<uint16_t>(bits));
    auto own = std::bit_cast<uint32_t>(value);
    all.push_back(own);
    if (!std::isfinite(value)) {
      all.insert(all.end(), {own | 1, own | 0x1fff});
      continue;
    }
    float next = widen(static_cast<uint16_t>(bits + 1));
    if (!std::isfinite(next)) // beyond the largest is what would come next
      next = value + (value - widen(static_cast<uint16_t>(bits - 1)));
    // Exact: the narrow types have far fewer digits.
    auto middle = std::bit_cast<uint32_t>(
        std::isfinite(next) ? value / 2 + next / 2 : value);
    all.insert(all.end(), {middle - 1, middle, middle + 1, own + 1});
  }
  all.push_back(0x3f800000); // the count is no multiple of any vector
  return all;
}

void expectRounding(const std::string &type, float (*widen)(uint16_t),
                    uint16_t (*round)(float)) {
  std::vector<uint32_t> inputs = floatsAround(widen);
  std::vector<uint16_t> expected;
  for (uint32_t bits : inputs)
    expected.push_back(round(std::bit_cast<float>(bits)));
  expectBits("f32", type, inputs, expected);
}

void expectWidening(const std::string &type, float (*widen)(uint16_t)) {
  std::vector<uint16_t> inputs;
  std::vector<uint32_t> expected;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    inputs.push_back(static_cast<uint16_t>(bits));
    expected.push_back(std::bit_cast<uint32_t>(widen(inputs.back())));
  }
  expectBits(type, "f32", inputs, expected);
}

/// The bits of the number that is nearest to `value`, rounded once.
uint16_t nearest(const std::string &type, double value) {
  static MLIRContext context;
  static const FloatType brain = BFloat16Type::get(&context),
                         half = Float16Type::get(&context);
  FloatType narrow = type == "bf16" ? brain : half;
  auto rounded = static_cast<float>(graph::roundTo(narrow, value));
  return type == "bf16" ? bfloat16FromFloat(rounded)
                        : float16FromFloat(rounded);
}

} // namespace

TEST(NarrowRounding, HasTheBitsOfFiles) {
  expectRounding("bf16", floatFromBFloat16, bfloat16FromFloat);
  expectRounding("f16", floatFromFloat16, float16FromFloat);
}

TEST(NarrowRounding, WideningHasTheBitsOfFiles) {
  expectWidening("bf16", floatFromBFloat16);
  expectWidening("f16", floatFromFloat16);
}

/// A double that is next to the middle of two narrow numbers is no float: by
/// way of one it would be rounded twice.
TEST(NarrowRounding, OfDoublesIsOne) {
  for (const char *type : {"bf16", "f16"}) {
    auto widen =
        std::string(type) == "bf16" ? floatFromBFloat16 : floatFromFloat16;
    std::vector<double> inputs{0.0, -0.0, 1e300, -1e300, INFINITY, -INFINITY};
    for (uint32_t bits = 0; bits < 0xffff; bits += 3) {
      double value = widen(static_cast<uint16_t>(bits)),
             next = widen(static_cast<uint16_t>(bits + 1));
      double middle = (value + next) / 2;
      if (!std::isfinite(value) || !std::isfinite(next) ||
          (middle != 0 && std::abs(middle) < 0x1p-126))
        continue;
      inputs.insert(inputs.end(), {value, middle, std::nextafter(middle, 1e308),
                                   std::nextafter(middle, -1e308)});
    }
    std::vector<uint16_t> expected;
    for (double value : inputs)
      expected.push_back(nearest(type, value));
    expectBits("f64", type, inputs, expected);
    // The payload of a double's NaN may be in digits that a float lacks.
    auto nan = std::bit_cast<double>(0x7ff0000000000001);
    for (const char *machine : machines) {
      KernelRunner kernels(conversion(1, "f64", type), /*fuse=*/true, machine);
      uint16_t bits = valuesOf<uint16_t>(
          kernels.run({bytesOf(std::vector<double>{nan})})[0])[0];
      EXPECT_TRUE(std::isnan(widen(bits))) << type << " " << bits;
    }
  }
}

TEST(NarrowRounding, OfIntegersIsOne) {
  std::mt19937_64 random(1);
  for (const char *type : {"bf16", "f16"}) {
    std::vector<int64_t> wide{0, 1, -1, 257, -257, 65504, 65519, 65520, 70000};
    for (int shift = 0; shift < 44; ++shift) { // ties, and beside them
      int64_t tie = int64_t(257) << shift, other = int64_t(2049) << shift;
      wide.insert(wide.end(), {tie, tie + 1, tie - 1, -tie - 1, other,
                               other + 1, other - 1});
    }
    for (int i = 0; i < 500; ++i)
      wide.push_back(static_cast<int64_t>(random()) >> random() % 64);
    std::vector<int32_t> single;
    for (int64_t value : wide)
      single.push_back(static_cast<int32_t>(value));
    auto round = [&](const auto &values) {
      std::vector<uint16_t> bits;
      for (auto value : values)
        bits.push_back(nearest(type, static_cast<double>(value)));
      return bits;
    };
    expectBits("i64", type, wide, round(wide));
    expectBits("i32", type, single, round(single));
    std::vector<uint8_t> flags{0, 1, 1, 0, 1};
    expectBits("i1", type, flags, round(flags));
  }
}

/// Infinities and NaN included, whose conversion is undefined in LLVM, and the
/// bounds of integers, which are infinite in f16.
TEST(NarrowRounding, ToIntegersIsTheReference) {
  for (const char *type : {"bf16", "f16"})
    for (const char *integer : {"i64", "i32", "i8", "i1"}) {
      std::vector<uint16_t> inputs;
      for (uint32_t bits = 0; bits < 0x10000; bits += 5)
        inputs.push_back(static_cast<uint16_t>(bits));
      for (int value : {0x7f80, 0xff80, 0x7c00, 0xfc00, 0x7fc0, 0x7e00, 0xffff})
        inputs.push_back(static_cast<uint16_t>(value));
      for (const char *machine : machines) {
        SCOPED_TRACE(std::string(type) + " to " + integer + " on " + machine);
        KernelRunner kernels(
            conversion(static_cast<int64_t>(inputs.size()), type, integer),
            /*fuse=*/true, machine);
        ASSERT_FALSE(testing::Test::HasFailure());
        Bytes bytes = bytesOf(inputs);
        Tensor x = fromBytes(
            bytes, cast<RankedTensorType>(kernels.getType().getInput(0)));
        Tensor found =
            fromBytes(kernels.run({bytes})[0],
                      cast<RankedTensorType>(kernels.getType().getResult(0)));
        EXPECT_EQ(found.integers, kernels.evaluate({x})[0].integers);
      }
    }
}

TEST(NarrowRounding, FromOneNarrowTypeToTheOtherIsTheReference) {
  for (bool toBrain : {true, false}) {
    auto widen = toBrain ? floatFromFloat16 : floatFromBFloat16;
    auto round = toBrain ? bfloat16FromFloat : float16FromFloat;
    std::vector<uint16_t> inputs, expected;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      inputs.push_back(static_cast<uint16_t>(bits));
      expected.push_back(round(widen(inputs.back())));
    }
    expectBits(toBrain ? "f16" : "bf16", toBrain ? "bf16" : "f16", inputs,
               expected);
  }
}

/// Two conversions are not one: what the first rounds off stays away.
TEST(NarrowRounding, ThereAndBackRounds) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-4, 4);
  std::vector<float> inputs(1001);
  for (float &value : inputs)
    value = number(random);
  for (bool isBrain : {true, false}) {
    std::string wide = "tensor<1001xf32>",
                narrow = isBrain ? "tensor<1001xbf16>" : "tensor<1001xf16>";
    std::string text = "func.func @main(%x: " + wide + ") -> " + wide +
                       " {\n  %0 = graph.convert %x : (" + wide + ") -> " +
                       narrow + "\n  %1 = graph.convert %0 : (" + narrow +
                       ") -> " + wide + "\n  return %1 : " + wide + "\n}\n";
    for (bool fuse : {true, false}) {
      KernelRunner kernels(text, fuse);
      std::vector<float> found =
          valuesOf<float>(kernels.run({bytesOf(inputs)})[0]);
      for (size_t i = 0; i < inputs.size(); ++i)
        ASSERT_EQ(found[i], isBrain ? float(BFloat16(inputs[i]))
                                    : float(Float16(inputs[i])));
    }
  }
}

/// Kernels may call few functions, none of which converts.
TEST(NarrowRounding, CallsNoFunctionOnAnyMachine) {
  for (const char *machine : {"x86-64-v3", "x86-64-v4"})
    for (const char *type : {"bf16", "f16"})
      for (const char *other : {"f32", "f64", "i64", "i32", "i8", "i1"})
        for (bool isFrom : {true, false}) {
          SCOPED_TRACE(std::string(machine) + " " + type + " " + other);
          KernelRunner kernels(isFrom ? conversion(37, type, other)
                                      : conversion(37, other, type),
                               /*fuse=*/true, machine);
          const std::string &image = kernels.getCompiled().images.front().bytes;
          auto checked = runtime::checkKernelImage(
              {reinterpret_cast<const uint8_t *>(image.data()), image.size()});
          EXPECT_TRUE(bool(checked)) << checked.error().message;
        }
}

/// Where there is no instruction for f16, LLVM would call a function.
TEST(NarrowRounding, MachinesWithoutTheInstructionForF16AreRefused) {
  for (const char *name : {"x86-64", "x86-64-v2"}) {
    auto machine = cpu::Machine::find(name);
    ASSERT_FALSE(machine) << name;
    EXPECT_EQ(machine.error().message,
              "CPU '" + std::string(name) +
                  "' lacks AVX2, FMA or F16C, which kernels need");
  }
  for (const char *name : {"x86-64-v3", "x86-64-v4"})
    EXPECT_TRUE(bool(cpu::Machine::find(name))) << name;
}
