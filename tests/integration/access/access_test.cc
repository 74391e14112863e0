// Who may do what, over real gRPC: tokens, roles, namespaces, tickets.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "common/rendezvous/rendezvous.h"
#include "proto/probe.grpc.pb.h"
#include "proto/racks.grpc.pb.h"
#include "tests/support/lab.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using client::Rendezvous;
using control::Admin;
using control::Probes;
using control::Racks;
using control::Snapshots;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};  // bounds a test that hangs

JobSpec job_of(const std::string& name, std::uint32_t workers = 1) {
  return {.name = name, .workers = workers, .keys = {{.name = "w", .elements = 1000}}};
}

struct Tenants : Lab {
  Tenants() : Lab(/*with_tls=*/false) {
    red = token_for("red");
    blue = token_for("blue");
    observer = new_token("observer", "");
  }
  std::string new_token(const std::string& role, const std::string& tenant) {
    control::CreateTokenRequest request;
    request.set_role(role);
    request.set_tenant(tenant);
    control::CreateTokenReply reply;
    REQUIRE(ask(*stub, admin_token(), &Admin::Stub::CreateToken, request, reply).ok());
    last_token_id = reply.info().token_id();
    return reply.token();
  }
  std::string token_for(const std::string& tenant) {
    control::CreateTenantRequest request;
    request.set_name(tenant);
    control::CreateTenantReply reply;
    REQUIRE(ask(*stub, admin_token(), &Admin::Stub::CreateTenant, request, reply).ok());
    return new_token("tenant", tenant);
  }
  grpc::Status create(const std::string& token, const std::string& name,
                      const std::string& tenant = "") {
    control::CreateJobRequest request;
    request.mutable_spec()->set_name(name);
    request.mutable_spec()->set_workers(2);
    request.set_tenant(tenant);
    return ask(*stub, token, &Admin::Stub::CreateJob, request, created);
  }
  Result<client::JoinInfo> join(const std::string& token, const std::string& name,
                                const std::string& tenant = "") {
    ClientSecurity shown = security("", token);
    shown.tenant = tenant;
    members.push_back(std::move(*Rendezvous::create(address(), shown)));
    return members.back()->join(job_of(name), kLong);
  }
  std::unique_ptr<Admin::Stub> stub = admin_stub("");
  std::string red, blue, observer;
  std::uint64_t last_token_id = 0;
  control::CreateJobReply created;
  std::vector<std::unique_ptr<Rendezvous>> members;
};

// A call with a harmless request, and who may make it beside administrators.
struct Row {
  std::string service;
  std::string name;
  std::function<grpc::StatusCode(const std::shared_ptr<grpc::Channel>&, const std::string&)> call;
  bool tenant, observer;
};

template <typename Service, typename Stub, typename Request, typename Reply>
Row row_of(const char* name,
           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*), bool tenant,
           bool observer) {
  const auto call = [method](const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& token) {
    Reply reply;
    return ask(*Service::NewStub(channel), token, method, Request(), reply).error_code();
  };
  return {Service::service_full_name(), name, call, tenant, observer};
}

std::vector<Row> all_calls() {
  using A = Admin::Stub;
  using S = Snapshots::Stub;
  return {
      row_of<Admin>("CreateJob", &A::CreateJob, true, false),
      row_of<Admin>("ListJobs", &A::ListJobs, true, true),
      row_of<Admin>("InspectJob", &A::InspectJob, true, true),
      row_of<Admin>("CloseJob", &A::CloseJob, true, false),
      row_of<Admin>("Plan", &A::Plan, true, true),
      row_of<Admin>("Statistics", &A::Statistics, true, true),
      row_of<Admin>("Trace", &A::Trace, true, true),
      row_of<Admin>("CreateTenant", &A::CreateTenant, false, false),
      row_of<Admin>("ListTenants", &A::ListTenants, true, true),
      row_of<Admin>("InspectTenant", &A::InspectTenant, true, true),
      row_of<Admin>("SetTenant", &A::SetTenant, false, false),
      row_of<Admin>("DeleteTenant", &A::DeleteTenant, false, false),
      row_of<Admin>("CreateToken", &A::CreateToken, false, false),
      row_of<Admin>("ListTokens", &A::ListTokens, false, false),
      row_of<Admin>("RevokeToken", &A::RevokeToken, false, false),
      row_of<Admin>("ListAudit", &A::ListAudit, false, false),
      row_of<Admin>("Drain", &A::Drain, false, false),
      row_of<Snapshots>("Take", &S::Take, true, false),
      row_of<Snapshots>("List", &S::List, true, true),
      row_of<Snapshots>("Restore", &S::Restore, true, false),
      row_of<Snapshots>("Delete", &S::Delete, true, false),
      row_of<Racks>("List", &Racks::Stub::List, true, true),
      row_of<Probes>("Listen", &Probes::Stub::Listen, false, false),
      row_of<Probes>("Measure", &Probes::Stub::Measure, false, false),
      row_of<Probes>("Keep", &Probes::Stub::Keep, false, false),
      row_of<Probes>("Last", &Probes::Stub::Last, true, true),
  };
}

