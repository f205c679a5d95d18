// Ranks that are no children of the launcher. They are processes of this
// program: main tells a rank from the tests.

#include "runtime/launch/Guest.h"

#include "runtime/job/local/LocalJob.h"
#include "runtime/launch/Launcher.h"
#include "runtime/launch/LocalSocket.h"
#include "support/Version.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

constexpr uid_t nobody = 65534;

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// What a rank does is the second argument of the launcher's command line.
int rankMain(const RankConnection &connection, const std::string &what) {
  auto job = local::joinJob(connection.job(), connection.rank());
  if (!job)
    return connection.fail(job.error());
  if (what == "die" && connection.rank() == 1)
    raise(SIGKILL);
  if (what == "fail" && connection.rank() == 1)
    return connection.fail({"the samples are missing", Error::Fault::Input});
  if (what == "fail")
    for (;;)
      pause(); // and does not hear that the job ends
  if (Result<void> met = (*job)->barrier(); !met)
    return connection.fail(met.error());
  std::string numbers;
  for (int file : connection.descriptors()) {
    char byte = '-';
    if (file >= 0 && pread(file, &byte, 1, 0) != 1)
      byte = '?';
    numbers += byte;
  }
  connection.report({"started",
                     {{"files", numbers},
                      {"parent", getppid()},
                      {"pid", getpid()},
                      {"threads", std::getenv("OMP_NUM_THREADS")}}});
  return connection.finish();
}

int guestMain(const std::string &door, int rank) {
  auto admitted = comeAsGuest({door, rank});
  if (admitted)
    return becomeRank(*admitted);
  const std::string &text = admitted.error().message;
  return write(STDOUT_FILENO, text.data(), text.size()) >= 0
             ? 10 + int(admitted.error().fault)
             : 4;
}

/// A process that comes as a guest. What it prints is why it was refused.
class Visitor {
public:
  Visitor(
      const std::string &door, int rank,
      const std::function<bool()> &before = [] { return true; }) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    result = Descriptor(ends[0]);
    pid = fork();
    if (pid == 0) {
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      dup2(ends[1], STDOUT_FILENO);
      close_range(STDERR_FILENO + 1, ~0u, 0); // the door is the launcher's
      _exit(before() ? guestMain(door, rank) : 77);
    }
    close(ends[1]);
  }
  ~Visitor() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  /// Waits for the end of the process. Returns what it printed.
  std::string wait() {
    std::string text;
    char buffer[4096];
    ssize_t length;
    while ((length = read(result.get(), buffer, sizeof(buffer))) > 0)
      text.append(buffer, length);
    siginfo_t info{};
    waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
    status = info.si_status;
    return text;
  }

  bool hasEnded() const {
    siginfo_t info{};
    return waitid(P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
           info.si_pid == pid;
  }

  pid_t pid = -1;
  int status = 0;

private:
  Descriptor result;
};

/// A launcher whose ranks are all guests, but those that `children` names.
class GuestsTest : public testing::Test {
protected:
  GuestsTest() {
    alarm(60);
    auto opened = GuestDoor::open();
    EXPECT_TRUE(opened) << opened.error().message;
    door.emplace(*std::move(opened));
    launch.nameOf = [](int rank) { return "rank " + std::to_string(rank); };
    launch.placeOf = [](int, uint32_t) { return std::string("a command"); };
    launch.onWarning = [this](const std::string &text) {
      warnings += text + "\n";
    };
    launch.onReport =
        [this](int rank,
               const TaggedMessage &report) -> Result<std::optional<double>> {
      reports[rank] = report.body;
      return std::optional<double>();
    };
    launch.door = &*door;
  }
  ~GuestsTest() override { alarm(0); }

  LaunchEnd run(int ranks, const std::string &what) {
    auto created = local::createJob({.ranks = ranks});
    EXPECT_TRUE(created);
    job = *std::move(created);
    launch.ranks = ranks;
    launch.arguments = {"ranks", what};
    if (launch.guests.empty())
      for (int rank = 0; rank < ranks; ++rank)
        launch.guests.push_back(rank);
    auto signals = EndSignals::block();
    EXPECT_TRUE(signals);
    return launchRanks(launch, *job, *signals);
  }
  std::unique_ptr<Visitor> visit(int rank) {
    return std::make_unique<Visitor>(door->name(), rank);
  }

