// Strangers at the door of the data plane: those who say nothing, those who bring descriptors, and
// more of them than there are places or descriptors.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <catch2/catch.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "common/transport/descriptors.h"
#include "server/plane/acceptor.h"

namespace phub::server {
namespace {

using namespace std::chrono_literals;
using transport::Challenge;
using transport::Hello;
using transport::Kind;
using transport::Mark;
using transport::Proof;
using transport::Verdict;
using transport::VerdictCode;

constexpr std::chrono::milliseconds kHang = 60s;
constexpr Secret kSecret = {1, 2, 3};

// Knows one secret, and has no room.
struct FullHouse final : Admission {
  std::optional<IssuedSecret> secret_of(const Hello& /*hello*/) override {
    return IssuedSecret{.secret = kSecret};
  }
  void admit(Candidate candidate, Done done) override {
    descriptors = candidate.descriptors.size();
    done(Status(Code::kResourceExhausted, "full"));
  }
  std::atomic<std::size_t> descriptors{0};
};

struct Rig {
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.get_executor()};
  FullHouse house;
  std::unique_ptr<Acceptor> acceptor;
  std::string shm_socket = "phub-door-test-" + std::to_string(::getpid());
  std::thread thread;

  explicit Rig(AcceptorOptions options = {}) {
    options.tcp_address = "127.0.0.1:0";
    options.shm_socket = shm_socket;
    acceptor = std::move(*Acceptor::create(options, context, house));
    thread = std::thread([this] { context.run(); });
  }
  ~Rig() {
    context.stop();
    thread.join();
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  UniqueFd reach(Kind kind) const {
    if (kind == Kind::kShm) return std::move(*transport::connect_abstract(shm_socket, kHang));
    return reach_from("127.0.0.1");
  }
  UniqueFd reach_from(const char* host) const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    transport::set_timeout(socket.get(), kHang);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    REQUIRE(::inet_pton(AF_INET, host, &own.sin_addr) == 1);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0);
    REQUIRE(try_reach(socket));
    return socket;
  }
  bool try_reach(const UniqueFd& socket) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(acceptor->tcp_port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
           0;
  }
  bool has_counted(Drop cause, std::uint64_t count) const {
    const auto end = std::chrono::steady_clock::now() + kHang;
    while (acceptor->drops().value(cause) < count && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    return acceptor->drops().value(cause) == count;
  }
};

// Nobody is late in these tests but where it is what they are about.
AcceptorOptions patient(std::chrono::milliseconds first_word = 10min) {
  AcceptorOptions options;
  options.first_word = first_word;
  options.deadline = 10min;
  options.places = 8;
  return options;
}

template <typename Message>
Status send(const UniqueFd& socket, const Message& message, std::span<const int> descriptors = {}) {
  return transport::send_with_descriptors(socket.get(), std::as_bytes(std::span(&message, 1)),
                                          descriptors);
}

template <typename Message>
std::optional<Message> receive(const UniqueFd& socket) {
  Message message;
  const ssize_t got = ::recv(socket.get(), &message, sizeof(message), MSG_WAITALL);
  return got == sizeof(message) ? std::optional(message) : std::nullopt;
}

Hello hello_of(Kind kind) {
  Hello hello;
  hello.kind = kind;
  hello.nonce = transport::random_nonce();
  return hello;
}

Mark mark_of(const Hello& hello) { return transport::mark_of(kSecret, hello); }

// A handshake up to its verdict.
std::optional<VerdictCode> knock(const UniqueFd& socket, Kind kind,
                                 std::span<const int> descriptors = {}) {
  const Hello hello = hello_of(kind);
  if (!send(socket, hello).ok() || !send(socket, mark_of(hello)).ok()) return std::nullopt;
  const auto challenge = receive<Challenge>(socket);
  if (!challenge) return std::nullopt;
  const Proof proof{
      transport::proof_of(transport::HandshakeRole::kWorker, kSecret, hello, *challenge)};
  if (!send(socket, proof, descriptors).ok()) return std::nullopt;
  const auto verdict = receive<Verdict>(socket);
  return verdict ? std::optional(verdict->code) : std::nullopt;
}

// Descriptors to send along, of which the test learns when nobody has any of them any more.
class Tracked {
 public:
  explicit Tracked(std::size_t count) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    read_end_.reset(ends[0]);
    write_end_.reset(ends[1]);
    fds_.assign(count, write_end_.get());
  }
  std::span<const int> fds() const { return fds_; }
  bool are_all_closed() {
    write_end_.reset();
    pollfd end{.fd = read_end_.get(), .events = 0, .revents = 0};
    return ::poll(&end, 1, static_cast<int>(kHang.count())) == 1 && (end.revents & POLLHUP) != 0;
  }

