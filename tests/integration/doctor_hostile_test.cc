// Strangers and broken doctors: none ends or hangs the other end.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>

#include "server/phubctl/doctor/peer/hello.h"
#include "tests/support/doctor_listener.h"
#include "tests/support/hang_guard.h"

namespace phub::phubctl::doctor {
namespace {

using Catch::Contains;

const std::atomic<bool> kRunsOn{false};
// Only bounds a failure, but for those who are meant to be waited for in vain.
const Limits kPatient{.connect = testing::kHangGuard,
                      .greeting = testing::kHangGuard,
                      .silence = testing::kHangGuard,
                      .message = testing::kHangGuard,
                      .stop = &kRunsOn};

SessionOptions session_with(const Limits& limits) {
  return {.paths = {}, .choices = {}, .limits = limits};
}
SessionOptions patient_session() {
  return session_with({.connect = testing::kHangGuard,
                       .greeting = testing::kHangGuard,
                       .silence = testing::kHangGuard,
                       .message = testing::kHangGuard,
                       .stop = nullptr});
}
// For who is waited for in vain.
constexpr milliseconds kShort(50);
SessionOptions session_that_waits_for_no_connection() {
  SessionOptions session = patient_session();
  session.limits.connect = session.limits.greeting = kShort;
  return session;
}

Channel connected(const Address& address) {
  return {std::move(*connect_to(address, kPatient)), "the listener", kPatient};
}

void send_bytes(Channel& channel, const std::string& bytes) {
  const UniqueFd socket = channel.release();
  PHUB_CHECK(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                 static_cast<long>(bytes.size()),
             "a few bytes fit");
  REQUIRE(
      wait_for(socket.get(), POLLIN, Clock::now() + testing::kHangGuard, kPatient, "the listener")
          .ok());
  char byte = 0;
  CHECK(::recv(socket.get(), &byte, 1, 0) <= 0);  // closed, without an answer
}

// Says hello; what the listener answers.
doctor_wire::Welcome welcome_to(Channel& channel, const doctor_wire::Hello& hello) {
  doctor_wire::Welcome welcome;
  PHUB_CHECK(channel.send(hello).ok(), "hello");
  const Status status = channel.receive(welcome);
  PHUB_CHECK(status.ok(), status.message());
  return welcome;
}

doctor_wire::Answer ask(Channel& channel, const doctor_wire::Request& request) {
  doctor_wire::Answer answer;
  PHUB_CHECK(channel.send(request).ok(), "request");
  const Status status = channel.receive(answer);
  PHUB_CHECK(status.ok(), status.message());
  return answer;
}

// A session. The listener may have to notice first that the last one is over, and where greetings
// are short ours may be late.
Channel admitted(const Address& address) {
  const auto deadline = Clock::now() + testing::kHangGuard;
  while (true) {
    Channel channel = connected(address);
    doctor_wire::Welcome welcome;
    PHUB_CHECK(channel.send(make_hello()).ok(), "hello");
    if (channel.receive(welcome).ok() && welcome.refusal().empty()) return channel;
    PHUB_CHECK(Clock::now() < deadline, "the listener is free in time");
  }
}

void check_serves(const Address& address) {
  const Channel channel = admitted(address);
  SUCCEED("admitted");
}

// Something that accepts one connection and does `then` with it.
Meeting meet_with(const std::function<void(UniqueFd)>& then, milliseconds message) {
  const UniqueFd listener = std::move(*listen_at({.host = "127.0.0.1", .port = 0}));
  std::thread stranger([&] {
    PHUB_CHECK(
        wait_for(listener.get(), POLLIN, Clock::now() + testing::kHangGuard, kPatient, "the peer")
            .ok(),
        "the peer comes");
    then(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  });
  Limits limits = kPatient;
  limits.message = message;
  Meeting meeting = meet({.address = own_address(listener.get()),
                          .paths = {},
                          .choices = {},
                          .seconds = 0.02,
                          .limits = limits});
  stranger.join();
  return meeting;
}

}  // namespace

TEST_CASE("bytes that are no greeting are closed without an answer, and the listener serves on") {
  DoctorListener listener(patient_session());
  doctor_wire::Hello other = make_hello();
  other.set_magic(1);
  const std::string wrong_magic = other.SerializeAsString();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\xFF\xFF\xFF\xFFxxxx"),
        std::string("\0\1\0\1too long by one", 19), std::string("\0\0\0\4\xFF\xFF\xFF\xFF", 8),
        std::string("\0\0\0", 3) + static_cast<char>(wrong_magic.size()) + wrong_magic,
        std::string("\0\0\0\0", 4)}) {
    Channel channel = connected(listener.address());
    send_bytes(channel, bytes);
  }
  check_serves(listener.address());
}

TEST_CASE("silent strangers cost a peer nothing, however many") {
  DoctorListener listener(patient_session());
  std::vector<Channel> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connected(listener.address()));
  check_serves(listener.address());
}

TEST_CASE("a stranger that stays silent is closed in time") {
  DoctorListener listener(session_with({.greeting = kShort, .stop = nullptr}));
  Channel silent = connected(listener.address());
  send_bytes(silent, std::string("\0\0", 2));  // half of a length
}

