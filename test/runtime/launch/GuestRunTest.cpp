// Runs whose ranks are started by somebody else: polyrank-run --guests and
// --guest-of.

#include "test/runtime/launch/RunFixture.h"

#include "runtime/launch/GuestDoor.h"
#include "runtime/plan/PlanFile.h"

#include <filesystem>

namespace polyrank::runtime::test {
namespace {

class GuestRunTest : public RunTest {
protected:
  /// A process that joins the run, in another folder.
  class Guest {
  public:
    Guest(const GuestRunTest &test, const std::string &rank,
          const std::vector<std::string> &more = {},
          const std::function<void()> &prepare = {})
        : process(argumentsOf(test, rank, more),
                  test.directory / ("guest-" + std::to_string(++count)), [&] {
                    EXPECT_EQ(chdir("/"), 0);
                    if (prepare)
                      prepare();
                  }) {}
    Process process;

  private:
    static std::vector<std::string>
    argumentsOf(const GuestRunTest &test, const std::string &rank,
                const std::vector<std::string> &more) {
      std::vector<std::string> all{"--guest-of", test.name, "--rank", rank};
      all.insert(all.end(), more.begin(), more.end());
      return all;
    }
    static inline int count = 0;
  };

  std::vector<std::string> run(const std::vector<std::string> &more = {},
                               const std::string &steps = "5") {
    std::vector<std::string> all = training(steps);
    all.insert(all.end(), {"--guests", name});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::unique_ptr<Guest>> come(int ranks) {
    std::vector<std::unique_ptr<Guest>> guests;
    for (int rank = 0; rank < ranks; ++rank)
      guests.push_back(std::make_unique<Guest>(*this, std::to_string(rank)));
    return guests;
  }
  static bool says(const Process &process, const std::string &text) {
    return process.output().find(text) != std::string::npos;
  }

  std::string name = "test-" + std::to_string(getpid());
};

TEST_F(GuestRunTest, GivesTheWeightsOfChildren) {
  makePlan(2, 2, 2);
  ASSERT_EQ(runTraining(), 0);
  std::string expected = readFile(saved);
  std::filesystem::remove(saved);
  // Names of files are those of the launcher's folder.
  std::string folder = std::filesystem::path(plan).parent_path();
  auto arguments = run();
  for (std::string &argument : arguments)
    if (argument.starts_with(folder))
      argument = argument.substr(folder.size() + 1);
  auto early = std::make_unique<Guest>(*this, "3");
  ASSERT_TRUE(
      eventually([&] { return says(early->process, "waits for run"); }));
  Process launcher(arguments, errors,
                   [&] { ASSERT_EQ(chdir(folder.c_str()), 0); });
  auto guests = come(3);
  EXPECT_EQ(launcher.wait(), 0) << launcher.output();
  for (auto &guest : guests)
    EXPECT_EQ(guest->process.wait(), 0) << guest->process.output();
  EXPECT_EQ(early->process.wait(), 0) << early->process.output();
  EXPECT_EQ(readFile(saved), expected);
  EXPECT_TRUE(
      says(launcher, "polyrank-run --guest-of " + name + " --rank I (0 to 3)"))
      << launcher.output();
}

TEST_F(GuestRunTest, RefusesWhoIsNoRankOfIt) {
  makePlan(2, 1, 1);
  std::string other = directory / "other.plan", digits(64, '0');
  std::filesystem::rename(plan, other);
  makePlan(2, 1, 2);
  Process launcher(run({"--timeout", "60"}), errors);
  Guest first(*this, "0", {plan, "--sha256", readPlan(plan)->sha256()});
  ASSERT_TRUE(eventually([&] { return says(launcher, "waits for 2 ranks"); }));
  struct Case {
    std::string rank;
    std::vector<std::string> more;
    int status;
    std::string why;
  };
  for (const Case &each : std::initializer_list<Case>{
           {"2", {}, 1, "rank 2 was refused: the job has ranks 0 to 1"},
           {"1", {other}, 1, "rank 1 was refused: its plan has SHA-256"},
           {"1", {"--sha256", digits}, 1, "SHA-256 " + digits + ", and that"},
           {"1", {other, "--sha256", digits}, 1, "has SHA-256"},
           {"1", {directory / "none"}, 1, "none"},
           {"1",
            {"--steps", "3"},
            1,
            "a guest has the options of its run: give --steps to the "
            "polyrank-run that has --guests " +
                name}}) {
    Guest guest(*this, each.rank, each.more);
    EXPECT_EQ(guest.process.wait(), each.status) << guest.process.output();
    EXPECT_TRUE(says(guest.process, each.why)) << each.why << "\n"
                                               << guest.process.output();
  }
  ASSERT_TRUE(eventually([&] {
    Guest again(*this, "0");
    EXPECT_EQ(again.process.wait(), 2);
    return says(again.process, "is that rank already");
  }));
  // The launcher tells of them too.
  EXPECT_TRUE(says(launcher, "asked to be rank 2 and was refused"));
  Guest last(*this, "1", {plan});
  EXPECT_EQ(launcher.wait(), 0) << launcher.output();
  EXPECT_EQ(first.process.wait(), 0);
  EXPECT_EQ(last.process.wait(), 0);
}

TEST_F(GuestRunTest, NamesWhoDoesNotCome) {
  makePlan(2, 1, 1);
  Process launcher(run({"--timeout", "1"}), errors);
  Guest zero(*this, "0");
  EXPECT_EQ(launcher.wait(), 3);
  EXPECT_TRUE(says(launcher, "rank 1 (data=1,tensor=0) has not joined the job"))
      << launcher.output();
  EXPECT_EQ(zero.process.wait(), 2) << zero.process.output();
  EXPECT_FALSE(std::filesystem::exists(saved));
}

TEST_F(GuestRunTest, NamesWhoIsKilled) {
  makePlan(2, 1, 1);
  Process launcher(run({}, "1000000000"), errors);
  auto guests = come(2);
  ASSERT_TRUE(eventually([&] { return linesOf(log).size() >= 3; }))
      << launcher.output();
  kill(guests[1]->process.pid, SIGKILL);
  EXPECT_EQ(launcher.wait(), 2);
  EXPECT_TRUE(
      says(launcher, "rank 1 (data=1,tensor=0) ended before it was done"))
      << launcher.output();
  EXPECT_NE(guests[0]->process.wait(), 0);
}

TEST_F(GuestRunTest, ThatIsKilledEndsItsGuests) {
  makePlan(2, 1, 1);
  auto launcher = std::make_unique<Process>(run({}, "1000000000"), errors);
  auto guests = come(2);
  ASSERT_TRUE(eventually([&] { return linesOf(log).size() >= 3; }));
  launcher.reset();
  for (auto &guest : guests)
    EXPECT_EQ(guest->process.wait(), 2) << guest->process.output();
}

TEST_F(GuestRunTest, EndsAfterASignalAndGoesOn) {
  makePlan(2, 1, 1);
  std::string folder = directory / "checkpoints";
  std::vector<std::string> more{"--checkpoint", folder, "--resume", "auto"};
  {
    Process launcher(run(more, "1000000000"), errors);
    auto guests = come(2);
    ASSERT_TRUE(eventually([&] { return linesOf(log).size() >= 2; }));
    // A scheduler sends it to all.
    for (auto &guest : guests)
      kill(guest->process.pid, SIGTERM);
    kill(launcher.pid, SIGTERM);
    EXPECT_EQ(launcher.wait(), 4) << launcher.output();
    for (auto &guest : guests)
      EXPECT_EQ(guest->process.wait(), 0) << guest->process.output();
  }
  Process launcher(run(more, "1000000000"), errors);
  auto guests = come(2);
  ASSERT_TRUE(eventually([&] { return says(launcher, "going on from "); }));
  kill(launcher.pid, SIGTERM);
  EXPECT_NE(launcher.wait(), 0);
}

TEST_F(GuestRunTest, IsStartedAgainForAnOlderCheckpoint) {
  makePlan(2, 1, 1);
  std::string folder = directory / "checkpoints";
  std::vector<std::string> more{"--checkpoint", folder, "--every", "2",
                                "--resume",     "auto"};
  {
    std::vector<std::string> arguments = training("4");
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process process(arguments, errors);
    ASSERT_EQ(process.wait(), 0) << process.output();
  }
  // The last byte of a shard is one of a tensor.
  std::string shard;
  for (auto &entry :
       std::filesystem::directory_iterator(folder + "/step-000000004"))
    if (entry.path().extension() == ".safetensors")
      shard = entry.path();
  std::string bytes = readFile(shard);
  ASSERT_FALSE(bytes.empty());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  writeFile(shard, bytes.data(), bytes.size());
  {
    Process launcher(run(more, "6"), errors);
    auto guests = come(2);
    EXPECT_EQ(launcher.wait(), 2) << launcher.output();
    EXPECT_TRUE(says(launcher, "start it and them again with --resume " +
                                   folder + "/step-000000002"))
        << launcher.output();
  }
  Process launcher(run(more, "6"), errors);
  auto guests = come(2);
  EXPECT_EQ(launcher.wait(), 0) << launcher.output();
}

TEST_F(GuestRunTest, HasItsNameAlone) {
  makePlan(1, 1, 1);
  auto door = GuestDoor::open(name);
  ASSERT_TRUE(door);
  Process launcher(run(), errors);
  EXPECT_EQ(launcher.wait(), 2);
  EXPECT_TRUE(says(launcher, "another run on this machine has the name '" +
                                 name + "' for its guests"))
      << launcher.output();
}

TEST_F(GuestRunTest, ThatIsNotThereIsAnErrorOfTheGuest) {
  Guest guest(*this, "0", {"--timeout", "0.1"});
  EXPECT_EQ(guest.process.wait(), 2);
  EXPECT_TRUE(says(guest.process,
                   "rank 0: no run on this machine waits for guests under the "
                   "name '" +
                       name + "'"))
      << guest.process.output();
}

TEST_F(GuestRunTest, ThatEndsBeforeItAnswersIsGone) {
  auto door = GuestDoor::open(name);
  ASSERT_TRUE(door);
  Guest guest(*this, "0");
  // The request is given up as soon as it is there.
  ASSERT_TRUE(eventually([&] { return !door->look().empty(); }));
  EXPECT_EQ(guest.process.wait(), 2);
  EXPECT_TRUE(says(guest.process, "has gone before it answered"))
      << guest.process.output();
}

TEST_F(GuestRunTest, HasNoRestarts) {
  makePlan(2, 1, 1);
  Process launcher(run({"--restarts", "3"}), errors);
  EXPECT_EQ(launcher.wait(), 1);
  EXPECT_TRUE(says(launcher, "--restarts starts ranks again, and guests are "
                             "started by somebody else"))
      << launcher.output();
}

TEST_F(GuestRunTest, WhoseFolderAGuestCannotEnterIsToldSo) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can look at another root folder";
  makePlan(2, 1, 1);
  // The guest sees an empty folder in the place of the launcher's.
  std::string folder = directory / "work";
  std::filesystem::create_directory(folder);
  Process launcher(run(), errors, [&] { ASSERT_EQ(chdir(folder.c_str()), 0); });
  ASSERT_TRUE(eventually([&] { return says(launcher, "waits for 2 ranks"); }));
  std::filesystem::remove(folder);
  auto guests = come(2);
  EXPECT_EQ(launcher.wait(), 2);
  EXPECT_TRUE(says(launcher, "cannot enter '")) << launcher.output();
}

TEST_F(GuestRunTest, NamesAreChecked) {
  for (const std::string &wrong : {std::string(), std::string("a b"),
                                   std::string("../x"), std::string(65, 'a')}) {
    Process process({"--guest-of", wrong, "--rank", "0"}, errors);
    EXPECT_EQ(process.wait(), 1) << wrong;
    EXPECT_TRUE(says(process, "is no name of a run")) << process.output();
  }
}

} // namespace
} // namespace polyrank::runtime::test
