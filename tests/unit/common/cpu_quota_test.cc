// What is read of control groups' files, of both versions.
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/affinity.h"
#include "tests/support/temporary_directory.h"

namespace phub {
namespace {

struct Groups {
  TemporaryDirectory directory;
  CgroupFiles files{.groups = directory.path / "groups", .root = directory.path};

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((directory.path / name).parent_path());
    directory.write(name, text);
  }
};

TEST_CASE("a list of CPUs has ranges in ascending order") {
  CHECK(cpu_list({}).empty());
  CHECK(cpu_list({7}) == "7");
  CHECK(cpu_list({3, 2, 9, 1, 8, 12}) == "1-3,8-9,12");
}

TEST_CASE("without groups, files or quotas there is no quota") {
  Groups g;
  CHECK_FALSE(cpu_quota(g.files));
  CHECK(usable_cpu_count(g.files) >= 1);
  g.write("groups", "0::/a/b\n4:cpu,cpuacct:/a\n");
  CHECK_FALSE(cpu_quota(g.files));
  g.write("a/b/cpu.max", "max 100000\n");
  g.write("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  g.write("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(cpu_quota(g.files));
}

TEST_CASE("of version 2 the strictest quota of the group and those above counts") {
  Groups g;
  g.write("groups", "0::/a/b\n");
  g.write("a/b/cpu.max", "400000 100000\n");
  CHECK(cpu_quota(g.files) == 4.0);
  g.write("a/cpu.max", "150000 100000\n");
  CHECK(cpu_quota(g.files) == 1.5);
  CHECK(usable_cpu_count(g.files) == 1);
}

TEST_CASE("of version 1 the group of the controller cpu counts") {
  Groups g;
  g.write("groups", "3:cpuset:/other\n4:cpu,cpuacct:/a\n");
  g.write("cpu/a/cpu.cfs_quota_us", "50000\n");
  g.write("cpu/a/cpu.cfs_period_us", "100000\n");
  CHECK(cpu_quota(g.files) == 0.5);
  CHECK(usable_cpu_count(g.files) == 1);
}

TEST_CASE("in a container whose root is its own group the root's quota counts") {
  Groups g;
  g.write("groups", "0::/host/path\n");
  g.write("cpu.max", "200000 100000\n");
  CHECK(cpu_quota(g.files) == 2.0);
}

}  // namespace
}  // namespace phub
