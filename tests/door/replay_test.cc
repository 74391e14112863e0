// Strangers at the data port: recorded handshakes, other members' secrets, secrets that are too
// old. A real data plane with a real job table, whose clock the test moves.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/base/unique_fd.h"
#include "common/transport/handshake.h"
#include "tests/support/hang_guard.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using transport::Challenge;
using transport::Hello;
using transport::Proof;
using transport::Verdict;
using transport::VerdictCode;

// One connection to the data port.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    REQUIRE(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)) == 0);
  }
  template <typename Message>
  void send(const Message& message) const {
    REQUIRE(::send(socket_.get(), &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message));
  }
  template <typename Message>
  std::optional<Message> receive() const {
    Message message;
    if (::recv(socket_.get(), &message, sizeof(message), MSG_WAITALL) != sizeof(message)) {
      return std::nullopt;
    }
    return message;
  }

 private:
  UniqueFd socket_;
};

struct Fixture {
  std::atomic<std::int64_t> time_ms{1'000'000};
  JobTable table{{.clock = [this] { return TimePoint(milliseconds(time_ms.load())); }}};
  std::unique_ptr<DataPlane> plane;

  Fixture() {
    spdlog::set_level(spdlog::level::off);
    DataPlaneOptions options;
    options.cores = 1;
    options.shm = false;
    options.verbs = OfferVerbs::kNo;
    plane = std::move(*DataPlane::create(options, table));
    table.attach(*plane);
  }
  Identity member(const std::string& name) {
    const JobSpec spec{.name = name, .workers = 2, .keys = {{.name = "w", .elements = 100}}};
    const Identity identity =
        table.join({.spec = std::make_shared<const JobSpec>(spec), .host = "host"}).value();
    const auto load = table.core_load_bytes(identity.job_id);
    REQUIRE(ready_now(table, identity, {.cores_per_server = {1}, .core_load_bytes = load},
                      make_plan(plan_input(spec, {1}, load))->hash)
                .ok());
    return identity;
  }
  std::uint64_t dropped(std::string_view cause) const {
    for (const DropCounter& drop : plane->drops()) {
      if (drop.cause == cause) return drop.count;
    }
    return 0;
  }
  // The server replies first and counts then.
  bool has_counted(std::uint64_t count, std::string_view cause = "wrong secret") const {
    const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
    while (dropped(cause) != count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return dropped(cause) == count;
  }
  // What the server says to somebody who claims to be `who` and proves it with `secret`.
  VerdictCode knock(const Identity& who, const Secret& secret) const {
    const Stranger stranger(plane->tcp_port());
    const Hello hello = hello_of(who);
    stranger.send(hello);
    stranger.send(transport::mark_of(secret, hello));
    const auto challenge = stranger.receive<Challenge>().value();
    stranger.send(
        Proof{transport::proof_of(transport::HandshakeRole::kWorker, secret, hello, challenge)});
    return stranger.receive<Verdict>().value().code;
  }
  static Hello hello_of(const Identity& who) {
    return {.job_id = who.job_id,
            .epoch = who.epoch,
            .worker = who.worker,
            .nonce = transport::random_nonce()};
  }
};

TEST_CASE("a handshake that was recorded is worth nothing when it is sent again") {
  Fixture f;
  const Identity member = f.member("a");
  const Hello hello = Fixture::hello_of(member);
  Proof proof;
  {
    const Stranger first(f.plane->tcp_port());
    first.send(hello);
    first.send(transport::mark_of(member.secret, hello));
    const auto challenge = first.receive<Challenge>().value();
    proof.digest =
        transport::proof_of(transport::HandshakeRole::kWorker, member.secret, hello, challenge);
    // The connection is lost on the way: the proof was never used.
  }
  for (int i = 0; i < 3; ++i) {
    const Stranger again(f.plane->tcp_port());
    again.send(hello);
    again.send(transport::mark_of(member.secret, hello));
    REQUIRE(again.receive<Challenge>());
    again.send(proof);
    CHECK(again.receive<Verdict>()->code == VerdictCode::kRefused);
  }
  CHECK(f.has_counted(3));
  CHECK(f.knock(member, member.secret) == VerdictCode::kWelcome);
}

TEST_CASE("a secret opens its own job, epoch and worker only") {
  Fixture f;
  const Identity own = f.member("a");
  const Identity other = f.member("b");
  Identity epoch = own;
  ++epoch.epoch;
  Identity worker = own;
  worker.worker = 1;
  Identity job = own;
  job.job_id = 77;
  for (const Identity& claimed : {other, epoch, worker, job}) {
    CHECK(f.knock(claimed, own.secret) == VerdictCode::kRefused);
  }
  CHECK(f.knock(own, other.secret) == VerdictCode::kRefused);
  CHECK(f.knock(own, Secret{}) == VerdictCode::kRefused);
  CHECK(f.has_counted(6));
  CHECK(f.knock(own, own.secret) == VerdictCode::kWelcome);
  CHECK(f.knock(other, other.secret) == VerdictCode::kWelcome);
}

TEST_CASE("a secret that is too old opens nothing, and is counted on its own") {
  Fixture f;
  const Identity member = f.member("a");
  f.time_ms += 60'001;
  CHECK(f.knock(member, member.secret) == VerdictCode::kRefused);
  CHECK(f.has_counted(1, "expired secret"));
  CHECK(f.knock(member, Secret{}) == VerdictCode::kRefused);
  CHECK(f.has_counted(1, "wrong secret"));
  CHECK(f.table.heartbeat(member)->is_live);
}

TEST_CASE("a job that has ended lets nobody in") {
  Fixture f;
  const Identity member = f.member("a");
  REQUIRE(f.table.close("a").ok());
  CHECK(f.knock(member, member.secret) == VerdictCode::kRefused);
}

}  // namespace
}  // namespace phub::testing
