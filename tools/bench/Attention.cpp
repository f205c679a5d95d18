// polyrank-bench-attention measures the library call of attention and of its
// gradient alone: one sample, as many heads of keys as of queries, causal.
//
//   polyrank-bench-attention --type bf16 --heads 12 --length 4096 --width 64
//     --threads 1 --repeats 3
//
// prints {"type": "bf16", "products": "bfloat16", .., "forward_seconds": [..],
// "backward_seconds": [..]}. With `--inputs FILE` it reads queries, keys,
// values and the gradient of the result, each [heads, length, width] elements
// of the type; otherwise it draws them. With `--outputs FILE` it writes the
// result and the gradients of queries, keys and values in the same way. The
// products are those that a plan for this machine has, or with `--products`
// others.

#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/NarrowRows.h"
#include "runtime/device/cpu/OneDnn.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

namespace {

using namespace polyrank;
using namespace polyrank::runtime;

struct Options {
  ElementType type = ElementType::BF16;
  std::string_view products;
  int64_t heads = 12, length = 4096, width = 64, threads = 1, repeats = 3,
          queries = 128, keys = 0;
  const char *inputs = nullptr, *outputs = nullptr;
};

bool parseType(std::string_view name, ElementType &type) {
  for (ElementType known :
       {ElementType::F32, ElementType::BF16, ElementType::F16})
    if (name == nameOf(known)) {
      type = known;
      return true;
    }
  return false;
}

bool parse(int argc, char **argv, Options &options) {
  if (argc % 2 == 0)
    return false;
  for (int i = 1; i < argc; i += 2) {
    std::string_view name = argv[i];
    int64_t value = std::atoll(argv[i + 1]);
    if (name == "--inputs")
      options.inputs = argv[i + 1];
    else if (name == "--outputs")
      options.outputs = argv[i + 1];
    else if (name == "--products")
      options.products = argv[i + 1];
    else if (name == "--type") {
      if (!parseType(argv[i + 1], options.type))
        return false;
    } else if (value < 1 || value > 1 << 20)
      return false;
    else if (name == "--heads")
      options.heads = value;
    else if (name == "--length")
      options.length = value;
    else if (name == "--width")
      options.width = value;
    else if (name == "--threads")
      options.threads = value;
    else if (name == "--repeats")
      options.repeats = value;
    else if (name == "--tile-queries")
      options.queries = value;
    else if (name == "--tile-keys")
      options.keys = value;
    else
      return false;
  }
  return true;
}

/// The products of these elements: those that are asked for, or the fastest.
bool findProducts(const Options &options, TileProducts &products) {
  for (TileProducts each :
       {TileProducts::Float32, TileProducts::BFloat16, TileProducts::Widened})
    if (multiplies(each, options.type) && hasTileProducts(each) &&
        (options.products.empty() || options.products == nameOf(each))) {
      products = each;
      return true;
    }
  return false;
}

AttentionGradShape shapeOf(const Options &options, TileProducts products) {
  AttentionGradShape whole;
  AttentionShape &shape = whole.forward;
  shape.heads = shape.groups = options.heads;
  shape.queries = shape.keys = options.length;
  shape.width = shape.valueWidth = options.width;
  shape.scale = 1 / std::sqrt(static_cast<float>(options.width));
  shape.causal = true;
  shape.blockQueries = std::min(options.queries, options.length);
  int64_t keys = products == TileProducts::Float32 ? 512 : 256;
  shape.blockKeys =
      std::min(options.keys ? options.keys : keys, options.length);
  shape.type = options.type, shape.products = products;
  RowStrides dense{0, options.length * options.width, options.width};
  shape.query = shape.key = shape.value = shape.result = dense;
  whole.resultGradient = whole.queryGradient = whole.keyGradient =
      whole.valueGradient = dense;
  return whole;
}

std::vector<std::byte> draw(const Options &options, int64_t elements) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(elements);
  for (float &value : values)
    value = normal(random);
  std::vector<std::byte> bytes(elements * bytesOf(options.type));
  if (options.type == ElementType::F32)
    std::copy_n(reinterpret_cast<std::byte *>(values.data()), bytes.size(),
                bytes.data());
  else
    narrowRows().round(options.type, values.data(), bytes.data(), elements);
  return bytes;
}

