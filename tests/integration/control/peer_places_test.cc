// Workers that listen for each other are told so when they start, over real gRPC: where, and with
// which key. Nobody else is.
#include "common/rendezvous/peer_places.h"

#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/rendezvous/rendezvous.h"
#include "proto/control.grpc.pb.h"
#include "server/jobs/table.h"
#include "server/rpc/service.h"
#include "tests/support/server/fake_data_plane.h"

namespace phub::testing::peer_places {
namespace {

using Catch::Matchers::Contains;
using client::JoinInfo;
using client::PeerGroup;
using client::Rendezvous;

constexpr std::chrono::milliseconds kGuard{60'000};
constexpr std::uint32_t kCore = 1;

struct Place {
  server::JobTable table{server::JobTableOptions{}};
  FakeDataPlane data_plane{kCore};
  std::unique_ptr<server::ControlService> service;

  explicit Place(bool encrypts = false) {
    spdlog::set_level(spdlog::level::off);
    data_plane.encrypts = encrypts;
    table.attach(data_plane);
    auto created = server::ControlService::create({.address = "127.0.0.1:0"}, table, data_plane);
    REQUIRE(created);
    service = std::move(*created);
  }
};

JobSpec job_of(std::uint32_t workers) {
  return {.name = "demo",
          .workers = workers,
          .rule = RuleKind::kMean,
          .keys = {{.name = "a", .elements = 1000}}};
}

std::uint64_t plan_hash() {
  return make_plan({.key_elements = {1000}, .cores_per_server = {kCore}}).value().hash;
}

struct Member {
  std::unique_ptr<Rendezvous> rendezvous;
  JoinInfo info;

  Member(Place& place, std::uint32_t workers)
      : rendezvous(std::move(*Rendezvous::create(place.service->address()))),
        info(rendezvous->join(job_of(workers), kGuard).value()) {}

  Status ready() { return rendezvous->ready({kCore}, {}, 0, plan_hash(), kGuard); }
  void connect(Place& place) const {
    place.table.members.on_connected(info.job_id, info.worker_index, 0, "tcp");
  }
};

TEST_CASE("Workers that listen are told of each other, and of one key") {
  const bool encrypts = GENERATE(false, true);
  Place place(encrypts);
  Member first(place, 3), second(place, 3), silent(place, 3);
  first.rendezvous->listen_for_peers({.port = 4001});
  second.rendezvous->listen_for_peers({.host = "10.1.0.5", .port = 4002});
  for (Member* member : {&first, &second, &silent}) REQUIRE(member->ready().ok());
  for (Member* member : {&first, &second, &silent}) member->connect(place);
  // They start one after another, when all have said where they listen.
  for (Member* member : {&first, &second, &silent}) {
    REQUIRE(member->rendezvous->start(kGuard, "").ok());
  }
  const PeerGroup& group = first.rendezvous->peers();
  REQUIRE(group.peers.size() == 2);
  CHECK(group.job_id == first.info.job_id);
  CHECK(group.epoch == first.info.epoch);
  CHECK(group.own == 0);
  CHECK(group.encrypts == encrypts);
  // On the server's host it is reached as the server is.
  CHECK(group.peers[0].host == "127.0.0.1");
  CHECK(group.peers[0].port == 4001);
  CHECK(group.peers[1].host == "10.1.0.5");
  CHECK(group.peers[1].port == 4002);
  CHECK(second.rendezvous->peers().own == 1);
  CHECK(second.rendezvous->peers().key == group.key);
  CHECK(group.key != client::Secret{});
  CHECK(group.key != first.info.secret);
  CHECK(silent.rendezvous->peers().peers.empty());
  CHECK(silent.rendezvous->peers().key == client::Secret{});
}

TEST_CASE("Where a worker listens is checked") {
  Place place;
  Member member(place, 1);
  for (const std::string& host : {std::string(256, 'a'), std::string("a\nb")}) {
    member.rendezvous->listen_for_peers({.host = host, .port = 4001});
    const Status status = member.ready();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK_THAT(status.message(), Contains("peer_host"));
  }
  const auto stub = control::Rendezvous::NewStub(
      grpc::CreateChannel(place.service->address(), grpc::InsecureChannelCredentials()));
  control::ReadyRequest request;
  request.set_job_id(member.info.job_id);
  request.set_epoch(member.info.epoch);
  request.set_secret(member.info.secret.data(), member.info.secret.size());
  request.add_cores_per_server(kCore);
  request.set_plan_hash(plan_hash());
  request.set_peer_port(70'000);
  grpc::ClientContext context;
  control::ReadyReply reply;
  const grpc::Status refused = stub->Ready(&context, request, &reply);
  CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(refused.error_message(), Contains("peer_port: 70000") && Contains("65535"));
}

TEST_CASE("A reply that makes no sense is an error that names the server") {
  const auto calls = std::move(*client::ServerCalls::create("127.0.0.1:7", {}, 0));
  JoinInfo joined;
  joined.worker_index = 3;
  control::StartReply good;
  good.set_peer_key(std::string(32, 'k'));
  for (const std::uint32_t worker : {1U, 3U}) {
    control::PeerPlace& place = *good.add_peers();
    place.set_worker_index(worker);
    place.set_port(4000 + worker);
  }
  const auto group = client::read_peers(good, joined, *calls);
  REQUIRE(group);
  CHECK(group->own == 1);
  CHECK(group->peers[0].host == "127.0.0.1");
  using Spoil = void (*)(control::StartReply&);
  const Spoil spoil = GENERATE(
      Spoil([](control::StartReply& reply) { reply.set_peer_key(std::string(31, 'k')); }),
      Spoil([](control::StartReply& reply) { reply.mutable_peers(0)->set_port(0); }),
      Spoil([](control::StartReply& reply) { reply.mutable_peers(0)->set_port(65536); }),
      Spoil([](control::StartReply& reply) { reply.mutable_peers(0)->set_worker_index(3); }),
      Spoil([](control::StartReply& reply) {
        reply.mutable_peers(0)->set_host(std::string(256, 'a'));
      }),
      Spoil([](control::StartReply& reply) { reply.mutable_peers()->RemoveLast(); }));
  control::StartReply spoiled = good;
  spoil(spoiled);
  const auto refused = client::read_peers(spoiled, joined, *calls);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Catch::StartsWith("127.0.0.1:7 "));
}

}  // namespace
}  // namespace phub::testing::peer_places
