// Strangers and broken doctors: none ends or hangs the other end.
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>

#include "common/transport/descriptors.h"
#include "proto/control.grpc.pb.h"
#include "server/doctor/peer/client.h"
#include "server/doctor/peer/socket.h"
#include "tests/support/doctor_listener.h"
#include "tests/support/hang_guard.h"

namespace phub::doctor {
namespace {

using Catch::Contains;
using doctor_wire::Nothing;
using Stub = doctor_wire::Doctor::Stub;

const std::atomic<bool> kRunsOn{false};
// Only bounds a failure, but for those who are meant to be waited for in vain.
const Limits kPatient{.connect = testing::kHangGuard,
                      .greeting = testing::kHangGuard,
                      .silence = testing::kHangGuard,
                      .message = testing::kHangGuard,
                      .stop = &kRunsOn};
// For who is waited for in vain.
constexpr milliseconds kShort(50);

// Patient but for one of its limits.
ListenOptions hostile_listener(milliseconds limit, milliseconds Limits::*which) {
  ListenOptions options{.address = {}, .paths = {}, .choices = {}, .limits = kPatient};
  options.limits.*which = limit;
  return options;
}
ListenOptions patient_listener() { return hostile_listener(testing::kHangGuard, &Limits::message); }

UniqueFd connected(const Address& address) {
  UniqueFd socket = std::move(*connect_to(address, kPatient));
  transport::set_timeout(socket.get(), testing::kHangGuard);
  return socket;
}

// Without an answer of a doctor's; gRPC may have its say.
void check_closed(const UniqueFd& socket) {
  std::array<char, 256> bytes{};
  long got = 0;
  while ((got = ::recv(socket.get(), bytes.data(), bytes.size(), 0)) > 0) continue;
  CHECK((got == 0 || errno == ECONNRESET));
}

void send_bytes(const UniqueFd& socket, const std::string& bytes) {
  ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::shared_ptr<grpc::Channel> plain_channel(const Address& address) {
  return grpc::CreateChannel(to_string(address), grpc::InsecureChannelCredentials());
}

MeetOptions hostile_peer_of(const Address& address) {
  return {.address = address, .paths = {}, .choices = {}, .seconds = 0.02, .limits = kPatient};
}

// In a meeting. The listener may have to notice first that the last one is gone.
std::unique_ptr<DoctorClient> admitted(const Address& address) {
  const auto deadline = Clock::now() + testing::kHangGuard;
  while (true) {
    auto client = DoctorClient::create(hostile_peer_of(address));
    if (client) return std::move(*client);
    PHUB_CHECK(Clock::now() < deadline, "the listener is free in time");
  }
}

// Without RDMA, and without an end of the connection here.
UniqueFd connect_measured(DoctorClient& peer, const Address& address) {
  UniqueFd data = connected(address);
  send_bytes(data, peer.welcome().token());
  PHUB_CHECK(peer.call(&Stub::AsyncOpen, doctor_wire::Link()), "open");
  PHUB_CHECK(peer.call(&Stub::AsyncConnect, Nothing()), "connect");
  return data;
}

std::string refusal_of(DoctorClient& peer, std::uint32_t count, std::uint32_t bytes = 64) {
  doctor_wire::Block block;
  block.set_count(count);
  block.set_bytes(bytes);
  return peer.call(&Stub::AsyncPlay, block).error().message();
}

void check_serves(const Address& address) { CHECK(admitted(address) != nullptr); }

// Something that accepts all connections and does `then` with the second: the first only asks
// whether somebody listens.
Meeting meet_with(const std::function<void(UniqueFd)>& then,
                  milliseconds message = testing::kHangGuard) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(name);
  auto* const any = reinterpret_cast<sockaddr*>(&name);
  PHUB_CHECK(::bind(listener.get(), any, bytes) == 0 && ::listen(listener.get(), 8) == 0, "listen");
  ::getsockname(listener.get(), any, &bytes);
  std::thread stranger([&] {
    UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    then(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  });
  MeetOptions options = hostile_peer_of({.host = "127.0.0.1", .port = ntohs(name.sin_port)});
  options.limits.message = message;
  Meeting meeting = meet(options);
  stranger.join();
  return meeting;
}

std::function<void(UniqueFd)> answers(const std::string& bytes) {
  return [bytes](const UniqueFd& socket) {
    send_bytes(socket, bytes);
    char byte = 0;
    while (::recv(socket.get(), &byte, 1, 0) > 0) continue;
  };
}

}  // namespace

TEST_CASE("bytes that are no call are closed, and the listener serves on") {
  DoctorListener listener(patient_listener());
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\xFF\xFF\xFF\xFFxxxx"),
        std::string("\0\0\0\4\xFF\xFF\xFF\xFF", 8), std::string("\0", 1), std::string(16, '\0'),
        std::string("\x16\x03\x01\x02\x00garbage of a handshake"), std::string(100'000, 'P'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(64, '\xFF')}) {
    const UniqueFd socket = connected(listener.address());
    send_bytes(socket, bytes);
    check_closed(socket);
  }
  check_serves(listener.address());
}

TEST_CASE("strangers cost a peer nothing, however many") {
  DoctorListener listener(patient_listener());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(connected(listener.address()));
    if (i % 2 == 0) send_bytes(strangers.back(), "PRI * HTTP/2.0\r\n");
  }
  check_serves(listener.address());
}

TEST_CASE("a stranger that stays silent is closed in time") {
  DoctorListener listener(hostile_listener(kShort, &Limits::greeting));
  const UniqueFd silent = connected(listener.address());
  check_closed(silent);
  const UniqueFd half = connected(listener.address());
  send_bytes(half, "PRI * HT");
  check_closed(half);
}

TEST_CASE("another protocol is told apart on both sides") {
  DoctorListener listener(patient_listener());
  const auto stub = control::Admin::NewStub(plain_channel(listener.address()));
  grpc::ClientContext context;
  control::ListJobsReply jobs;
  CHECK(stub->ListJobs(&context, control::ListJobsRequest(), &jobs).error_code() ==
        grpc::StatusCode::UNIMPLEMENTED);
  check_serves(listener.address());

  control::Admin::Service other;
  int port = 0;
  const auto server = grpc::ServerBuilder()
                          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
                          .RegisterService(&other)
                          .BuildAndStart();
  const Meeting meeting =
      meet(hostile_peer_of({.host = "127.0.0.1", .port = static_cast<std::uint16_t>(port)}));
  CHECK(meeting.met.code() == Code::kFailedPrecondition);
  CHECK_THAT(meeting.met.message(), Contains("version"));
}

TEST_CASE("a second peer is told who is measuring, and has no part in it") {
  DoctorListener listener(patient_listener());
  const auto first = admitted(listener.address());
  const Meeting second = meet(hostile_peer_of(listener.address()));
  CHECK(second.met.code() == Code::kResourceExhausted);
  CHECK_THAT(second.met.message(), Contains("busy with 127.0.0.1"));
  grpc::ClientContext context;
  Nothing nothing;
  CHECK(Stub(plain_channel(listener.address())).Leave(&context, nothing, &nothing).error_code() ==
        grpc::StatusCode::PERMISSION_DENIED);
  CHECK(first->call(&Stub::AsyncOpen, doctor_wire::Link()));
}

TEST_CASE("a peer that says nothing more ends its meeting only") {
  DoctorListener listener(hostile_listener(kShort, &Limits::message));
  const auto silent = admitted(listener.address());
  check_serves(listener.address());
  CHECK_FALSE(silent->call(&Stub::AsyncLeave, Nothing()));
  const auto& lines = listener.stop();
  REQUIRE(lines.size() >= 2);
  CHECK_THAT(lines[1], Contains("127.0.0.1") && Contains("is silent"));
}

TEST_CASE("a meeting that takes too long is ended, whatever its peer asks") {
  DoctorListener listener(hostile_listener(kShort, &Limits::meeting));
  const auto stays = admitted(listener.address());
  std::jthread asks([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) (void)stays->call(&Stub::AsyncClose, Nothing());
  });
  check_serves(listener.address());
  asks.request_stop();
  asks.join();
  const auto& lines = listener.stop();
  REQUIRE(lines.size() >= 2);
  CHECK_THAT(lines[1], Contains("127.0.0.1") && Contains("all the time of a meeting"));
}

