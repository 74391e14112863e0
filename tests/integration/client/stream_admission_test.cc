// How several tcp streams of a worker come to a core: all of them or none, each once, whoever has
// left some behind; and what a client thinks of replies that come another way.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <mutex>
#include <thread>

#include "common/connect/data_connection.h"
#include "common/exchange/exchange.h"
#include "common/protocol/wire.h"
#include "common/transport/tcp/frame.h"
#include "server/plane/data_plane.h"
#include "tests/support/hang_guard.h"
#include "tests/support/server/lone_plane.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kJob = 7;
constexpr std::uint32_t kStreams = 3;
constexpr std::uint32_t kElements = 100'000;

// Members have the secret {1} until the test says otherwise.
class Members final : public server::MembershipListener {
 public:
  std::optional<server::IssuedSecret> secret_of(std::uint64_t, std::uint32_t,
                                                std::uint32_t) override {
    return server::IssuedSecret{.secret = {secret.load()}};
  }
  void on_connected(std::uint64_t, std::uint32_t, std::uint32_t, std::string_view) override {
    ++connected;
  }
  void on_lost(std::uint64_t, std::uint32_t, std::string_view reason) override {
    const std::lock_guard lock(mutex);
    reasons.emplace_back(reason);
  }
  std::vector<std::string> lost() {
    const std::lock_guard lock(mutex);
    return reasons;
  }
  std::atomic<std::uint8_t> secret{1};
  std::atomic<int> connected{0};

 private:
  std::mutex mutex;
  std::vector<std::string> reasons;
};