void print(const char *name, const std::vector<double> &seconds) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < seconds.size(); ++i)
    std::printf("%s%.6f", i ? ", " : "", seconds[i]);
  std::printf("]");
}

Result<void> measure(const Options &options, TileProducts products) {
  AttentionGradShape whole = shapeOf(options, products);
  int threads = static_cast<int>(options.threads);
  int64_t elements = options.heads * options.length * options.width;
  int64_t bytes = elements * bytesOf(options.type);
  std::vector<std::byte> inputs = draw(options, 4 * elements);
  if (options.inputs) {
    std::ifstream file(options.inputs, std::ios::binary);
    if (!file.read(reinterpret_cast<char *>(inputs.data()), 4 * bytes))
      return Error{std::string(options.inputs) + ": has not " +
                   std::to_string(4 * bytes) + " bytes"};
  }
  std::vector<std::byte> outputs(4 * bytes);
  std::vector<float> lse(options.heads * options.length);
  std::unique_ptr<void, decltype(&std::free)> scratch(
      std::aligned_alloc(64,
                         std::max(attentionScratchBytes(whole.forward, threads),
                                  attentionScratchBytes(whole, threads))),
      std::free);
  std::byte *in = inputs.data(), *out = outputs.data();
  std::vector<double> forward, backward;
  using Clock = std::chrono::steady_clock;
  for (int64_t i = 0; i < options.repeats; ++i) {
    auto begin = Clock::now();
    if (Result<void> done = runAttention(whole.forward,
                                         {in,
                                          in + bytes,
                                          in + 2 * bytes,
                                          nullptr,
                                          nullptr,
                                          {},
                                          out,
                                          lse.data(),
                                          scratch.get()},
                                         threads);
        !done)
      return done;
    auto middle = Clock::now();
    if (Result<void> done = runAttentionGrad(whole,
                                             {in + 3 * bytes,
                                              in,
                                              in + bytes,
                                              in + 2 * bytes,
                                              out,
                                              lse.data(),
                                              nullptr,
                                              nullptr,
                                              {},
                                              out + bytes,
                                              out + 2 * bytes,
                                              out + 3 * bytes,
                                              nullptr,
                                              scratch.get()},
                                             threads);
        !done)
      return done;
    std::chrono::duration<double> first = middle - begin,
                                  second = Clock::now() - middle;
    forward.push_back(first.count()), backward.push_back(second.count());
  }
  if (options.outputs) {
    std::ofstream file(options.outputs, std::ios::binary);
    if (!file.write(reinterpret_cast<char *>(out), 4 * bytes))
      return Error{std::string(options.outputs) + ": cannot be written"};
  }
  std::printf("{\"type\": \"%s\", \"products\": \"%s\", \"heads\": %lld, "
              "\"length\": %lld, \"width\": %lld, \"threads\": %d",
              nameOf(options.type), nameOf(products),
              static_cast<long long>(options.heads),
              static_cast<long long>(options.length),
              static_cast<long long>(options.width), threads);
  print("forward_seconds", forward);
  print("backward_seconds", backward);
  std::printf("}\n");
  return {};
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: polyrank-bench-attention [--type f32|bf16|f16] "
                 "[--heads N] [--length N] [--width N] [--threads N] "
                 "[--repeats N] [--products float32|bfloat16|widened] "
                 "[--tile-queries N] [--tile-keys N] [--inputs FILE] "
                 "[--outputs FILE]\n");
    return 2;
  }
  Result<void> done = loadOneDnn();
  TileProducts products;
  if (done && !findProducts(options, products))
    done = Error{"this machine has no such products of " +
                 std::string(nameOf(options.type))};
  if (done)
    done = measure(options, products);
  if (!done)
    std::fprintf(stderr, "polyrank-bench-attention: %s\n",
                 done.error().message.c_str());
  return done ? 0 : 1;
}
