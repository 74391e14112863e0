// A worker asks for a snapshot of its job: who is refused, what is left when it goes away, and that
// an administrator's snapshots stay.
#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "common/plan/plan.h"
#include "server/phubctl/commands/commands.h"
#include "tests/support/lab.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using control::Admin;
using control::Snapshots;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};   // bounds a test that hangs
constexpr std::uint64_t kNever = 1000;  // a round that nobody gets to
constexpr std::uint64_t kMebibyte = 1U << 20;

// A server with a state folder and no tokens.
struct MemberPlace {
  explicit MemberPlace(std::uint32_t snapshots_kept = 3) {
    spdlog::set_level(spdlog::level::off);
    server::DaemonOptions options;
    options.data_plane.cores = 1;
    options.heartbeat_deadline = milliseconds(60'000);  // the members here do not beat
    options.tenancy.state_folder = folder.path / "state";
    options.snapshots_kept = snapshots_kept;
    server = std::move(*TestServer::start(options));
    const auto channel = grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials());
    admin = Admin::NewStub(channel);
    snapshots = Snapshots::NewStub(channel);
    rendezvous = control::Rendezvous::NewStub(channel);
  }
  grpc::Status take(std::uint32_t timeout_ms, const std::string& tenant = "") {
    control::TakeRequest request;
    request.set_name("demo");
    request.set_tenant(tenant);
    request.set_timeout_ms(timeout_ms);
    control::TakeReply reply;
    return ask(*snapshots, "", &Snapshots::Stub::Take, request, reply);
  }
  bool has_audited(const std::string& action, const std::string& object, const std::string& outcome,
                   const std::string& principal = "") {
    control::ListAuditReply audit;
    REQUIRE(ask(*admin, "", &Admin::Stub::ListAudit, control::ListAuditRequest(), audit).ok());
    return std::any_of(audit.entries().begin(), audit.entries().end(), [&](const auto& entry) {
      return entry.action() == action && entry.object() == object &&
             entry.outcome().find(outcome) != std::string::npos &&
             (principal.empty() || entry.principal() == principal);
    });
  }
  TemporaryDirectory folder;
  std::unique_ptr<TestServer> server;
  std::unique_ptr<Admin::Stub> admin;
  std::unique_ptr<Snapshots::Stub> snapshots;
  std::unique_ptr<control::Rendezvous::Stub> rendezvous;
};

// The only worker of the job "demo", which the server holds; it never trains.
struct Member {
  explicit Member(MemberPlace& at, std::uint64_t elements = 1000, const std::string& tenant = "")
      : place(at) {
    control::JoinRequest join;
    join.set_host("here");
    join.set_worker_index(-1);
    join.set_tenant(tenant);
    control::JobSpec& spec = *join.mutable_spec();
    spec.set_name("demo");
    spec.set_workers(1);
    spec.set_rule(control::RULE_MOMENTUM);
    spec.add_keys()->set_name("w");
    spec.mutable_keys(0)->set_elements(elements);
    grpc::ClientContext context;
    const auto parts = place.rendezvous->Join(&context, &joined);
    parts->Write(join);
    const grpc::Status status = parts->Finish();
    INFO(status.error_message());
    REQUIRE(status.ok());
    make_ready(elements);
  }
  void make_ready(std::uint64_t elements) {
    control::ReadyRequest request = identified<control::ReadyRequest>();
    request.add_cores_per_server(joined.cores());
    const PlanInput input{.key_elements = {elements}, .cores_per_server = {joined.cores()}};
    request.set_plan_hash(make_plan(input).value().hash);
    control::ReadyReply reply;
    const grpc::Status status =
        ask(*place.rendezvous, "", &control::Rendezvous::Stub::Ready, request, reply);
    INFO(status.error_message());
    REQUIRE(status.ok());
  }
  template <typename Request>
  Request identified() const {
    Request request;
    request.set_job_id(joined.job_id());
    request.set_epoch(joined.epoch());
    request.set_worker_index(joined.worker_index());
    request.set_secret(joined.secret());
    return request;
  }
  grpc::Status snapshot(const control::SnapshotRequest& request) const {
    control::TakeReply reply;
    return ask(*place.rendezvous, "", &control::Rendezvous::Stub::Snapshot, request, reply);
  }
  MemberPlace& place;
  control::JoinReply joined;
};

template <typename Condition>
bool eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("a snapshot is refused to who is no member, and the refusal is audited") {
  MemberPlace place;
  const Member member(place);
  for (const auto& [secret, job_id] : {std::pair(std::string(32, 'x'), member.joined.job_id()),
                                       std::pair(std::string("short"), member.joined.job_id()),
                                       std::pair(member.joined.secret(), kNever)}) {
    auto request = member.identified<control::SnapshotRequest>();
    request.set_secret(secret);
    request.set_job_id(job_id);
    const grpc::Status refused = member.snapshot(request);
    CHECK(refused.error_code() ==
          (job_id == kNever ? grpc::StatusCode::NOT_FOUND : grpc::StatusCode::PERMISSION_DENIED));
  }
  CHECK(place.has_audited("authenticate", "worker's secret, for a snapshot", "refused"));
  CHECK_FALSE(place.has_audited("snapshot take", "demo", ""));
}