TEST_CASE("a peer that goes while its connection is waited for ends its meeting only") {
  DoctorListener listener(hostile_listener(kShort, &Limits::message));
  const auto goes = admitted(listener.address());
  const auto call = goes->start(&Stub::AsyncConnect, Nothing());
  call->context.TryCancel();
  CHECK_FALSE(goes->finish(*call));
  check_serves(listener.address());
}

TEST_CASE("a peer that asks for nonsense is told so") {
  DoctorListener listener(patient_listener());
  const auto peer = admitted(listener.address());
  CHECK_THAT(refusal_of(*peer, 1), Contains("no connection to measure"));
  const UniqueFd data = connect_measured(*peer, listener.address());
  CHECK_THAT(refusal_of(*peer, 0xFFFFFFFF), Contains("block.count"));
  CHECK_THAT(refusal_of(*peer, 1, 0xFFFFFFFF), Contains("block.bytes"));
  doctor_wire::Block block;
  block.set_count(1);
  block.set_kind(static_cast<doctor_wire::Block::Kind>(99));
  CHECK_THAT(peer->call(&Stub::AsyncPlay, block).error().message(), Contains("block.kind"));
}

TEST_CASE("a connection to be measured that never comes, or with another token, is given up") {
  ListenOptions options = hostile_listener(kShort, &Limits::connect);
  options.limits.greeting = milliseconds(1000);
  DoctorListener listener(options);
  const auto peer = admitted(listener.address());
  REQUIRE(peer->call(&Stub::AsyncOpen, doctor_wire::Link()));
  std::string token = peer->welcome().token();
  token.back() = static_cast<char>(token.back() ^ 1);
  const UniqueFd stranger = connected(listener.address());
  send_bytes(stranger, token);
  check_closed(stranger);
  CHECK_THAT(peer->call(&Stub::AsyncConnect, Nothing()).error().message(),
             Contains("did not come"));
  CHECK_FALSE(peer->call(&Stub::AsyncClose, Nothing())->verified());
}

TEST_CASE("a peer whose measured connection is silent ends its block only") {
  DoctorListener listener(hostile_listener(kShort, &Limits::silence));
  const auto peer = admitted(listener.address());
  const UniqueFd data = connect_measured(*peer, listener.address());
  CHECK_THAT(refusal_of(*peer, 3), Contains("nothing came"));
  CHECK(peer->call(&Stub::AsyncClose, Nothing()));
}

TEST_CASE("a listener that is none, or silent, or closes at once is told apart") {
  for (const auto& other : {answers("SSH-2.0-OpenSSH_9.2\r\n"), answers(std::string(64, '\0')),
                            std::function<void(UniqueFd)>([](const UniqueFd&) {})}) {
    const Meeting meeting = meet_with(other);
    CHECK(meeting.met.code() == Code::kInvalidArgument);
    CHECK_THAT(meeting.met.message(),
               Contains("127.0.0.1") && Contains("does not answer as a doctor"));
  }
  const Meeting silent = meet_with(answers(""), kShort);
  CHECK(silent.met.code() == Code::kDeadlineExceeded);
  CHECK_THAT(silent.met.message(), Contains("127.0.0.1") && Contains("is silent"));
}

}  // namespace phub::doctor