  LaunchOptions launch;
  std::optional<GuestDoor> door;
  std::unique_ptr<JobControl> job;
  std::map<int, nlohmann::json> reports;
  std::string warnings;
};

TEST_F(GuestsTest, RunTheJobBesideChildren) {
  int zero = memfd_create("zero", MFD_CLOEXEC),
      two = memfd_create("two", MFD_CLOEXEC);
  ASSERT_EQ(write(zero, "0", 1), 1);
  ASSERT_EQ(write(two, "2", 1), 1);
  launch.descriptors = {zero, -1, two};
  launch.guests = {0, 2};
  launch.threads = 3;
  auto first = visit(0), third = visit(2);
  LaunchEnd end = run(3, "meet");
  EXPECT_TRUE(end.result) << end.result.error().message;
  ASSERT_EQ(reports.size(), 3u) << warnings;
  for (auto &[rank, report] : reports) {
    EXPECT_EQ(report["files"], "0-2") << rank;
    EXPECT_EQ(report["threads"], "3");
  }
  EXPECT_EQ(reports[0]["pid"], first->pid);
  EXPECT_EQ(reports[2]["pid"], third->pid);
  EXPECT_EQ(reports[1]["parent"], getpid());
  EXPECT_EQ(first->wait(), "");
  EXPECT_EQ(first->status, 0);
  close(zero);
  close(two);
}

TEST_F(GuestsTest, GetHundredsOfFilesInOrder) {
  std::string expected;
  for (int n = 0; n < 300; ++n) {
    std::string digit = std::to_string(n % 10);
    launch.descriptors.push_back(n % 7 == 3 ? -1
                                            : memfd_create("n", MFD_CLOEXEC));
    if (n % 7 != 3)
      ASSERT_EQ(write(launch.descriptors.back(), digit.data(), 1), 1);
    expected += n % 7 == 3 ? "-" : digit;
  }
  auto guest = visit(0);
  LaunchEnd end = run(1, "meet");
  EXPECT_TRUE(end.result) << end.result.error().message;
  EXPECT_EQ(reports[0]["files"], expected);
  for (int file : launch.descriptors)
    close(file);
}

TEST_F(GuestsTest, MayBeInAUserNamespaceOfTheirOwn) {
  Visitor guest(door->name(), 0, [] { return unshare(CLONE_NEWUSER) == 0; });
  launch.timeout = std::chrono::seconds(5);
  LaunchEnd end = run(1, "meet");
  guest.wait();
  if (guest.status == 77)
    GTEST_SKIP() << "may not make a user namespace";
  EXPECT_TRUE(end.result) << end.result.error().message;
}

TEST_F(GuestsTest, ThatDieEndTheJob) {
  auto zero = visit(0), one = visit(1);
  LaunchEnd end = run(2, "die");
  ASSERT_FALSE(end.result);
  EXPECT_EQ(end.result.error().message, "rank 1 ended before it was done");
  EXPECT_EQ(end.result.error().fault, Error::Fault::Rank);
  one->wait();
  EXPECT_EQ(one->status, SIGKILL);
  door.reset(); // in case it had not come in yet
  zero->wait();
  EXPECT_NE(zero->status, 0) << "the other one is told";
}

TEST_F(GuestsTest, ThatDoNotEndWithTheJobAreKilled) {
  auto zero = visit(0), one = visit(1);
  LaunchEnd end = run(2, "fail");
  ASSERT_FALSE(end.result);
  EXPECT_EQ(end.result.error().message, "rank 1: the samples are missing");
  EXPECT_EQ(end.result.error().fault, Error::Fault::Input);
  zero->wait();
  EXPECT_EQ(zero->status, SIGKILL);
}

TEST_F(GuestsTest, ThatDoNotComeAreNamed) {
  auto zero = visit(0);
  launch.timeout = std::chrono::milliseconds(1500);
  LaunchEnd end = run(2, "meet");
  ASSERT_FALSE(end.result);
  EXPECT_EQ(end.result.error().fault, Error::Fault::Hang);
  EXPECT_TRUE(contains(end.result.error().message,
                       ": rank 1 has not joined the job; --timeout"))
      << end.result.error().message;
  EXPECT_TRUE(contains(warnings, "> rank 1  has not joined the job (for "))
      << warnings;
}

