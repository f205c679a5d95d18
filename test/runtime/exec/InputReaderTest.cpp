// What is read ahead is what would be read now, errors included.

#include "runtime/exec/InputReader.h"

#include "support/arrays/Npz.h"
#include "test/runtime/PlanBuilder.h"

#include <atomic>
#include <future>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

class InputReaderTest : public testing::Test {
protected:
  InputReaderTest() {
    auto writer = NpzWriter::create(path);
    std::vector<float> values(8);
    std::vector<int64_t> shape{8, 1};
    EXPECT_TRUE(writer->add("x", ElementType::F32, shape,
                            std::as_bytes(std::span(values))));
    EXPECT_TRUE(writer->commit());
    InputSpec spec;
    spec.name = "x";
    spec.rowShape = {1};
    auto opened =
        DataSource::open({.paths = {path}, .batch = 2}, std::vector{spec});
    EXPECT_TRUE(opened) << opened.error().message;
    data.emplace(*std::move(opened));
  }

  /// Writes the number of the batch's first sample.
  InputReader::Read numbering() {
    return [this](const DataSource &, const Batch &batch,
                  std::span<std::byte> memory) -> Result<void> {
      ++reads;
      if (batch.first == 6)
        return Error{"sample 6 is torn"};
      memory[0] = std::byte(batch.first);
      return {};
    };
  }
  static std::string textOf(const Result<std::span<const std::byte>> &taken) {
    return taken ? std::to_string(int((*taken)[0])) : taken.error().message;
  }
  static Batch at(uint64_t first) { return {Split::Train, first, 2}; }

  TemporaryDirectory directory;
  std::string path = directory / "data.npz";
  std::optional<DataSource> data;
  std::atomic<int> reads = 0;
};

TEST_F(InputReaderTest, ReadsWhileTheCallerGoesOn) {
  std::promise<void> goesOn;
  InputReader reader(1, [&, number = numbering()](const DataSource &from,
                                                  const Batch &batch,
                                                  std::span<std::byte> memory) {
    goesOn.get_future().wait();
    return number(from, batch, memory);
  });
  reader.begin(*data, at(2)); // returns, although nothing can be read yet
  goesOn.set_value();
  EXPECT_EQ(textOf(reader.take(*data, at(2))), "2");
  EXPECT_EQ(reads, 1);
}

TEST_F(InputReaderTest, ReadsNowWhatWasNotBegun) {
  InputReader reader(1, numbering());
  EXPECT_EQ(textOf(reader.take(*data, at(0))), "0");
  reader.begin(*data, at(2));
  EXPECT_EQ(textOf(reader.take(*data, at(4))), "4");
  EXPECT_EQ(reads, 3);
  EXPECT_EQ(textOf(reader.take(*data, at(2))), "2");
  EXPECT_EQ(reads, 4);
}

TEST_F(InputReaderTest, BeginsOneBatchAtATime) {
  InputReader reader(1, numbering());
  reader.begin(*data, at(2));
  reader.begin(*data, at(4));
  EXPECT_EQ(textOf(reader.take(*data, at(2))), "2");
  EXPECT_EQ(reads, 1);
}

TEST_F(InputReaderTest, AnErrorIsThatOfItsBatch) {
  InputReader reader(1, numbering());
  reader.begin(*data, at(6));
  EXPECT_EQ(textOf(reader.take(*data, at(4))), "4");
  reader.begin(*data, at(6));
  EXPECT_EQ(textOf(reader.take(*data, at(6))), "sample 6 is torn");
  EXPECT_EQ(textOf(reader.take(*data, at(6))), "sample 6 is torn");
}

TEST_F(InputReaderTest, AnExceptionIsThatOfTheTaker) {
  InputReader reader(1,
                     [](const DataSource &, const Batch &, std::span<std::byte>)
                         -> Result<void> { throw std::bad_alloc(); });
  reader.begin(*data, at(0));
  EXPECT_THROW((void)reader.take(*data, at(0)), std::bad_alloc);
}

TEST_F(InputReaderTest, EndsWithABatchThatNobodyTakes) {
  InputReader reader(1, numbering());
  reader.begin(*data, at(2));
}

} // namespace
} // namespace polyrank::runtime::test
