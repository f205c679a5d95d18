// The plan verifier: images of kernels for a GPU, and launches of them.

#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

/// A zstd frame of `size` bytes, which are in one raw block: less than 256.
std::vector<uint8_t> frameOf(uint8_t size) {
  std::vector<uint8_t> frame = {0x28, 0xB5, 0x2F, 0xFD, 0x20, size};
  uint32_t block = (uint32_t(size) << 3) | 1; // the last block
  for (int i = 0; i < 3; ++i)
    frame.push_back(uint8_t(block >> (8 * i)));
  frame.resize(frame.size() + size, '/');
  return frame;
}

constexpr uint8_t packedBytes = 100;

/// The same product by cuBLASLt.
CudaGemmT gpuGemmOf(const CpuGemmT &gemm) {
  CudaGemmT result;
  result.operands = gemm.operands, result.accumulator = gemm.accumulator;
  result.result = gemm.result;
  result.m = gemm.m, result.n = gemm.n, result.k = gemm.k;
  result.transpose_a = gemm.transpose_a, result.transpose_b = gemm.transpose_b;
  result.lda = gemm.lda, result.ldb = gemm.ldb, result.ldc = gemm.ldc;
  result.batch = gemm.batch;
  result.alpha = gemm.alpha, result.beta = gemm.beta;
  return result;
}

/// The valid plan for a GPU: with an image of machine code and one of PTX.
PlanT gpuPlan() {
  PlanT plan = goodPlan();
  programOf(plan).target = "cuda";
  for (auto &segment : programOf(plan).segments) {
    for (auto &command : segment->commands)
      if (CallT *call = command->body.AsCall())
        call->body.Set(gpuGemmOf(*call->body.AsCpuGemm()));
    for (auto &command : segment->commands)
      if (LaunchT *launch = command->body.AsLaunch()) {
        CudaLaunchT body;
        body.blocks = 3;
        launch->body.Set(body);
      }
  }
  plan.images.push_back(testImage());
  for (auto &image : plan.images) {
    image->target = "cuda";
    image->format = ImageFormat::cubin;
    image->bytes = frameOf(packedBytes);
    image->unpacked = packedBytes;
    for (const std::string &symbol : image->symbols) {
      auto entry = std::make_unique<EntryT>();
      entry->symbol = symbol;
      entry->threads = 256, entry->shared_bytes = 1024, entry->registers = 32;
      image->entries.push_back(std::move(entry));
    }
  }
  plan.images.back()->format = ImageFormat::ptx;
  return plan;
}

LaunchT &gpuLaunchOf(PlanT &plan) {
  for (auto &command : programOf(plan).segments[firstSegment]->commands)
    if (LaunchT *launch = command->body.AsLaunch())
      return *launch;
  return *programOf(plan).segments[firstSegment]->commands[0]->body.AsLaunch();
}
CudaLaunchT &bodyOf(PlanT &plan) {
  return *gpuLaunchOf(plan).body.AsCudaLaunch();
}
CudaGemmT &gpuGemmOf(PlanT &plan) { return *callOf(plan).body.AsCudaGemm(); }
EntryT &entryOf(PlanT &plan, int image) {
  return *plan.images[image]->entries[0];
}

