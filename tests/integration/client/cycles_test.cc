// Jobs come and go a thousand times, and the server is as it was.
#include <malloc.h>
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/hang_guard.h"
#include "tests/support/lab.h"

namespace phub::testing {
namespace {

using control::Admin;
using std::chrono::milliseconds;

constexpr int kWarmUp = 200;
constexpr int kCycles = 1000;
constexpr long kGrowthMax = 400 * kCycles;  // less than any record of a job

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t shared_segments() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:phub") != std::string::npos) ++count;
  }
  return count;
}

// That the program has from its allocator, whatever that keeps of what came back. But for the
// state's cache of pages, which grows with the audit log to a bound of its own.
long allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<long>(info.uordblks + info.hblkhd) - ::sqlite3_memory_used();
}

// An administrator makes the job, a worker trains a round over shm, the job is closed.
void cycle(Admin::Stub& admin, const ClientOptions& options, int number) {
  control::CreateJobRequest create;
  create.mutable_spec()->set_name(options.job.name);
  create.mutable_spec()->set_workers(1);
  control::CreateJobReply created;
  REQUIRE(ask(admin, "", &Admin::Stub::CreateJob, create, created).ok());
  auto client = Client::connect(options);
  REQUIRE(client);
  const Status registered = (*client)->register_keys({{"w", 20'000}});
  INFO(registered.message());
  REQUIRE(registered.ok());
  (*client)->gradient<float>(0)[1] = static_cast<float>(number);
  REQUIRE((*client)->push_pull(0).ok());
  REQUIRE((*client)->parameter<float>(0)[1] == static_cast<float>(number));
  if (number % 2 == 0) {
    control::CloseJobRequest close;
    close.set_name(options.job.name);
    control::CloseJobReply closed;
    REQUIRE(ask(admin, "", &Admin::Stub::CloseJob, close, closed).ok());
  }
}

template <typename Condition>
bool eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("a thousand jobs leave no memory, descriptors or segments behind") {
  const Lab lab(/*with_tls=*/false, /*tokens_required=*/false);
  const auto admin = lab.admin_stub("");
  const ClientOptions options{.servers = {lab.address()},
                              .job = {.name = "cycle"},
                              .transport = "shm",
                              .timeout = kHangGuard};
  for (int i = 0; i < kWarmUp; ++i) cycle(*admin, options, i);
  REQUIRE(eventually([] { return shared_segments() == 0; }));
  const std::size_t descriptors_before = descriptors();
  const long allocated_before = allocated_bytes();
  for (int i = 0; i < kCycles; ++i) cycle(*admin, options, i);
  CHECK(eventually([] { return shared_segments() == 0; }));
  CHECK(eventually([&] { return descriptors() <= descriptors_before; }));
  const long growth = allocated_bytes() - allocated_before;
  WARN("grown by " << growth << " of " << allocated_before << " bytes in " << kCycles << " jobs");
  CHECK(growth < kGrowthMax);
}

}  // namespace
}  // namespace phub::testing