TEST_F(GuestsTest, ThatComeTwiceAreRefused) {
  auto first = visit(0);
  std::unique_ptr<Visitor> second, third;
  launch.onTick = [&] {
    if (!second && job->report(0).phase != RankPhase::Starting)
      second = visit(0);
    // The job goes on once the second one was refused.
    if (second && !third && second->hasEnded())
      third = visit(1);
  };
  LaunchEnd end = run(2, "meet");
  EXPECT_TRUE(end.result) << end.result.error().message;
  ASSERT_TRUE(second);
  EXPECT_EQ(second->wait(), "rank 0 was refused: process " +
                                std::to_string(first->pid) +
                                " is that rank already");
  EXPECT_EQ(second->status, 12) << "it may try again";
}

TEST_F(GuestsTest, OfARankThatIsAChildAreRefused) {
  launch.guests = {1};
  auto other = visit(0);
  std::unique_ptr<Visitor> one;
  launch.onTick = [&] {
    if (!one && other->hasEnded())
      one = visit(1);
  };
  LaunchEnd end = run(2, "meet");
  EXPECT_TRUE(end.result) << end.result.error().message;
  std::string refusal = other->wait();
  EXPECT_TRUE(contains(refusal, "rank 0 was refused: process ")) << refusal;
}

TEST_F(GuestsTest, OfARankThatTheJobDoesNotHaveAreRefused) {
  auto two = visit(2), minus = visit(-1);
  std::unique_ptr<Visitor> zero;
  launch.onTick = [&] {
    if (!zero && two->hasEnded() && minus->hasEnded())
      zero = visit(0);
  };
  LaunchEnd end = run(1, "meet");
  EXPECT_TRUE(end.result) << end.result.error().message;
  EXPECT_EQ(two->wait(), "rank 2 was refused: the job has ranks 0 to 0");
  EXPECT_EQ(two->status, 11) << "its input is wrong";
  EXPECT_EQ(minus->wait(), "rank -1 was refused: the job has ranks 0 to 0");
  EXPECT_TRUE(contains(warnings, "asked to be rank 2 and was refused: the job"))
      << warnings;
}

TEST_F(GuestsTest, ThatComeTooLateAreRefused) {
  auto zero = visit(0), one = visit(1);
  std::thread late;
  std::string refusal;
  launch.onTick = [&] {
    if (late.joinable() || job->health())
      return;
    late = std::thread([&] {
      auto admitted = comeAsGuest({door->name(), 2});
      refusal = admitted ? "admitted" : admitted.error().message;
    });
    pollfd knocking{door->descriptors()[0], POLLIN, 0};
    poll(&knocking, 1, 10'000);
  };
  LaunchEnd end = run(3, "fail");
  EXPECT_FALSE(end.result);
  door.reset(); // whoever still waits is told
  ASSERT_TRUE(late.joinable());
  late.join();
  EXPECT_EQ(refusal,
            "rank 2 was refused: it comes too late, the job is ending");
}

TEST_F(GuestsTest, OfAnotherUserAreRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can be another user";
  Visitor other(door->name(), 0, [] { return setuid(nobody) == 0; });
  std::unique_ptr<Visitor> zero;
  launch.onTick = [&] {
    if (!zero && other.hasEnded())
      zero = visit(0);
  };
  LaunchEnd end = run(1, "meet");
  EXPECT_TRUE(end.result) << end.result.error().message;
  // Each end looks who the other one is.
  EXPECT_EQ(other.wait(), "rank 0: the launcher of '" + door->name() +
                              "' is a process of user 0, and this one is of "
                              "user 65534");
}

/// A connection to a door, for what no guest of ours says.
class RawGuest {
public:
  explicit RawGuest(const std::string &name)
      : socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto [address, length] = addressOf(name);
    EXPECT_EQ(
        connect(socket.get(), reinterpret_cast<sockaddr *>(&address), length),
        0)
        << std::strerror(errno);
  }
  void say(const std::string &text) const {
    EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              ssize_t(text.size()));
  }
  std::string hear() const {
    char text[4096];
    ssize_t length = recv(socket.get(), text, sizeof(text), 0);
    return std::string(text, length > 0 ? length : 0);
  }