TEST_CASE("a snapshot of a job that has ended is refused with why it did, and audited") {
  MemberPlace place;
  const Member member(place);
  control::CloseJobRequest close;
  close.set_name("demo");
  control::CloseJobReply closed;
  REQUIRE(ask(*place.admin, "", &Admin::Stub::CloseJob, close, closed).ok());
  const grpc::Status refused = member.snapshot(member.identified<control::SnapshotRequest>());
  CHECK(refused.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK_THAT(refused.error_message(), Contains("the job has ended: it was closed"));
  CHECK(place.has_audited("snapshot take", "demo", "the job has ended"));
}

TEST_CASE("a worker's snapshot that its tenant's quota has no room for is refused and audited") {
  MemberPlace place;
  control::CreateTenantRequest request;
  request.set_name("red");
  request.mutable_quotas()->set_memory_mib(4);
  control::CreateTenantReply reply;
  REQUIRE(ask(*place.admin, "", &Admin::Stub::CreateTenant, request, reply).ok());
  const Member member(place, kMebibyte / 4,
                      "red");  // takes 3 MiB with its tables, a snapshot of it 2
  const grpc::Status refused = member.snapshot(member.identified<control::SnapshotRequest>());
  CHECK(refused.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK_THAT(refused.error_message(),
             Contains("the snapshot needs 2 MiB") && Contains("quota of 4 MiB"));
  CHECK(place.has_audited("snapshot take", "red/demo", "the snapshot needs 2 MiB",
                          "a worker of red"));
}

TEST_CASE("a snapshot is given up when whoever asked for it goes away") {
  for (const bool by_worker : {true, false}) {
    INFO("by worker: " << by_worker);
    MemberPlace place;
    const Member member(place);
    grpc::ClientContext context;
    auto asked = std::async(std::launch::async, [&] {
      control::TakeReply reply;
      if (by_worker) {
        auto request = member.identified<control::SnapshotRequest>();
        request.set_round(kNever);
        request.set_timeout_ms(600'000);
        return place.rendezvous->Snapshot(&context, request, &reply);
      }
      control::TakeRequest request;
      request.set_name("demo");
      request.set_round(kNever);
      request.set_timeout_ms(600'000);
      return place.snapshots->Take(&context, request, &reply);
    });
    // A second one says whether the first is under way.
    const auto second_says = [&](const std::string& text) {
      return place.take(50).error_message().find(text) != std::string::npos;
    };
    const bool began = eventually([&] { return second_says("another snapshot of it"); });
    context.TryCancel();
    CHECK(began);
    CHECK(asked.get().error_code() == grpc::StatusCode::CANCELLED);
    CHECK(eventually([&] { return second_says("did not finish round 1 within 50 ms"); }));
    CHECK(eventually([&] { return place.has_audited("snapshot take", "demo", "has gone away"); }));
  }
}

// Nobody gets to another round, so one that is still to come never ends.
TEST_CASE("phubctl takes a job at rest on two servers at the round that it is in") {
  std::array<MemberPlace, 2> places;
  const std::array<std::string, 2> addresses = {places[0].server->address(),
                                                places[1].server->address()};
  const ClientOptions job{.servers = {addresses[0], addresses[1]},
                          .job = {.name = "demo", .workers = 1, .rule = RuleKind::kMomentum},
                          .timeout = kLong};
  const Status status = run_workers(job, {{"w", 100'000}}, [&](Client& client) -> Status {
    PHUB_RETURN_IF_ERROR(client.initialise());
    for (int round = 0; round < 3; ++round) PHUB_RETURN_IF_ERROR(client.push_pull(0));
    const auto connect = [](const std::string& address) {
      return phubctl::AdminClient::create(address, kLong);
    };
    PHUB_ASSIGN_OR_RETURN(const auto first, connect(addresses[0]));
    const phubctl::Session session{.client = *first, .connect = connect};
    return phubctl::take_snapshot(session, {.job = "demo", .also = {addresses[1]}});
  });
  INFO(status.message());
  REQUIRE(status.ok());
  for (MemberPlace& place : places) {
    control::ListSnapshotsReply reply;
    const control::ListSnapshotsRequest all;
    REQUIRE(ask(*place.snapshots, "", &Snapshots::Stub::List, all, reply).ok());
    REQUIRE(reply.snapshots_size() == 1);
    CHECK(reply.snapshots(0).round() == 4);
  }
}

TEST_CASE("snapshots that a worker asks for do not push out an administrator's") {
  MemberPlace place(/*snapshots_kept=*/1);
  const ClientOptions job{.servers = {place.server->address()},
                          .job = {.name = "demo", .workers = 1, .rule = RuleKind::kMomentum},
                          .timeout = kLong};
  std::vector<std::string> files;
  const Status status = run_workers(job, {{"w", 1000}}, [&](Client& client) -> Status {
    PHUB_RETURN_IF_ERROR(client.initialise());
    const grpc::Status taken = place.take(20'000);
    if (!taken.ok()) return {Code::kInternal, taken.error_message()};
    for (int round = 0; round < 3; ++round) {
      PHUB_RETURN_IF_ERROR(client.push_pull(0));
      PHUB_ASSIGN_OR_RETURN(files, client.snapshot());
    }
    return {};
  });
  INFO(status.message());
  REQUIRE(status.ok());
  control::ListSnapshotsReply reply;
  REQUIRE(ask(*place.snapshots, "", &Snapshots::Stub::List, control::ListSnapshotsRequest(), reply)
              .ok());
  REQUIRE(reply.snapshots_size() == 2);
  CHECK(reply.snapshots(0).file() == "default/demo.000000000001.safetensors");
  CHECK(reply.snapshots(1).file() == "default/demo.000000000004.worker.safetensors");
  REQUIRE(files.size() == 1);
  CHECK_THAT(files[0], Contains(reply.snapshots(1).file()));
}

}  // namespace phub::testing
