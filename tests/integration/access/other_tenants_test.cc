// What belongs to another tenant looks as if it did not exist.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/integration/access/tenants_rig.h"

namespace phub::testing {
namespace {

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
  const auto client =
      std::move(*Client::connect({.servers = {f.address()},
                                  .job = {.name = "demo", .workers = 1, .rule = RuleKind::kSgd},
                                  .transport = "shm",
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

}  // namespace
}  // namespace phub::testing
