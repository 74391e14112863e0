// What tokens and nonces let in, and what becomes of them with a restart and with their tenant.
#include <algorithm>

#include "tests/integration/access/tenants_rig.h"

namespace phub::testing {
namespace {

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