const Lie lies[] = {
    {"formatOfACpu", [](PlanT &p) { p.images[0]->format = ImageFormat::elf; },
     "image 0: the target 'cuda' has no images of format 0"},
    {"notUnpacked", [](PlanT &p) { p.images[0]->unpacked = 0; },
     "image 0: is unpacked to 0 bytes; an image has 1 to 1073741824"},
    {"tooLarge",
     [](PlanT &p) { p.images[0]->unpacked = (uint64_t(1) << 30) + 1; },
     "image 0: is unpacked to 1073741825 bytes; an image has 1 to 1073741824"},
    {"noFrame", [](PlanT &p) { p.images[0]->bytes[3] = 0; },
     "image 0: is no zstd frame that states the size of its contents"},
    {"frameWithoutSize", [](PlanT &p) { p.images[0]->bytes[4] = 0; },
     "image 0: is no zstd frame that states the size of its contents"},
    {"shortFrame", [](PlanT &p) { p.images[0]->bytes.resize(5); },
     "image 0: is no zstd frame that states the size of its contents"},
    {"otherSize", [](PlanT &p) { p.images[0]->unpacked = 101; },
     "image 0: a frame of 100 bytes is said to have 101"},
    {"entryMissing", [](PlanT &p) { p.images[1]->entries.pop_back(); },
     "image 1: has 6 entries for 7 kernels"},
    {"noEntries", [](PlanT &p) { p.images[1]->entries.clear(); },
     "image 1: has 0 entries for 7 kernels"},
    {"noSymbol", [](PlanT &p) { entryOf(p, 1).symbol = ""; },
     ": has no symbol"},
    {"noThreads", [](PlanT &p) { entryOf(p, 0).threads = 0; },
     ": blocks of 0 threads; they have 1 to 1024"},
    {"manyThreads", [](PlanT &p) { entryOf(p, 0).threads = 1025; },
     ": blocks of 1025 threads; they have 1 to 1024"},
    {"muchSharedMemory",
     [](PlanT &p) { entryOf(p, 0).shared_bytes = (227 << 10) + 1; },
     ": blocks with 232449 shared bytes; they have at most 232448"},
    {"manyRegisters", [](PlanT &p) { entryOf(p, 0).registers = 256; },
     ": threads with 256 registers; they have at most 255"},
    {"otherThreads", [](PlanT &p) { entryOf(p, 1).threads = 128; },
     ": blocks of 128 threads and 1024 shared bytes, in the first image of 256 "
     "and 1024"},
    {"otherSharedMemory", [](PlanT &p) { entryOf(p, 1).shared_bytes = 0; },
     ": blocks of 256 threads and 0 shared bytes, in the first image of 256 "
     "and 1024"},
    {"noBlocks", [](PlanT &p) { bodyOf(p).blocks = 0; },
     ": 0 blocks; a launch has 1 to 2147483647"},
    {"manyBlocks", [](PlanT &p) { bodyOf(p).blocks = int64_t(1) << 31; },
     ": 2147483648 blocks; a launch has 1 to 2147483647"},
    {"negativeBlocks", [](PlanT &p) { bodyOf(p).blocks = -1; },
     ": -1 blocks; a launch has 1 to 2147483647"},
    {"unknownBeginning", [](PlanT &p) { bodyOf(p).begins = Beginning(3); },
     ": beginning 3 does not exist"},
    {"fillsNothing",
     [](PlanT &p) {
       bodyOf(p).begins = Beginning::Zeros;
       gpuLaunchOf(p).outputs.clear();
     },
     ": fills its first output, and has none"},
    {"copiesNothing",
     [](PlanT &p) {
       bodyOf(p).begins = Beginning::Copy;
       bodyOf(p).source = 9;
     },
     ": begins with a copy of input 9 of "},
    {"callOfACpu", [](PlanT &p) { callOf(p).body.Set(CpuGemmT()); },
     "the target 'cuda' has no calls of type 1"},
    {"noRows", [](PlanT &p) { gpuGemmOf(p).m = 0; }, ": m=0 n="},
    {"shortRows", [](PlanT &p) { gpuGemmOf(p).ldc = 1; },
     ": c: leading dim 1 is less than its "},
    {"integers",
     [](PlanT &p) { gpuGemmOf(p).operands = plan::ElementType::I64; },
     " is no float"},
    {"narrowSums",
     [](PlanT &p) { gpuGemmOf(p).accumulator = plan::ElementType::BF16; },
     ": adds products of F32 in BF16, which is no wider type"},
    {"manyProducts",
     [](PlanT &p) { gpuGemmOf(p).batch.assign(33, {1, 0, 0, 1}); },
     ": 33 batch dims, at most 32 are possible"},
    {"productsInOnePlace",
     [](PlanT &p) { gpuGemmOf(p).batch.assign(1, {2, 0, 0, 0}); },
     ": a batch dim of 2 products whose results are 0 elements apart"},
    {"longMatrix", [](PlanT &p) { gpuGemmOf(p).lda = 1 << 20; }, ", a: "},
    {"addendMissing", [](PlanT &p) { gpuGemmOf(p).beta = 1; },
     " buffers instead of "},
    {"copiesAnotherSize",
     [](PlanT &p) {
       bodyOf(p).begins = Beginning::Copy;
       gpuLaunchOf(p).inputs = {bufferAt(0, 8)};
       gpuLaunchOf(p).outputs = {bufferAt(64, 16)};
     },
     ": begins with a copy of 8 bytes to 16"},
};

class GpuImages : public testing::TestWithParam<Lie> {};

TEST_P(GpuImages, AreRefusedWhereTheyAreWrong) {
  expectRefused(GetParam(), gpuPlan());
}

INSTANTIATE_TEST_SUITE_P(VerifyGpuImages, GpuImages, testing::ValuesIn(lies),
                         [](const auto &info) { return info.param.name; });

TEST(VerifyGpuImages, AcceptsMachineCodeAndPtx) { expectAccepted(gpuPlan()); }

TEST(VerifyGpuImages, AcceptsAnOutputThatBeginsWithZeros) {
  PlanT plan = gpuPlan();
  bodyOf(plan).begins = Beginning::Zeros;
  expectAccepted(plan);
}

TEST(VerifyGpuImages, RefusesEntriesOfACpu) {
  PlanT plan = goodPlan();
  plan.images[0]->unpacked = 7;
  auto verified = verifyPlan(serialise(plan));
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find(
                "image 0: has 0 entries and is unpacked to 7 bytes, which the "
                "target 'cpu' does not have"),
            std::string::npos)
      << verified.error().message;
}

} // namespace
} // namespace polyrank::runtime::test
