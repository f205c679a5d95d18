// The commit protocol under power failures and disk errors: every state that
// either can leave is checked.

#include "test/support/TemporaryFolder.h"

#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/checkpoint/Checksum.h"
#include "runtime/checkpoint/Commit.h"
#include "runtime/checkpoint/ShardWriter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <sys/resource.h>

namespace polyrank::runtime::test {
namespace {

namespace fs = std::filesystem;

/// Performs and records the operations; may fail at one of the calls.
class RecordedOperations : public FileOperations {
public:
  enum Kind {
    Create,
    Sync,
    MakeFolder,
    SyncFolder,
    Rename,
    Replace,
    RemoveFile,
    RemoveFolder
  };
  struct Operation {
    Kind kind;
    std::string path, to = {};
    std::string content = {}; // of a synced file
  };

  std::vector<Operation> log;
  size_t failing = ~size_t(0);

  Result<Descriptor> create(const std::string &path) override {
    if (fails())
      return error(path);
    log.push_back({Create, path});
    return FileOperations::create(path);
  }
  Result<void> sync(const Descriptor &file, const std::string &path) override {
    if (fails())
      return error(path);
    std::ifstream stream(path, std::ios::binary);
    log.push_back(
        {Sync, path, {}, {std::istreambuf_iterator<char>(stream), {}}});
    return FileOperations::sync(file, path);
  }
  Result<void> makeFolder(const std::string &path) override {
    if (fails())
      return error(path);
    log.push_back({MakeFolder, path});
    return FileOperations::makeFolder(path);
  }
  Result<void> syncFolder(const std::string &path) override {
    if (fails())
      return error(path);
    log.push_back({SyncFolder, path});
    return FileOperations::syncFolder(path);
  }
  Result<void> rename(const std::string &from, const std::string &to) override {
    if (fails())
      return error(from);
    log.push_back({Rename, from, to});
    return FileOperations::rename(from, to);
  }
  Result<void> replace(const std::string &from,
                       const std::string &to) override {
    if (fails())
      return error(from);
    log.push_back({Replace, from, to});
    return FileOperations::replace(from, to);
  }
  Result<void> removeFile(const std::string &path) override {
    if (fails())
      return error(path);
    log.push_back({RemoveFile, path});
    return FileOperations::removeFile(path);
  }
  Result<void> removeFolder(const std::string &path) override {
    if (fails())
      return error(path);
    log.push_back({RemoveFolder, path});
    return FileOperations::removeFolder(path);
  }

private:
  size_t calls = 0;
  bool fails() { return calls++ == failing; }
  static Error error(const std::string &path) {
    return {path + ": no space left", Error::Fault::Disk};
  }
};

constexpr int ranks = 2;

Retention keepOne() {
  Retention retention;
  retention.keep = 1;
  return retention;
}

/// Writes two ranks' parts of a vector whose elements all are the step's
/// number.
Result<Manifest> writeShards(FileOperations &files, const std::string &folder,
                             uint64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.metrics = {{"loss", step == 2 ? 0.5 : 1.0}};
  ManifestTensor tensor{
      "w", TensorRole::Parameter, {}, {}, ElementType::F32, {6}, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    auto writer = ShardWriter::create({{"w", ElementType::F32, {3}}});
    if (!writer)
      return writer.error();
    for (int i = 0; i < 3; ++i) {
      float value = static_cast<float>(step);
      std::memcpy(writer->dataOf(0).data() + 4 * i, &value, 4);
    }
    manifest.files.push_back({shardFileName(rank, ranks), 0});
    writer->start(files, folder, manifest.files.back().name);
    auto written = writer->wait();
    if (!written)
      return written.error();
    manifest.files.back().bytes = written->bytes;
    tensor.chunks.push_back(
        {uint32_t(rank), "w", {{3 * rank}, {3}}, written->checksums[0]});
  }
  manifest.tensors.push_back(tensor);
  return manifest;
}

Result<void> save(FileOperations &files, const std::string &folder,
                  uint64_t step, const Retention &retention) {
  std::string unfinished = unfinishedPath(folder, step, 7);
  POLYRANK_ASSIGN(manifest, writeShards(files, unfinished, step));
  if (auto done = commitCheckpoint(files, folder, unfinished, manifest); !done)
    return done;
  return applyRetention(files, folder, retention, 7);
}

/// Returns the step of the newest checkpoint, whose elements must all be right.
uint64_t wholeStepIn(const std::string &folder) {
  CheckpointChoice choice = *newestCheckpoint(folder);
  if (!choice.found)
    return 0;
  uint64_t step = choice.found->manifest.step;
  CheckpointReader reader(*std::move(choice.found));
  Result<void> read = reader.checkAll();
  EXPECT_TRUE(read) << read.error().message;
  const ManifestTensor &tensor = reader.manifest().tensors[0];
  float values[3];
  EXPECT_TRUE(reader.read(tensor, tensor.chunks[1], 0, values, 12));
  EXPECT_EQ(values[2], float(step));
  return step;
}

using Op = RecordedOperations::Operation;
using Kind = RecordedOperations::Kind;

std::string parentOf(const std::string &path) {
  return path.substr(0, path.rfind('/'));
}

/// Returns true for operations that change names in folders.
bool isOfNames(const Op &op) {
  return op.kind == Kind::Create || op.kind == Kind::MakeFolder ||
         op.kind == Kind::Rename || op.kind == Kind::Replace ||
         op.kind == Kind::RemoveFile || op.kind == Kind::RemoveFolder;
}

/// The contents of a disk that has received a subset of the effects of some
/// calls.
class Disk {
public:
  explicit Disk(const std::map<std::string, std::string> &files)
      : files(files) {
    for (auto &[path, content] : files)
      folders.insert(parentOf(path));
  }