// What is said of what another tenant has is what is said of what nobody has, but for the name.
void is_same_as_missing(const grpc::Status& there, const grpc::Status& missing,
                        const std::string& word, const std::string& instead) {
  std::string message = missing.error_message();
  for (std::size_t at = 0; (at = message.find(instead)) != std::string::npos;) {
    message.replace(at, instead.size(), word);
  }
  CHECK(there.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(missing.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(there.error_message() == message);
}

TEST_CASE("every call of people and tools asks who calls, and each role has its own") {
  Tenants f;
  const std::vector<Row> rows = all_calls();
  const auto is_let_in = [](grpc::StatusCode code) {
    return code != grpc::StatusCode::UNAUTHENTICATED && code != grpc::StatusCode::PERMISSION_DENIED;
  };
  const auto channel = f.channel("");
  for (const Row& row : rows) {
    INFO(row.service << "." << row.name);
    for (const std::string& token : {std::string(), std::string("phub-1-wrong")}) {
      CHECK(row.call(channel, token) == grpc::StatusCode::UNAUTHENTICATED);
    }
    CHECK(is_let_in(row.call(channel, f.red)) == row.tenant);
    CHECK(is_let_in(row.call(channel, f.observer)) == row.observer);
    CHECK(is_let_in(row.call(channel, f.admin_token())));
  }
  const auto* const control = control::DrainRequest::descriptor()->file();
  const auto* const racks = control::ListRacksRequest::descriptor()->file();
  const auto* const probes = control::Probe::descriptor()->file();
  for (const auto* const calls :
       {control->FindServiceByName("Admin"), control->FindServiceByName("Snapshots"),
        racks->FindServiceByName("Racks"), probes->FindServiceByName("Probes")}) {
    for (int i = 0; i < calls->method_count(); ++i) {
      INFO(calls->method(i)->full_name());
      CHECK(std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
        return row.service == calls->full_name() && row.name == calls->method(i)->name();
      }));
    }
  }
}

// A call about a job of the tenant red.
template <typename Stub, typename Request, typename Reply>
grpc::Status ask_of_red(const Tenants& f, const std::string& token, const std::string& name,
                        grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                        Request request = {}) {
  request.set_name(name);
  request.set_tenant("red");
  Reply reply;
  return ask(*f.stub, token, method, request, reply);
}