TEST_CASE("another protocol is refused by name on both sides") {
  DoctorListener listener(patient_session());
  doctor_wire::Hello hello = make_hello();
  hello.set_protocol(99);
  hello.set_software("9.9");
  Channel channel = connected(listener.address());
  const auto welcome = welcome_to(channel, hello);
  CHECK_THAT(welcome.refusal(), Contains("version"));
  CHECK(welcome.session().empty());
  check_serves(listener.address());
  const auto& lines = listener.stop();
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("has version 9.9") != std::string::npos;
  }));
}

TEST_CASE("a second peer is told who is measuring") {
  DoctorListener listener(patient_session());
  Channel first = admitted(listener.address());
  doctor_wire::Request request;
  request.mutable_open();
  REQUIRE(ask(first, request).error().empty());  // now it waits for the connection to measure
  Channel second = connected(listener.address());
  CHECK_THAT(welcome_to(second, make_hello()).refusal(), Contains("busy with 127.0.0.1"));
}

TEST_CASE("a peer that says nothing more ends its session only") {
  Limits limits = patient_session().limits;
  limits.message = kShort;
  DoctorListener listener(session_with(limits));
  Channel silent = admitted(listener.address());
  check_serves(listener.address());
}

TEST_CASE("a peer that dies while its connection is waited for ends its session only") {
  DoctorListener listener(session_that_waits_for_no_connection());
  {
    Channel dies = admitted(listener.address());
    doctor_wire::Request request;
    request.mutable_open();
    CHECK(ask(dies, request).error().empty());
  }
  check_serves(listener.address());
}

TEST_CASE("a peer that asks for nonsense ends its session only") {
  DoctorListener listener(patient_session());
  {
    Channel wrong = admitted(listener.address());
    doctor_wire::Request request;
    request.mutable_block()->set_count(1);
    CHECK_THAT(ask(wrong, request).error(), Contains("no connection to measure"));
    request.mutable_block()->set_count(0xFFFFFFFF);
    CHECK_FALSE(ask(wrong, request).error().empty());
    request.clear_what();
    REQUIRE(wrong.send(request).ok());
  }
  check_serves(listener.address());
}

TEST_CASE("a connection to be measured that never comes, or with another token, is given up") {
  DoctorListener listener(session_that_waits_for_no_connection());
  Channel channel = admitted(listener.address());
  doctor_wire::Request request;
  request.mutable_open();
  REQUIRE(ask(channel, request).error().empty());
  Channel stranger = connected(listener.address());
  REQUIRE(stranger.send(make_hello("a wrong token")).ok());
  doctor_wire::Answer answer;
  REQUIRE(channel.receive(answer).ok());
  CHECK_THAT(answer.error(), Contains("did not come"));
  request.mutable_close();
  CHECK_FALSE(ask(channel, request).verified());
}

TEST_CASE("a peer whose measured connection is silent ends its block only") {
  Limits limits = patient_session().limits;
  limits.silence = kShort;
  DoctorListener listener(session_with(limits));
  Channel channel = connected(listener.address());
  const auto welcome = welcome_to(channel, make_hello());
  doctor_wire::Request request;
  request.mutable_open();
  REQUIRE(ask(channel, request).error().empty());
  Channel data = connected(listener.address());
  REQUIRE(data.send(make_hello(welcome.session())).ok());
  doctor_wire::Answer answer;
  REQUIRE(channel.receive(answer).ok());
  CHECK(answer.error().empty());
  request.mutable_block()->set_count(3);
  REQUIRE(ask(channel, request).error().empty());
  REQUIRE(channel.receive(answer).ok());
  CHECK_THAT(answer.error(), Contains("nothing came"));
}

TEST_CASE("a listener that is none, or silent, or closes at once is told apart") {
  const auto answers = [](const std::string& bytes) {
    return [bytes](UniqueFd socket) {
      ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      char byte = 0;
      while (::recv(socket.get(), &byte, 1, 0) > 0) continue;
    };
  };
  CHECK(meet_with(answers("SSH-2.0-OpenSSH_9.2\r\n"), testing::kHangGuard).met.code() ==
        Code::kInvalidArgument);
  CHECK(meet_with(answers(std::string("\0\0\0\0", 4)), testing::kHangGuard).met.code() ==
        Code::kInvalidArgument);
  CHECK(meet_with([](UniqueFd) {}, testing::kHangGuard).met.code() == Code::kUnavailable);
  CHECK(meet_with(answers(""), kShort).met.code() == Code::kDeadlineExceeded);
  doctor_wire::Welcome welcome = make_welcome();
  welcome.set_protocol(2);
  welcome.set_software("9.9\x1b[2J");
  const std::string bytes = welcome.SerializeAsString();
  const Meeting other =
      meet_with(answers(std::string("\0\0\0", 3) + static_cast<char>(bytes.size()) + bytes),
                testing::kHangGuard);
  CHECK(other.met.code() == Code::kFailedPrecondition);
  CHECK(other.there.software == "9.9 [2J");
}

}  // namespace phub::phubctl::doctor