  void apply(const Op &op, const std::string &content) {
    switch (op.kind) {
    case Kind::Create:
      if (folders.contains(parentOf(op.path)))
        files[op.path] = content;
      break;
    case Kind::MakeFolder:
      folders.insert(op.path);
      break;
    case Kind::Rename: {
      if (!folders.contains(op.path))
        break;
      folders.erase(op.path);
      folders.insert(op.to);
      std::map<std::string, std::string> moved;
      for (auto &[path, each] : files)
        moved[parentOf(path) == op.path ? op.to + path.substr(op.path.size())
                                        : path] = each;
      files = std::move(moved);
      break;
    }
    case Kind::Replace:
      if (auto moved = files.extract(op.path)) {
        moved.key() = op.to;
        files.erase(op.to);
        files.insert(std::move(moved));
      }
      break;
    case Kind::RemoveFile:
      files.erase(op.path);
      break;
    case Kind::RemoveFolder:
      folders.erase(op.path);
      break;
    case Kind::Sync:
    case Kind::SyncFolder:
      break;
    }
  }

  void write(const std::string &from, const std::string &to) const {
    fs::remove_all(to);
    fs::create_directory(to);
    auto moved = [&](const std::string &path) {
      return to + path.substr(from.size());
    };
    for (const std::string &folder : folders)
      if (folder.size() > from.size())
        fs::create_directory(moved(folder));
    for (auto &[path, content] : files)
      std::ofstream(moved(path), std::ios::binary) << content;
  }

private:
  std::map<std::string, std::string> files;
  std::set<std::string> folders;
};

std::map<std::string, std::string> contentsOf(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (auto &entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) {
      std::ifstream stream(entry.path(), std::ios::binary);
      files[entry.path().string()] = {std::istreambuf_iterator<char>(stream),
                                      {}};
    }
  return files;
}

/// Checks every state that a loss of power during the calls of `log` can leave:
/// after each prefix, each subset of the changes of names that no sync of their
/// folder has made durable, and of each file that was not synced nothing, zeros
/// of its size, or all. `leastAfter` is the step that must at least be found
/// once all calls are done.
size_t checkCrashes(const std::vector<Op> &log,
                    const std::map<std::string, std::string> &before,
                    const std::string &folder, const std::string &scratch,
                    uint64_t leastBefore, uint64_t leastAfter) {
  std::map<std::string, std::string> finals; // contents that syncs have seen
  for (const Op &op : log)
    if (op.kind == Kind::Sync)
      finals[op.path] = op.content;
  size_t states = 0;
  for (size_t length = 0; length <= log.size(); ++length) {
    std::vector<size_t> loose; // name changes that may be lost
    std::set<std::string> synced;
    for (size_t n = 0; n < length; ++n) {
      if (isOfNames(log[n]))
        loose.push_back(n);
      if (log[n].kind == Kind::Sync)
        synced.insert(log[n].path);
      if (log[n].kind == Kind::SyncFolder)
        std::erase_if(loose, [&](size_t m) {
          return parentOf(log[m].path) == log[n].path;
        });
    }
    std::vector<std::string> dirty;
    for (size_t n = 0; n < length; ++n)
      if (log[n].kind == Kind::Create && !synced.contains(log[n].path))
        dirty.push_back(log[n].path);
    size_t contents = 1;
    for (size_t d = 0; d < dirty.size(); ++d)
      contents *= 3;
    EXPECT_LE(loose.size(), 12u);
    for (uint64_t subset = 0; subset < uint64_t(1) << loose.size(); ++subset)
      for (size_t content = 0; content < contents; ++content) {
        Disk disk(before);
        for (size_t n = 0; n < length; ++n) {
          auto at = std::find(loose.begin(), loose.end(), n);
          if (at != loose.end() && !(subset >> (at - loose.begin()) & 1))
            continue;
          std::string text = finals[log[n].path];
          auto file = std::find(dirty.begin(), dirty.end(), log[n].path);
          if (file != dirty.end()) {
            size_t choice = content;
            for (auto d = dirty.begin(); d != file; ++d)
              choice /= 3;
            if (choice % 3 < 2)
              text = std::string(choice % 3 == 0 ? 0 : text.size(), '\0');
          }
          disk.apply(log[n], text);
        }
        disk.write(folder, scratch);
        uint64_t found = wholeStepIn(scratch);
        uint64_t least = length == log.size() ? leastAfter : leastBefore;
        EXPECT_GE(found, least) << "after " << length << " calls, subset "
                                << subset << ", content " << content;
        ++states;
        if (::testing::Test::HasFailure())
          return states;
      }
  }
  return states;
}

TEST(Commit, AfterAnyLossOfPowerThereIsAWholeCheckpoint) {
  TemporaryFolder root;
  std::string folder = root.path("c"), scratch = root.path("s");
  fs::create_directory(folder);
  FileOperations plain;
  ASSERT_TRUE(save(plain, folder, 1, {}));
  auto before = contentsOf(folder);
  // Tests the second save and the removal of the first, as one sequence of
  // calls.
  RecordedOperations recorded;
  ASSERT_TRUE(save(recorded, folder, 2, keepOne()));
  ASSERT_EQ(*checkpointsIn(folder), std::vector<uint64_t>{2});
  EXPECT_GT(checkCrashes(recorded.log, before, folder, scratch, 1, 2), 250u);
}

TEST(Commit, AfterTheFirstSaveNothingThatIsNotWholeIsFound) {
  TemporaryFolder root;
  std::string folder = root.path("c"), scratch = root.path("s");
  fs::create_directory(folder);
  RecordedOperations recorded;
  ASSERT_TRUE(save(recorded, folder, 1, {}));
  EXPECT_GT(checkCrashes(recorded.log, {}, folder, scratch, 0, 1), 100u);
}

// Tests the test: without any one of the syncs some state is lost.
TEST(Commit, EachSyncIsNeeded) {
  TemporaryFolder root;
  std::string folder = root.path("c"), scratch = root.path("s");
  fs::create_directory(folder);
  RecordedOperations recorded;
  ASSERT_TRUE(save(recorded, folder, 1, {}));
  size_t syncs = 0;
  for (size_t n = 0; n < recorded.log.size(); ++n) {
    if (recorded.log[n].kind != Kind::Sync &&
        recorded.log[n].kind != Kind::SyncFolder)
      continue;
    ++syncs;
    std::vector<Op> less = recorded.log;
    Op dropped = less[n];
    // The disk makes nothing durable, but the written contents are known.
    std::map<std::string, std::string> before;
    less.erase(less.begin() + static_cast<ptrdiff_t>(n));
    bool found = false;
    for (uint64_t lost = 0; lost < 2 && !found; ++lost) {
      // Either all names arrive and the file's contents are lost, or all names
      // but this folder's.
      Disk disk(before);
      for (const Op &op : less) {
        bool loose = dropped.kind == Kind::SyncFolder &&
                     parentOf(op.path) == dropped.path && isOfNames(op) &&
                     op.kind != Kind::MakeFolder;
        std::string text;
        for (const Op &other : recorded.log)
          if (other.kind == Kind::Sync && other.path == op.path)
            text = other.content;
        if (!loose)
          disk.apply(op, op.path == dropped.path ? std::string() : text);
      }
      disk.write(folder, scratch);
      found = newestCheckpoint(scratch)->found.has_value();
      EXPECT_FALSE(found) << dropped.path;
    }
  }
  EXPECT_EQ(syncs, 5u); // two shards, manifest, two folders
}

TEST(Commit, AnErrorOfAnyCallLeavesTheLastOneWhole) {
  for (size_t failing = 0;; ++failing) {
    TemporaryFolder root;
    std::string folder = root.path("c");
    fs::create_directory(folder);
    FileOperations plain;
    ASSERT_TRUE(save(plain, folder, 1, {}));
    RecordedOperations recorded;
    recorded.failing = failing;
    Result<void> saved = save(recorded, folder, 2, keepOne());
    if (saved) {
      EXPECT_GT(failing, 10u);
      break;
    }
    EXPECT_EQ(saved.error().fault, Error::Fault::Disk);
    EXPECT_NE(saved.error().message.find("no space left"), std::string::npos);
    ASSERT_GE(wholeStepIn(folder), 1u) << failing;
    // Leftovers are removed, and the next save succeeds.
    ASSERT_TRUE(removeLeftovers(plain, folder));
    ASSERT_TRUE(save(plain, folder, 3, keepOne()));
    EXPECT_EQ(*checkpointsIn(folder), std::vector<uint64_t>{3});
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  }
}

TEST(Commit, ACheckpointIsWholeWhileItGetsAnotherManifest) {
  TemporaryFolder root;
  std::string folder = root.path("c"), scratch = root.path("s");
  fs::create_directory(folder);
  FileOperations plain;
  ASSERT_TRUE(save(plain, folder, 1, {}));
  auto before = contentsOf(folder);
  Manifest manifest = openCheckpoint(folder + "/step-000000001")->manifest;
  manifest.evaluation = {.step = 1, .bestStep = 1, .bestLoss = 0.5};
  manifest.metrics.emplace_back("eval_loss", 0.5);
  RecordedOperations recorded;
  ASSERT_TRUE(amendCheckpoint(recorded, folder, manifest));
  EXPECT_GT(checkCrashes(recorded.log, before, folder, scratch, 1, 1), 10u);
  EXPECT_EQ(newestCheckpoint(folder)->found->manifest.metrics.size(), 2u);
  // What a killed run has left of it is no obstacle.
  std::string left = folder + "/step-000000001/manifest.json.new";
  std::ofstream(left) << "half";
  EXPECT_EQ(wholeStepIn(folder), 1u);
  ASSERT_TRUE(amendCheckpoint(plain, folder, manifest));
  EXPECT_FALSE(fs::exists(left));
  std::ofstream(left) << "half";
  ASSERT_TRUE(save(plain, folder, 2, keepOne()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST(Commit, OlderOnesGoButTheBestStays) {
  TemporaryFolder root;
  std::string folder = root.path("c");
  fs::create_directory(folder);
  FileOperations files;
  Retention best{.keep = 1, .best = "loss", .highest = false};
  for (uint64_t step : {1, 2, 3, 4})
    ASSERT_TRUE(save(files, folder, step, best));
  EXPECT_EQ(*checkpointsIn(folder), (std::vector<uint64_t>{4, 2}));
  best.highest = true; // of equal ones the newest, which is kept anyway
  ASSERT_TRUE(save(files, folder, 5, best));
  EXPECT_EQ(*checkpointsIn(folder), std::vector<uint64_t>{5});
  ASSERT_TRUE(save(files, folder, 6, {}));
  EXPECT_EQ(*checkpointsIn(folder), (std::vector<uint64_t>{6, 5}));
}

TEST(Commit, WhatALinkLeadsToIsLeftAlone) {
  TemporaryFolder root;
  std::string folder = root.path("c"), other = root.path("other");
  fs::create_directory(folder);
  fs::create_directory(other);
  FileOperations files;
  // A checkpoint in another folder, and an unfinished one, through links.
  ASSERT_TRUE(save(files, other, 1, {}));
  std::string there = other + "/step-000000001";
  fs::create_directory_symlink(there, folder + "/step-000000001");
  fs::create_directory_symlink(there, folder + "/.tmp-step-000000001.7");
  for (uint64_t step : {2, 3})
    ASSERT_TRUE(save(files, folder, step, keepOne()));
  ASSERT_TRUE(removeLeftovers(files, folder));
  EXPECT_EQ(*checkpointsIn(folder), (std::vector<uint64_t>{3, 1}));
  EXPECT_TRUE(fs::is_symlink(folder + "/step-000000001"));
  EXPECT_TRUE(fs::is_symlink(folder + "/.tmp-step-000000001.7"));
  EXPECT_EQ(wholeStepIn(other), 1u);
}

TEST(Commit, WhatIsThereIsNeverWrittenOver) {
  TemporaryFolder root;
  std::string folder = root.path("c");
  fs::create_directory(folder);
  FileOperations files;
  ASSERT_TRUE(save(files, folder, 1, {}));
  Result<void> again = save(files, folder, 1, {});
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("is there already, and whole"),
            std::string::npos);
  // A damaged checkpoint is kept under another name.
  fs::remove(folder + "/step-000000001/" + shardFileName(0, 2));
  ASSERT_TRUE(removeLeftovers(files, folder));
  ASSERT_TRUE(save(files, folder, 1, {}));
  EXPECT_EQ(wholeStepIn(folder), 1u);
  EXPECT_TRUE(fs::exists(folder + "/step-000000001.damaged"));
  fs::remove(folder + "/step-000000001/" + shardFileName(0, 2));
  ASSERT_TRUE(save(files, folder, 1, {}));
  EXPECT_EQ(*damagedIn(folder),
            (std::vector<std::string>{"step-000000001.damaged",
                                      "step-000000001.damaged-2"}));
}

/// As long as it lives, this process cannot open a file.
class NoFiles {
public:
  NoFiles() {
    getrlimit(RLIMIT_NOFILE, &before);
    rlimit none{0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoFiles() { setrlimit(RLIMIT_NOFILE, &before); }

private:
  rlimit before;
};

TEST(Commit, WhatCannotBeReadNowIsNotDamaged) {
  TemporaryFolder root;
  std::string folder = root.path("c"),
              unfinished = unfinishedPath(folder, 2, 7);
  fs::create_directory(folder);
  FileOperations files;
  ASSERT_TRUE(save(files, folder, 1, {}));
  ASSERT_TRUE(save(files, folder, 2, {}));
  Result<Manifest> manifest = writeShards(files, unfinished, 2);
  ASSERT_TRUE(manifest);
  Result<CheckpointReader> reader =
      CheckpointReader(*std::move(newestCheckpoint(folder)->found));
  {
    NoFiles limit;
    for (const Error &error :
         {openCheckpoint(folder + "/step-000000002").error(),
          newestCheckpoint(folder).error(), checkpointsIn(folder).error(),
          reader->checkAll().error()}) {
      EXPECT_EQ(error.fault, Error::Fault::Rank) << error.message;
      EXPECT_EQ(error.cause, Error::Cause::Moment);
      EXPECT_FALSE(isDamage(error));
      EXPECT_NE(error.message.find("Too many open files; the checkpoint may be "
                                   "whole and stays as it is"),
                std::string::npos);
    }
    // Nor is it set aside for the one that would take its name.
    Result<void> committed =
        commitCheckpoint(files, folder, unfinished, *manifest);
    ASSERT_FALSE(committed);
    EXPECT_EQ(committed.error().fault, Error::Fault::Disk);
  }
  EXPECT_EQ(*checkpointsIn(folder), (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(wholeStepIn(folder), 2u);
  EXPECT_TRUE(damagedIn(folder)->empty());
  EXPECT_TRUE(isDamage(openCheckpoint(folder + "/step-000000003").error()));
}

TEST(Commit, OneOfANewerVersionIsNeitherPassedOverNorSetAside) {
  TemporaryFolder root;
  std::string folder = root.path("c"),
              newest = folder + "/step-000000002/" + manifestName;
  fs::create_directory(folder);
  FileOperations files;
  ASSERT_TRUE(save(files, folder, 1, {}));
  ASSERT_TRUE(save(files, folder, 2, {}));
  std::ifstream stream(newest);
  std::string text{std::istreambuf_iterator<char>(stream), {}},
      body = text.substr(text.find("\"manifest\":") + 11);
  body.resize(body.size() - 2);
  size_t at = body.find("\"version\": 1");
  ASSERT_NE(at, std::string::npos);
  body.replace(at, 12, "\"version\": 77");
  std::ofstream(newest) << "{\"digest\":\"" << digestOf(body)
                        << "\",\"manifest\":" << body << "}\n";
  Result<CheckpointChoice> choice = newestCheckpoint(folder);
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().fault, Error::Fault::Input);
  EXPECT_NE(choice.error().message.find("it has version 77"),
            std::string::npos);
  std::string unfinished = unfinishedPath(folder, 2, 7);
  Result<Manifest> manifest = writeShards(files, unfinished, 2);
  ASSERT_TRUE(manifest);
  EXPECT_FALSE(commitCheckpoint(files, folder, unfinished, *manifest));
  EXPECT_TRUE(fs::exists(newest));
  EXPECT_TRUE(damagedIn(folder)->empty());
}

TEST(Commit, LeftoversOfOthersStay) {
  TemporaryFolder root;
  std::string folder = root.path("c");
  fs::create_directory(folder);
  for (const char *name :
       {".tmp-step-000000001.7", ".trash-step-000000001.7", ".tmp-step-x.7",
        ".tmp-step-000000001", ".tmp-step-000000002.7", "other"})
    fs::create_directory(folder + "/" + name);
  std::ofstream(folder + "/.tmp-step-000000001.7/manifest.json") << "x";
  std::ofstream(folder + "/.tmp-step-000000002.7/mine.txt") << "x";
  FileOperations files;
  ASSERT_TRUE(removeLeftovers(files, folder));
  std::set<std::string> left;
  for (auto &entry : fs::directory_iterator(folder))
    left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{".tmp-step-x.7", ".tmp-step-000000001",
                                         ".tmp-step-000000002.7", "other"}));
  EXPECT_TRUE(fs::exists(folder + "/.tmp-step-000000002.7/mine.txt"));
}

TEST(CheckpointReader, BlocksAreComparedWhereverReadingBegins) {
  TemporaryFolder root;
  FileOperations files;
  std::string path = root.path("step-000000001");
  constexpr int64_t count = 2 * checksumBlock + 100;
  auto writer = ShardWriter::create({{"a", ElementType::U8, {count}}});
  ASSERT_TRUE(writer);
  for (int64_t i = 0; i < count; ++i)
    writer->dataOf(0)[i] = static_cast<std::byte>(i * 7 / 5);
  writer->start(files, path, shardFileName(0, 1));
  auto written = writer->wait();
  ASSERT_TRUE(written) << written.error().message;
  Manifest manifest;
  manifest.step = 1;
  manifest.files = {{shardFileName(0, 1), written->bytes}};
  manifest.tensors = {
      {"a", TensorRole::Buffer, {}, {}, ElementType::U8, {count}, {}}};
  manifest.tensors[0].chunks = {
      {0, "a", {{0}, {count}}, written->checksums[0]}};
  std::ofstream(path + "/manifest.json") << textOf(manifest);
  auto opened = openCheckpoint(path);
  ASSERT_TRUE(opened) << opened.error().message;
  CheckpointReader reader(*opened);
  const ManifestTensor &tensor = reader.manifest().tensors[0];
  std::vector<std::byte> into(count);
  for (auto [begin, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, count},
           {5, 10},
           {checksumBlock - 3, 7},
           {checksumBlock + 1, checksumBlock},
           {2 * checksumBlock, 100},
           {0, 3}}) {
    ASSERT_TRUE(
        reader.read(tensor, tensor.chunks[0], begin, into.data(), size));
    for (uint64_t i = 0; i < size; ++i)
      ASSERT_EQ(into[i], std::byte((begin + i) * 7 / 5 & 255)) << begin;
  }
  ASSERT_TRUE(reader.checkAll());
  // Flips a bit of the second block: a read of another block does not see it.
  std::fstream file(path + "/" + shardFileName(0, 1),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(written->bytes - 200));
  file.put('!');
  file.close();
  CheckpointReader damaged(*opened);
  const ManifestTensor &same = damaged.manifest().tensors[0];
  EXPECT_TRUE(damaged.read(same, same.chunks[0], 0, into.data(), 10));
  Result<void> read = damaged.read(same, same.chunks[0], checksumBlock,
                                   into.data(), checksumBlock);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("their checksum differs"),
            std::string::npos);
  EXPECT_FALSE(
      damaged.read(same, same.chunks[0], checksumBlock + 1, into.data(), 1));
  EXPECT_FALSE(damaged.checkAll());
}

} // namespace
} // namespace polyrank::runtime::test