TEST_CASE("another tenant's job looks as if it did not exist") {
  Tenants f;
  REQUIRE(f.create(f.red, "secret").ok());
  const std::uint64_t id = f.created.job_id();
  const auto inspect = [&](const std::string& token, const std::string& tenant,
                           const std::string& name, std::uint64_t job_id) {
    control::InspectJobRequest request;
    request.set_name(name);
    request.set_tenant(tenant);
    request.set_job_id(job_id);
    control::InspectJobReply reply;
    return ask(*f.stub, token, &Admin::Stub::InspectJob, request, reply);
  };
  CHECK(inspect(f.red, "", "secret", 0).ok());
  CHECK(inspect(f.observer, "red", "secret", 0).ok());
  is_same_as_missing(inspect(f.blue, "red", "secret", 0), inspect(f.blue, "red", "nosuch", 0),
                     "secret", "nosuch");
  is_same_as_missing(inspect(f.blue, "", "", id), inspect(f.blue, "", "", 4711), std::to_string(id),
                     "4711");
  const auto close = [&](const std::string& token, const std::string& name) {
    return ask_of_red(f, token, name, &Admin::Stub::CloseJob);
  };
  is_same_as_missing(close(f.blue, "secret"), close(f.blue, "nosuch"), "secret", "nosuch");
  const auto trace = [&](const std::string& token, const std::string& name) {
    control::TraceRequest one_round;
    one_round.set_rounds(1);
    return ask_of_red(f, token, name, &Admin::Stub::Trace, one_round);
  };
  CHECK(trace(f.red, "secret").ok());
  is_same_as_missing(trace(f.blue, "secret"), trace(f.blue, "nosuch"), "secret", "nosuch");
  const auto plan = [&](const std::string& token, const std::string& name) {
    return ask_of_red(f, token, name, &Admin::Stub::Plan);
  };
  is_same_as_missing(plan(f.blue, "secret"), plan(f.blue, "nosuch"), "secret", "nosuch");
  is_same_as_missing(f.create(f.blue, "x", "red"), f.create(f.blue, "x", "nosuch"), "red",
                     "nosuch");

  control::ListJobsReply listed;
  REQUIRE(ask(*f.stub, f.blue, &Admin::Stub::ListJobs, control::ListJobsRequest(), listed).ok());
  CHECK(listed.jobs_size() == 0);
  REQUIRE(
      ask(*f.stub, f.observer, &Admin::Stub::ListJobs, control::ListJobsRequest(), listed).ok());
  CHECK(listed.jobs_size() == 1);
  CHECK(f.create(f.blue, "secret").ok());
  control::ListTenantsReply tenants;
  REQUIRE(
      ask(*f.stub, f.blue, &Admin::Stub::ListTenants, control::ListTenantsRequest(), tenants).ok());
  CHECK(tenants.tenants_size() == 1);
}

