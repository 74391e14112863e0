// An endpoint whose writes leave later: when they leave, what waits, and who is woken. What is
// behind it is made up, and time is the test's.
#include "bench/delay/delayed_endpoint.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <catch2/catch.hpp>
#include <map>

#include "tests/support/hang_guard.h"

namespace phub::bench {
namespace {

using transport::Completion;
using transport::PeerId;
using transport::Write;

using std::chrono::microseconds;

constexpr microseconds kDelay{1000};
constexpr std::byte kPayload[1] = {};

// Takes as many writes as it is told to.
class Behind final : public transport::Endpoint {
 public:
  std::size_t post(PeerId peer, std::span<const Write> writes) override {
    std::size_t accepted = 0;
    for (; accepted < writes.size() && takes > 0; ++accepted, --takes) {
      taken[peer].push_back(writes[accepted].immediate);
    }
    return accepted;
  }
  std::size_t room(PeerId) const override { return takes; }
  std::size_t poll(std::span<Completion>) override { return 0; }
  bool arm() override { return arms; }
  void disarm() override {}
  int wait_fd() const override { return event.get(); }
  void expect(PeerId, std::uint32_t, std::uint64_t) override {}
  void pause(PeerId, bool) override {}
  void remove(PeerId peer) override { removed.push_back(peer); }

  std::size_t takes = 1000;
  bool arms = true;
  UniqueFd event = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::map<PeerId, std::vector<std::uint32_t>> taken;  // immediates
  std::vector<PeerId> removed;
};

class DelayedRig {
 public:
  // How many of `count` writes were accepted; their immediates follow `first`.
  std::size_t post(PeerId peer, std::uint32_t first, std::size_t count = 1,
                   std::uint32_t bytes = 100) {
    std::vector<Write> writes;
    for (std::uint32_t i = 0; i < count; ++i) writes.push_back({kPayload, bytes, first + i});
    return delayed->post(peer, writes);
  }
  void pass(microseconds time) { now += time; }
  const std::vector<std::uint32_t>& taken(PeerId peer) {
    delayed->poll({});
    return behind.taken[peer];
  }
  bool is_woken(std::chrono::milliseconds time) const {
    pollfd descriptor = {.fd = delayed->wait_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&descriptor, 1, static_cast<int>(time.count())) == 1;
  }