private:
  Descriptor socket;
};

TEST(GuestDoor, RefusesWhatIsNoRequest) {
  auto door = GuestDoor::open();
  ASSERT_TRUE(door);
  for (auto [text, why] : std::initializer_list<std::array<std::string, 2>>{
           {"hello\n", "this is no request to be a rank"},
           {"[]\n", "this is no request to be a rank"},
           {"{\"rank\":\"0\"}\n", "this is no request to be a rank"},
           {std::string(5000, 'x'), "this is no request to be a rank"},
           {"{\"rank\":0}\n", "the process of none: all ranks must be"},
           {"{\"rank\":0,\"version\":\"0.0.7\"}\n",
            "the process of 0.0.7: all ranks must be"}}) {
    RawGuest guest(door->name());
    guest.say(text);
    while (true) {
      EXPECT_TRUE(door->look().empty());
      if (door->descriptors().size() == 1)
        break;
    }
    EXPECT_TRUE(contains(guest.hear(), why)) << text << " " << why;
  }
}

TEST(GuestDoor, ForgetsWhoIsGoneAndWaitsForWhoIsSlow) {
  auto door = GuestDoor::open();
  ASSERT_TRUE(door);
  auto gone = std::make_unique<RawGuest>(door->name());
  RawGuest slow(door->name());
  EXPECT_TRUE(door->look().empty());
  EXPECT_EQ(door->descriptors().size(), 3u);
  gone.reset();
  slow.say("{\"rank\":4,");
  EXPECT_TRUE(door->look().empty());
  EXPECT_EQ(door->descriptors().size(), 2u);
  slow.say("\"version\":\"" + std::string(versionText) + "\"}\n");
  auto found = door->look();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 4);
  EXPECT_EQ(found[0].pid, getpid());
  EXPECT_EQ(door->descriptors().size(), 1u);
}

TEST(GuestDoor, RefusesAProcessOfAnotherUser) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can be another user";
  auto door = GuestDoor::open();
  ASSERT_TRUE(door);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    if (setuid(nobody) != 0)
      _exit(1);
    RawGuest guest(door->name());
    std::string text = guest.hear();
    _exit(write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  close(ends[1]);
  pollfd knocking{door->descriptors()[0], POLLIN, 0};
  EXPECT_EQ(poll(&knocking, 1, 10'000), 1);
  EXPECT_TRUE(door->look().empty());
  EXPECT_EQ(door->descriptors().size(), 1u);
  char text[1000] = {};
  EXPECT_GT(read(ends[0], text, sizeof(text) - 1), 0);
  EXPECT_TRUE(contains(text, "the ranks of this job are processes of user 0, "
                             "and process " +
                                 std::to_string(child) + " is of user 65534"))
      << text;
  waitpid(child, nullptr, 0);
  close(ends[0]);
}

TEST(ComeAsGuest, WhereNobodyWaitsIsAnError) {
  std::string name;
  {
    auto door = GuestDoor::open();
    ASSERT_TRUE(door);
    name = door->name();
  }
  auto refused = comeAsGuest({name, 3});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "rank 3: no run on this machine waits for guests under the name '" +
                name + "': it has not begun, or is over");
  EXPECT_EQ(refused.error().fault, Error::Fault::Rank);
}

TEST(ComeAsGuest, ALauncherThatEndsBeforeItAnswersIsAnError) {
  auto door = GuestDoor::open();
  ASSERT_TRUE(door);
  std::string message;
  std::thread guest([&, name = door->name()] {
    auto refused = comeAsGuest({name, 3});
    message = refused ? "admitted" : refused.error().message;
  });
  pollfd knocking{door->descriptors()[0], POLLIN, 0};
  EXPECT_EQ(poll(&knocking, 1, 10'000), 1);
  {
    GuestDoor closed = *std::move(door);
  }
  guest.join();
  EXPECT_EQ(message, "rank 3: the launcher (process " +
                         std::to_string(getpid()) +
                         ") has gone before it answered");
}

} // namespace
} // namespace polyrank::runtime

int main(int argc, char **argv) {
  using namespace polyrank::runtime;
  std::signal(SIGPIPE, SIG_IGN);
  if (auto connection = RankConnection::fromEnvironment())
    return rankMain(*connection, argc > 1 ? argv[1] : "");
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