TEST_CASE("another tenant's snapshot is not listed and looks as if it did not exist") {
  Tenants f;
  const auto snapshots = Snapshots::NewStub(f.channel(""));
  const auto client = std::move(*Client::connect({.servers = {f.address()},
                                                  .job = "demo",
                                                  .workers = 1,
                                                  .transport = "shm",
                                                  .rule = RuleKind::kSgd,
                                                  .timeout = kLong,
                                                  .security = f.security("", f.red)}));
  REQUIRE(client->register_keys({{"w", 1000}}).ok());
  REQUIRE(client->initialise().ok());
  control::TakeRequest take;
  take.set_name("demo");
  control::TakeReply taken;
  const auto take_as = [&](const std::string& token, const std::string& name) {
    take.set_tenant("red");
    take.set_name(name);
    return ask(*snapshots, token, &Snapshots::Stub::Take, take, taken);
  };
  is_same_as_missing(take_as(f.blue, "demo"), take_as(f.blue, "nosuch"), "demo", "nosuch");
  REQUIRE(take_as(f.red, "demo").ok());
  const std::string file = taken.snapshot().file();

  const auto listed_by = [&](const std::string& token) {
    control::ListSnapshotsReply listed;
    REQUIRE(ask(*snapshots, token, &Snapshots::Stub::List, control::ListSnapshotsRequest(), listed)
                .ok());
    return listed.snapshots_size();
  };
  CHECK(listed_by(f.blue) == 0);
  for (const std::string& token : {f.red, f.observer, f.admin_token()})
    CHECK(listed_by(token) == 1);

  const auto restore_as = [&](const std::string& token, const std::string& name) {
    control::RestoreRequest request;
    request.set_file(name);
    request.set_name("again");
    control::RestoreReply reply;
    return ask(*snapshots, token, &Snapshots::Stub::Restore, request, reply);
  };
  const std::string missing = "red/nosuch.safetensors";
  is_same_as_missing(restore_as(f.blue, file), restore_as(f.blue, missing), file, missing);
  std::filesystem::resize_file(f.folder() / "state" / "snapshots" / file, 5000);
  is_same_as_missing(restore_as(f.blue, file), restore_as(f.blue, missing), file, missing);
  CHECK(restore_as(f.red, file).error_code() == grpc::StatusCode::DATA_LOSS);

  // What the quotas refuse is refused before its data is read, and so is not found damaged.
  control::SetTenantRequest quotas;
  quotas.set_name("red");
  quotas.set_jobs(1);
  control::SetTenantReply changed;
  REQUIRE(ask(*f.stub, f.admin_token(), &Admin::Stub::SetTenant, quotas, changed).ok());
  CHECK(restore_as(f.red, file).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  quotas.set_jobs(0);
  quotas.set_disk_mib(1);
  REQUIRE(ask(*f.stub, f.admin_token(), &Admin::Stub::SetTenant, quotas, changed).ok());
  CHECK(changed.tenant().quotas().disk_mib() == 1);
  CHECK(changed.tenant().disk_bytes() == 5000);

  // Who is made again under a deleted name is another tenant.
  control::DeleteTenantRequest deletion;
  deletion.set_name("red");
  deletion.set_close_jobs(true);
  control::DeleteTenantReply deleted;
  REQUIRE(ask(*f.stub, f.admin_token(), &Admin::Stub::DeleteTenant, deletion, deleted).ok());
  const std::string heir = f.token_for("red");
  CHECK(listed_by(f.admin_token()) == 1);
  CHECK(listed_by(heir) == 0);
  is_same_as_missing(restore_as(heir, file), restore_as(heir, missing), file, missing);
  control::ListJobsReply jobs;
  REQUIRE(ask(*f.stub, heir, &Admin::Stub::ListJobs, control::ListJobsRequest(), jobs).ok());
  CHECK(jobs.jobs_size() == 0);
  CHECK_THAT(restore_as(f.admin_token(), file).error_message(), Contains("was deleted"));
}

TEST_CASE("a snapshot is deleted by its tenant or an administrator, and is not there for others") {
  Tenants f;
  const auto snapshots = Snapshots::NewStub(f.channel(""));
  const std::filesystem::path folder = f.folder() / "state" / "snapshots" / "red~1";
  std::filesystem::create_directories(folder);
  const auto delete_as = [&](const std::string& token, const std::string& file) {
    control::DeleteSnapshotRequest request;
    request.set_file("red~1/" + file);
    control::DeleteSnapshotReply reply;
    const grpc::Status status = ask(*snapshots, token, &Snapshots::Stub::Delete, request, reply);
    if (status.ok()) CHECK(reply.bytes() == 4);
    return status;
  };
  for (const std::string& owner : {f.red, f.admin_token()}) {
    std::ofstream(folder / "demo.1.safetensors") << "data";  // a damaged one counts too
    is_same_as_missing(delete_as(f.blue, "demo.1.safetensors"), delete_as(f.blue, "no.safetensors"),
                       "demo.1.safetensors", "no.safetensors");
    CHECK(delete_as(f.observer, "demo.1.safetensors").error_code() ==
          grpc::StatusCode::PERMISSION_DENIED);
    CHECK(std::filesystem::exists(folder / "demo.1.safetensors"));
    CHECK(delete_as(owner, "demo.1.safetensors").ok());
    CHECK_FALSE(std::filesystem::exists(folder / "demo.1.safetensors"));
    CHECK(delete_as(owner, "demo.1.safetensors").error_code() == grpc::StatusCode::NOT_FOUND);
  }
  control::ListAuditRequest request;
  control::ListAuditReply audit;
  REQUIRE(ask(*f.stub, f.admin_token(), &Admin::Stub::ListAudit, request, audit).ok());
  const auto done =
      std::count_if(audit.entries().begin(), audit.entries().end(), [](const auto& record) {
        return record.action() == "snapshot delete" && record.outcome() == "done" &&
               record.object() == "red~1/demo.1.safetensors";
      });
  CHECK(done == 2);
}

TEST_CASE("a worker joins with its tenant's token, in that tenant's namespace only") {
  Tenants f;
  REQUIRE(f.join(f.red, "demo"));
  REQUIRE(f.join(f.blue, "demo"));
  control::ListJobsReply listed;
  REQUIRE(
      ask(*f.stub, f.observer, &Admin::Stub::ListJobs, control::ListJobsRequest(), listed).ok());
  REQUIRE(listed.jobs_size() == 2);
  CHECK(listed.jobs(0).tenant() == "red");
  CHECK(listed.jobs(1).tenant() == "blue");
  CHECK(f.join(f.red, "other", "blue").error().code() == Code::kPermissionDenied);
  CHECK(f.join(f.observer, "other").error().code() == Code::kPermissionDenied);
  CHECK(f.join("", "other").error().code() == Code::kUnauthenticated);
  CHECK(f.join("phub-2-wrong", "other").error().code() == Code::kUnauthenticated);
  CHECK(f.join(f.admin_token(), "other", "blue"));
  control::RevokeTokenRequest revoke;
  revoke.set_token_id(2);
  control::RevokeTokenReply revoked;
  REQUIRE(ask(*f.stub, f.admin_token(), &Admin::Stub::RevokeToken, revoke, revoked).ok());
  CHECK(f.join(f.red, "later").error().code() == Code::kUnauthenticated);
  CHECK(f.members[0]->heartbeat(kLong)->running);  // what has joined goes on
}

TEST_CASE("a job's nonce lets a worker join that job, and nothing else") {
  Tenants f;
  REQUIRE(f.create(f.red, "demo").ok());
  const std::string line = std::to_string(f.created.job_id()) + ":" + f.created.nonce();
  const auto join_with = [&](const std::string& text, const std::string& name) {
    const ClientSecurity shown{.nonce_file = f.write("nonce", text)};
    return Rendezvous::create(f.address(), shown).value()->join(job_of(name, 2), kLong);
  };
  CHECK(join_with(line, "demo")->job_id == f.created.job_id());
  CHECK(join_with(line, "other").error().code() == Code::kInvalidArgument);
  CHECK(join_with(line + "x", "demo").error().code() == Code::kUnauthenticated);
  CHECK(join_with("999:" + f.created.nonce(), "demo").error().code() == Code::kUnauthenticated);
  CHECK_THAT(
      Rendezvous::create(f.address(), {.nonce_file = f.write("nonce", "what")}).error().message(),
      Contains("JOB_ID:NONCE"));
  control::StatisticsReply statistics;
  REQUIRE(
      ask(*f.stub, f.observer, &Admin::Stub::Statistics, control::StatisticsRequest(), statistics)
          .ok());
  const auto& drops = statistics.server().drops();
  CHECK(std::any_of(drops.begin(), drops.end(), [](const control::Drop& drop) {
    return drop.cause() == "refused credentials" && drop.count() == 2;
  }));
}

TEST_CASE("tenants, tokens and jobs are there after a restart, and changes are audited") {
  Tenants f;
  REQUIRE(f.create(f.red, "kept").ok());
  const std::string nonce = std::to_string(f.created.job_id()) + ":" + f.created.nonce();
  CHECK(f.create(f.observer, "not").error_code() == grpc::StatusCode::PERMISSION_DENIED);
  f.restart();
  const auto stub = f.admin_stub("");
  control::InspectTenantRequest request;
  request.set_name("red");
  control::InspectTenantReply reply;
  REQUIRE(ask(*stub, f.observer, &Admin::Stub::InspectTenant, request, reply).ok());
  CHECK(reply.tenant().tokens() == 1);
  REQUIRE(reply.jobs_size() == 1);
  CHECK(reply.jobs(0).spec().name() == "kept");
  CHECK(reply.jobs(0).epoch() == 2);
  const ClientSecurity shown{.nonce_file = f.write("nonce", nonce)};
  CHECK(Rendezvous::create(f.address(), shown).value()->join(job_of("kept", 2), kLong));

  control::ListAuditReply audit;
  REQUIRE(ask(*stub, f.admin_token(), &Admin::Stub::ListAudit, control::ListAuditRequest(), audit)
              .ok());
  const auto has = [&](const std::string& action, const std::string& object,
                       const std::string& outcome) {
    const auto& entries = audit.entries();
    return std::any_of(entries.begin(), entries.end(), [&](const control::AuditEntry& entry) {
      return entry.action() == action && entry.object() == object &&
             entry.outcome().starts_with(outcome);
    });
  };
  CHECK(has("tenant create", "red", "done"));
  CHECK(has("token create", "red token 2", "done"));
  CHECK(has("job create", "red/kept", "done"));
  CHECK(has("job create", "", "token 4 has the role observer"));
}

TEST_CASE("a tenant that is deleted takes its tokens and, when asked, its jobs with it") {
  Tenants f;
  REQUIRE(f.join(f.red, "demo"));
  control::DeleteTenantRequest request;
  request.set_name("red");
  control::DeleteTenantReply reply;
  const auto refused = ask(*f.stub, f.admin_token(), &Admin::Stub::DeleteTenant, request, reply);
  CHECK(refused.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK_THAT(refused.error_message(), Contains("1 live jobs"));
  request.set_close_jobs(true);
  REQUIRE(ask(*f.stub, f.admin_token(), &Admin::Stub::DeleteTenant, request, reply).ok());
  const auto beat = f.members[0]->heartbeat(kLong).value();
  CHECK_FALSE(beat.running);
  CHECK(beat.reason == "its tenant was deleted");
  CHECK(f.join(f.red, "again").error().code() == Code::kUnauthenticated);
}

}  // namespace
}  // namespace phub::testing