 private:
  UniqueFd read_end_;
  UniqueFd write_end_;
  std::vector<int> fds_;
};

}  // namespace

TEST_CASE("descriptors that come with a hello are closed at once, and end the handshake") {
  const Rig rig(patient());
  const UniqueFd stranger = rig.reach(Kind::kShm);
  Tracked sent(4);
  Hello hello = hello_of(Kind::kShm);
  // Half of it: the server waits for more, and keeps nothing meanwhile.
  const auto half = std::as_bytes(std::span(&hello, 1)).first(sizeof(hello) / 2);
  REQUIRE(transport::send_with_descriptors(stranger.get(), half, sent.fds()).ok());
  CHECK(sent.are_all_closed());
  CHECK(rig.has_counted(Drop::kBadHello, 1));
}

TEST_CASE("a hello of another protocol, or of another transport than its door's, is refused") {
  const Rig rig(patient());
  Hello magic = hello_of(Kind::kTcp);
  ++magic.magic;
  Hello version = hello_of(Kind::kTcp);
  ++version.version;
  const UniqueFd tcp[] = {rig.reach(Kind::kTcp), rig.reach(Kind::kTcp), rig.reach(Kind::kTcp)};
  const UniqueFd shm = rig.reach(Kind::kShm);
  REQUIRE(send(tcp[0], magic).ok());
  REQUIRE(send(tcp[1], version).ok());
  REQUIRE(send(tcp[2], hello_of(Kind::kShm)).ok());
  REQUIRE(send(shm, hello_of(Kind::kTcp)).ok());
  for (const UniqueFd& socket : tcp) CHECK_FALSE(receive<Challenge>(socket));
  CHECK_FALSE(receive<Challenge>(shm));
  CHECK(rig.has_counted(Drop::kBadHello, 4));
}

TEST_CASE("who has spent its budget at a door is in doubt, and who has some is not") {
  for (const bool is_spent : {false, true}) {
    boost::asio::io_context context{1};
    const std::string name = "phub-door-budget-" + std::to_string(::getpid());
    std::optional<bool> is_in_doubt;
    Door door(context, std::move(*transport::listen_abstract(name)),
              [&](const Door::Guest& guest) { is_in_doubt = guest.is_in_doubt; });
    if (is_spent) door.charge("user " + std::to_string(::geteuid()), 2500);
    door.open();
    const UniqueFd stranger = std::move(*transport::connect_abstract(name, kHang));
    REQUIRE(context.run_one() == 1);  // it has looked
    CHECK(is_in_doubt == is_spent);
  }
}

TEST_CASE("a proof brings two descriptors, and no third") {
  const Rig rig(patient());
  const Tracked two(2);
  CHECK(knock(rig.reach(Kind::kShm), Kind::kShm, two.fds()) == VerdictCode::kFull);
  CHECK(rig.house.descriptors == 2);
  Tracked three(3);
  CHECK_FALSE(knock(rig.reach(Kind::kShm), Kind::kShm, three.fds()));
  CHECK(three.are_all_closed());
  CHECK(rig.has_counted(Drop::kBadHello, 1));
}

TEST_CASE("who says nothing keeps no worker out, the oldest gives way") {
  const Rig rig(patient());
  std::vector<UniqueFd> silent;
  for (const Kind kind : {Kind::kTcp, Kind::kShm}) {
    for (int i = 0; i < 300; ++i) silent.push_back(rig.reach(kind));
  }
  for (const Kind kind : {Kind::kTcp, Kind::kShm}) {
    CHECK(knock(rig.reach(kind), kind) == VerdictCode::kFull);
  }
  // Six of eight places are one address's share; the two that knocked took one more each.
  CHECK(rig.has_counted(Drop::kTurnedOut, std::uint64_t{2} * (300 + 1 - 6)));
}

namespace {

// So many wrong hellos, each over when it returns.
void fail_from(const Rig& rig, const char* host, int count) {
  Hello wrong = hello_of(Kind::kTcp);
  wrong.version = 0;
  for (int i = 0; i < count; ++i) {
    const UniqueFd stranger = rig.reach_from(host);
    (void)send(stranger, wrong);
    char byte = 0;
    CHECK(::recv(stranger.get(), &byte, 1, 0) <= 0);
  }
}

}  // namespace

