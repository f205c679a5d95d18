// The limits of control groups of both versions, with synthetic files.

#include "runtime/launch/ControlGroups.h"
#include "test/support/TemporaryFolder.h"

#include <gtest/gtest.h>
#include <vector>

namespace polyrank::runtime::test {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

/// A /proc and a /sys for one test.
class Root {
public:
  double quota(const std::string &own, Files files) {
    return cpuQuota(write(own, std::move(files)));
  }
  MemoryRoom room(const std::string &own, Files files) {
    return memoryRoom(write(own, std::move(files)));
  }

private:
  std::string write(const std::string &own, Files files) {
    files.emplace_back("/proc/self/cgroup", own);
    std::filesystem::remove_all(folder.path("root"));
    for (auto &[path, text] : files) {
      std::filesystem::path whole = folder.path("root") + path;
      std::filesystem::create_directories(whole.parent_path());
      std::ofstream(whole) << text << "\n";
    }
    return folder.path("root");
  }

  TemporaryFolder folder;
};

TEST(ControlGroups, TheQuotaIsTheLeastOfAllGroupsAbove) {
  Root root;
  EXPECT_EQ(root.quota("0::/", {}), unlimited);
  EXPECT_EQ(root.quota("0::/", {{"/sys/fs/cgroup/cpu.max", "max 100000"}}),
            unlimited);
  EXPECT_EQ(root.quota("0::/", {{"/sys/fs/cgroup/cpu.max", "150000 100000"}}),
            1.5);
  EXPECT_EQ(root.quota("0::/a/b", {{"/sys/fs/cgroup/a/b/cpu.max", "max 1000"},
                                   {"/sys/fs/cgroup/a/cpu.max", "3000 1000"}}),
            3);
  EXPECT_EQ(root.quota("5:memory:/m\n4:cpu,cpuacct:/c",
                       {{"/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000"},
                        {"/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000"}}),
            0.5);
  EXPECT_EQ(root.quota("4:cpu:/not/in/this/container",
                       {{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"},
                        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"}}),
            unlimited);
}

TEST(ControlGroups, TheRoomIsWhatTheMachineHasAvailable) {
  Root root;
  MemoryRoom unknown = root.room("0::/", {});
  EXPECT_EQ(unknown.bytes, std::numeric_limits<uint64_t>::max());
  MemoryRoom room = root.room(
      "0::/", {{"/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 500 kB"},
               {"/sys/fs/cgroup/memory.max", "max"},
               {"/sys/fs/cgroup/memory.current", "4096000"}});
  EXPECT_EQ(room.bytes, 512000u);
  EXPECT_EQ(room.limit, 0u);
}

TEST(ControlGroups, TheRoomIsTheLeastThatAnyGroupAboveHasLeft) {
  const std::pair<std::string, std::string> machine{"/proc/meminfo",
                                                    "MemAvailable: 500 kB"};
  Root root;
  MemoryRoom room =
      root.room("0::/a/b", {machine,
                            {"/sys/fs/cgroup/a/memory.max", "300000"},
                            {"/sys/fs/cgroup/a/memory.current", "200000"},
                            {"/sys/fs/cgroup/a/b/memory.max", "250000"},
                            {"/sys/fs/cgroup/a/b/memory.current", "1000"}});
  EXPECT_EQ(room.bytes, 100000u);
  EXPECT_EQ(room.limit, 300000u);
  // A group over its limit has no room left, and the page cache counts as free.
  Files files{machine,
              {"/sys/fs/cgroup/a/memory.max", "300000"},
              {"/sys/fs/cgroup/a/memory.current", "310000"}};
  EXPECT_EQ(root.room("0::/a", files).bytes, 0u);
  files.emplace_back("/sys/fs/cgroup/a/memory.stat",
                     "anon 5\ninactive_file 30000\nactive_file 20000\n"
                     "total_inactive_file 7");
  EXPECT_EQ(root.room("0::/a", files).bytes, 40000u);
  // A group that has more left than the machine does not bound it.
  files[1].second = "1000000000";
  EXPECT_EQ(root.room("0::/a", files).limit, 0u);
}

TEST(ControlGroups, TheRoomIsFoundInVersionOneToo) {
  Root root;
  Files files{
      {"/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "300000"},
      {"/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "200000"},
      {"/sys/fs/cgroup/memory/m/memory.stat",
       "inactive_file 9\ntotal_inactive_file 50000"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "100"}};
  MemoryRoom room = root.room("4:cpu:/c\n5:memory:/m", files);
  EXPECT_EQ(room.bytes, 150000u);
  EXPECT_EQ(room.limit, 300000u);
}

} // namespace
} // namespace polyrank::runtime::test