template <typename Condition>
bool until(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Plane {
  Members members;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<server::DataPlane> plane;

  explicit Plane(std::uint32_t streams = kStreams, std::uint32_t workers = 1,
                 bool encrypt = false) {
    server::DataPlaneOptions options;
    options.cores = 1;
    options.verbs = server::OfferVerbs::kNo;
    options.encrypt_tcp = encrypt;
    plane = std::move(*server::DataPlane::create(options, members));
    server::JobLayout layout = layout_of(kJob, {kElements});
    layout.workers = workers;
    layout.tcp_streams = streams;
    plan = layout.plan;
    REQUIRE(plane->create_job(layout).ok());
  }
  Result<transport::TcpStream> open(std::uint32_t stream, std::uint32_t worker = 0) {
    client::JoinInfo joined;
    joined.job_id = kJob;
    joined.epoch = 1;
    joined.seat = worker;
    joined.secret = {members.secret.load()};
    joined.cores = 1;
    joined.host = "127.0.0.1";
    joined.tcp_port = plane->tcp_port();
    joined.encrypts_data = plane->encrypts_tcp();
    return client::open_tcp({.joined = &joined, .timeout = kHangGuard, .stream = stream});
  }
  std::uint32_t connections() const { return plane->core_counters()[0].connections; }
  std::uint64_t refused() const {
    for (const server::DropCounter& drop : plane->drops()) {
      if (drop.cause == "refused connection") return drop.count;
    }
    return 0;
  }
};

bool is_closed(const transport::TcpStream& stream) {
  return until([&] {
    std::byte byte{};
    return ::recv(stream.socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
  });
}

// The only worker of a job, over streams that are open.
struct AdmittedWorker {
  std::vector<std::byte> memory;
  std::vector<std::byte> parameters;
  std::unique_ptr<client::Exchange> exchange;

  explicit AdmittedWorker(const Plane& plane) {
    const std::size_t bytes = plane.plan->arena_elements * sizeof(float);
    const std::size_t hyper = wire::hyper_bytes(1);
    memory.resize(hyper + bytes);
    parameters.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) memory[hyper + i] = static_cast<std::byte>(i % 50);
    exchange = std::make_unique<client::Exchange>(plane.plan, DataType::kFloat32, true,
                                                  std::vector<std::uint32_t>{kStreams});
    exchange->use_memory({.hyper = memory.data(),
                          .gradients = memory.data() + hyper,
                          .parameters = parameters.data()});
  }
  void connect(transport::TcpStream stream, std::uint32_t index) const {
    const client::ServerCore where{.epoch = 1, .stream = index, .streams = kStreams};
    REQUIRE(exchange->connect(**exchange->lanes().tcp(), where, std::move(stream)).ok());
  }
  // False: a connection was lost.
  bool round() const {
    exchange->start(0);
    CHECK(until([this] {
      exchange->run_once();
      return exchange->idle() || exchange->loss();
    }));
    return exchange->idle();
  }
};

TEST_CASE("a core is given a worker's streams when the last one has come, in whatever order") {
  for (const bool encrypt : {false, true}) {
    Plane plane(kStreams, 1, encrypt);
    AdmittedWorker worker(plane);
    for (const std::uint32_t index : {2U, 0U, 1U}) {
      CHECK(plane.connections() == 0);
      CHECK(plane.members.connected == 0);
      auto stream = plane.open(index);
      REQUIRE(stream);
      worker.connect(std::move(*stream), index);
    }
    REQUIRE(until([&] { return plane.members.connected == 1; }));
    CHECK(plane.connections() == kStreams);
    for (int i = 0; i < 3; ++i) CHECK(worker.round());
    CHECK(std::equal(worker.parameters.begin(), worker.parameters.end(),
                     worker.memory.begin() + wire::hyper_bytes(1)));
    CHECK(plane.members.lost().empty());
  }
}

TEST_CASE("a stream that there is not, and one twice, are refused, and the others go on") {
  Plane plane;
  AdmittedWorker worker(plane);
  auto first = plane.open(0);
  REQUIRE(first);
  std::uint64_t refused = 0;
  for (const std::uint32_t wrong : {kStreams, 0U, UINT32_MAX}) {
    const auto stream = plane.open(wrong);
    CHECK(stream.error().code() == Code::kAborted);
    CHECK_THAT(stream.error().message(), Contains("tcp_streams"));
    ++refused;
    CHECK(until([&] { return plane.refused() == refused; }));
  }
  worker.connect(std::move(*first), 0);
  for (const std::uint32_t index : {1U, 2U}) {
    auto stream = plane.open(index);
    REQUIRE(stream);
    worker.connect(std::move(*stream), index);
  }
  CHECK(worker.round());
  for (std::uint32_t index = 0; index < kStreams; ++index) CHECK_FALSE(plane.open(index));
  CHECK(worker.round());
  CHECK(plane.members.connected == 1);
  CHECK(plane.members.lost().empty());
}

TEST_CASE("a job of one stream takes no other") {
  Plane plane(1);
  CHECK_FALSE(plane.open(1));
  CHECK(plane.open(0));
  CHECK_FALSE(plane.open(0));
  CHECK(plane.members.connected == 1);
}

TEST_CASE("what a worker leaves behind keeps nobody from its seat, and goes with the job") {
  Plane plane(kStreams, 2);
  auto left = plane.open(0);
  auto also_left = plane.open(1);
  REQUIRE((left && also_left));
  plane.members.secret = 2;  // the seat is another member's
  AdmittedWorker worker(plane);
  for (std::uint32_t index = 0; index < kStreams; ++index) {
    auto stream = plane.open(index);
    REQUIRE(stream);
    worker.connect(std::move(*stream), index);
    CHECK(is_closed(*left));
    CHECK(is_closed(*also_left));
  }
  CHECK(until([&] { return plane.members.connected == 1; }));
  auto dropped = plane.open(1, 1);
  REQUIRE(dropped);
  plane.plane->drop_worker(kJob, 1);
  CHECK(is_closed(*dropped));
  auto waits = plane.open(1, 1);
  REQUIRE(waits);
  plane.plane->remove_job(kJob);
  CHECK(is_closed(*waits));
  CHECK(plane.connections() == 0);
  CHECK(plane.members.lost().empty());
}

TEST_CASE("a worker that dies before its last stream was there is lost when all are") {
  Plane plane;
  REQUIRE(plane.open(0));  // and closed
  auto second = plane.open(1);
  auto third = plane.open(2);
  REQUIRE((second && third));
  CHECK(until([&] { return !plane.members.lost().empty(); }));
  CHECK(plane.members.lost()[0] == "one of its tcp streams closed");
  CHECK(is_closed(*second));
  CHECK(is_closed(*third));
}

TEST_CASE("streams come and go while jobs end, and nothing is left") {
  for (int times = 0; times < 20; ++times) {
    Plane plane(kStreams, 4);
    std::vector<std::thread> workers;
    for (std::uint32_t worker = 0; worker < 4; ++worker) {
      workers.emplace_back([&plane, worker, times] {
        for (std::uint32_t index = 0; index < kStreams; ++index) {
          const auto stream = plane.open((index + worker) % kStreams, worker);
          if (!stream && times % 2 == 0) return;
        }
      });
    }
    if (times % 2 == 0) plane.plane->remove_job(kJob);
    for (std::thread& thread : workers) thread.join();
    plane.plane->remove_job(kJob);
    CHECK(plane.connections() == 0);
  }
}

TEST_CASE("a client takes a reply on its chunk's stream alone") {
  for (const bool is_right : {true, false}) {
    const Plane plane;  // for its plan
    const AdmittedWorker worker(plane);
    std::vector<UniqueFd> cores;
    for (std::uint32_t index = 0; index < kStreams; ++index) {
      auto [own, core] = transport::stream_pair();
      worker.connect(std::move(own), index);
      cores.push_back(std::move(core));
    }
    worker.exchange->start(0);
    worker.exchange->run_once();
    const std::uint32_t bytes = plane.plan->chunks[1].elements * sizeof(float);
    const std::uint32_t immediate = wire::immediate(1, 1);
    const transport::FrameHeader header{transport::kFrameMagic, immediate, bytes,
                                        transport::frame_check(immediate, bytes)};
    std::vector<std::byte> frame(sizeof(header) + bytes);
    std::memcpy(frame.data(), &header, sizeof(header));
    const int socket = cores[is_right ? 1 : 2].get();
    for (std::size_t sent = 0; sent < frame.size();) {
      const auto more =
          ::send(socket, frame.data() + sent, frame.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (more > 0) sent += static_cast<std::size_t>(more);
      worker.exchange->run_once();
      if (worker.exchange->loss()) break;
    }
    CHECK(until([&] {
      worker.exchange->run_once();
      return worker.exchange->bytes_received() == bytes || worker.exchange->loss();
    }));
    CHECK(worker.exchange->loss().has_value() != is_right);
  }
}

}  // namespace
}  // namespace phub::testing