TEST_CASE("an address that fails is not challenged, and another one's handshake is heard at once") {
  const Rig rig(patient());
  constexpr int kFailures = 20'000;  // many more than its budget gets back meanwhile
  fail_from(rig, "127.0.0.7", kFailures);
  const std::uint64_t unheard = rig.acceptor->drops().value(Drop::kTurnedOut);
  CHECK(unheard > 0);
  CHECK(unheard + rig.acceptor->drops().value(Drop::kBadHello) == kFailures);
  CHECK(knock(rig.reach_from("127.0.0.8"), Kind::kTcp) == VerdictCode::kFull);
  CHECK(rig.acceptor->drops().value(Drop::kTurnedOut) == unheard);
}

namespace {

// Somebody in doubt, after its first words.
struct Doubtful {
  boost::asio::io_context context{1};
  FullHouse house;
  DropCounters drops;
  const HandshakeContext handshakes{.io = context,
                                    .admission = house,
                                    .drops = drops,
                                    .congestion_control = {},
                                    .first_word = 10min,
                                    .deadline = 10min};
  Entrance entrance{
      context, std::move(*transport::listen_abstract("phub-doubt-" + std::to_string(::getpid()))),
      8, false, [](const Door::Guest&) {}};

  bool is_challenged(const Hello& hello, const Mark& mark) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    const UniqueFd peer(ends[0]);
    start_handshake(handshakes, entrance,
                    {.socket = UniqueFd(ends[1]), .address = "a", .is_in_doubt = true});
    REQUIRE((send(peer, hello).ok() && send(peer, mark).ok()));
    context.restart();
    while (context.poll() > 0) {
    }
    return receive<Challenge>(peer).has_value();
  }
};

}  // namespace

TEST_CASE("of those in doubt only who shows a member's mark is challenged") {
  Doubtful doubtful;
  const Hello hello = hello_of(Kind::kTcp);
  CHECK(doubtful.is_challenged(hello, mark_of(hello)));
  Mark wrong = mark_of(hello);
  wrong.digest[31] ^= 1U;
  CHECK_FALSE(doubtful.is_challenged(hello, wrong));
  Hello other = hello;
  other.worker ^= 1U;
  CHECK_FALSE(doubtful.is_challenged(other, mark_of(hello)));
  CHECK(doubtful.drops.value(Drop::kTurnedOut) == 2);
}

TEST_CASE("a member's first try comes in from an address that fails, and gives back its budget") {
  const Rig rig(patient());
  fail_from(rig, "127.0.0.7", 20'000);
  for (int i = 0; i < 100; ++i) {
    CHECK(knock(rig.reach_from("127.0.0.7"), Kind::kTcp) == VerdictCode::kFull);
  }
}

TEST_CASE("strangers at the data port leave shm's places alone") {
  const Rig rig(patient());
  const UniqueFd first = rig.reach(Kind::kShm);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(rig.reach(Kind::kTcp));
  CHECK(knock(first, Kind::kShm) == VerdictCode::kFull);
}

TEST_CASE("who has not said a word in time is let go, who has may take longer") {
  const Rig rig(patient(50ms));
  const UniqueFd silent = rig.reach(Kind::kTcp);
  const UniqueFd slow = rig.reach(Kind::kTcp);
  const Hello hello = hello_of(Kind::kTcp);
  REQUIRE(::send(slow.get(), &hello, 1, MSG_NOSIGNAL) == 1);
  char byte = 0;
  CHECK(::recv(silent.get(), &byte, 1, 0) == 0);
  if (rig.acceptor->drops().value(Drop::kHandshakeTimeout) == 1) {  // it spoke in time
    const auto rest = std::as_bytes(std::span(&hello, 1)).subspan(1);
    REQUIRE(transport::send_with_descriptors(slow.get(), rest, {}).ok());
    REQUIRE(send(slow, mark_of(hello)).ok());
    CHECK(receive<Challenge>(slow));
  }
}

TEST_CASE("a door without descriptors opens again when there are some") {
  const Rig rig(patient());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 3; ++i) strangers.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{.rlim_cur = 128, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  // Nothing is checked before there are descriptors again: sanitizers need some.
  std::vector<UniqueFd> taken;
  std::size_t reached = 0;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.emplace_back(fd);
  for (const UniqueFd& stranger : strangers) {
    transport::set_timeout(stranger.get(), kHang);
    if (rig.try_reach(stranger)) ++reached;  // the system's queue has it
  }
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (rig.acceptor->shortages() == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  const std::uint64_t shortages = rig.acceptor->shortages();
  taken.clear();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(reached == strangers.size());
  CHECK(shortages > 0);
  for (const UniqueFd& stranger : strangers) {
    CHECK(knock(stranger, Kind::kTcp) == VerdictCode::kFull);
  }
}

}  // namespace phub::server