  Behind behind;
  std::chrono::steady_clock::time_point now = {};
  std::unique_ptr<DelayedEndpoint> delayed = std::move(*DelayedEndpoint::create(
      behind, {.delay = kDelay, .max_peers = 2, .now = [this] { return now; }}));
};

using Immediates = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("a write leaves when its time has come and not before") {
  DelayedRig rig;
  REQUIRE(rig.post(0, 7) == 1);
  CHECK(rig.taken(0).empty());
  rig.pass(kDelay - microseconds(1));
  CHECK(rig.taken(0).empty());
  CHECK_FALSE(rig.delayed->is_empty());
  rig.pass(microseconds(1));
  CHECK(rig.taken(0) == Immediates{7});
  CHECK(rig.delayed->is_empty());
}

TEST_CASE("each write waits for its own time, in the order of its peer's") {
  DelayedRig rig;
  REQUIRE(rig.post(0, 1, 2) == 2);
  rig.pass(kDelay / 2);
  REQUIRE(rig.post(1, 10) == 1);
  REQUIRE(rig.post(0, 3) == 1);
  rig.pass(kDelay / 2);
  CHECK(rig.taken(0) == Immediates{1, 2});
  CHECK(rig.taken(1).empty());
  rig.pass(kDelay / 2);
  CHECK(rig.taken(0) == Immediates{1, 2, 3});
  CHECK(rig.taken(1) == Immediates{10});
}

TEST_CASE("a line takes so many writes, and so many bytes, as room has said") {
  DelayedRig rig;
  SECTION("writes") {
    std::uint32_t posted = 0;
    for (std::size_t room = 0; (room = rig.delayed->room(0)) > 0;) {
      REQUIRE(rig.post(0, posted, room) == room);
      posted += static_cast<std::uint32_t>(room);
    }
    CHECK(posted == DelayedEndpoint::kDepth);
    CHECK(rig.post(0, posted) == 0);
    CHECK(rig.delayed->room(1) > 0);  // the other's line
    rig.pass(kDelay);
    CHECK(rig.taken(0).size() == posted);
    CHECK(rig.delayed->room(0) > 0);
  }
  SECTION("bytes") {
    constexpr std::uint32_t kBytes = 32 * 1024;
    const std::size_t whole = DelayedEndpoint::kMostBytes / kBytes;
    CHECK(rig.post(0, 0, whole + 40, kBytes) == whole);
    CHECK(rig.delayed->room(0) == 0);
    rig.pass(kDelay);
    CHECK(rig.taken(0).size() == whole);
    CHECK(rig.delayed->room(0) > 0);
  }
  SECTION("large writes, as many as room promised") {
    const std::size_t room = rig.delayed->room(0);
    CHECK(rig.post(0, 0, room + 1, 4U << 20) == room);
  }
}

TEST_CASE("what is due stays in its line while the endpoint behind takes no more") {
  DelayedRig rig;
  REQUIRE(rig.post(0, 0, 40) == 40);
  rig.pass(kDelay);
  rig.behind.takes = 20;
  CHECK(rig.taken(0).size() == 20);
  CHECK(rig.delayed->arm());  // the one behind will wake
  rig.delayed->disarm();
  rig.behind.takes = 1000;
  CHECK_FALSE(rig.delayed->arm());
  rig.delayed->disarm();
  REQUIRE(rig.taken(0).size() == 40);
  for (std::uint32_t i = 0; i < 40; ++i) CHECK(rig.behind.taken[0][i] == i);
}

TEST_CASE("a sleeper is woken when the first write is due, and not again when none waits") {
  DelayedRig rig;
  REQUIRE(rig.delayed->arm());
  CHECK_FALSE(rig.is_woken(std::chrono::milliseconds(0)));
  rig.delayed->disarm();

  REQUIRE(rig.post(0, 1) == 1);
  REQUIRE(rig.delayed->arm());
  CHECK(rig.is_woken(testing::kHangGuard));
  rig.delayed->disarm();
  rig.pass(kDelay);
  CHECK_FALSE(rig.delayed->arm());  // it is due
  rig.delayed->disarm();
  CHECK(rig.taken(0) == Immediates{1});

  REQUIRE(rig.delayed->arm());
  CHECK_FALSE(rig.is_woken(std::chrono::milliseconds(0)));
  rig.delayed->disarm();
}

TEST_CASE("a sleeper is woken by the endpoint behind, or does not sleep") {
  DelayedRig rig;
  rig.behind.arms = false;
  CHECK_FALSE(rig.delayed->arm());
  rig.behind.arms = true;
  REQUIRE(rig.delayed->arm());
  ::eventfd_write(rig.behind.event.get(), 1);
  CHECK(rig.is_woken(testing::kHangGuard));
}

TEST_CASE("a peer that is removed is sent what waits, and the next one has an empty line") {
  DelayedRig rig;
  REQUIRE(rig.post(0, 1, 3) == 3);
  rig.behind.takes = 2;
  rig.delayed->remove(0);
  CHECK(rig.behind.taken[0] == Immediates{1, 2});
  CHECK(rig.behind.removed == std::vector<PeerId>{0});
  CHECK(rig.delayed->is_empty());
  rig.behind.takes = 1000;
  REQUIRE(rig.post(0, 9) == 1);
  CHECK(rig.taken(0) == Immediates{1, 2});
  rig.pass(kDelay);
  CHECK(rig.taken(0) == Immediates{1, 2, 9});
}

}  // namespace phub::bench
