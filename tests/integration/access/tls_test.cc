// TLS and mutual TLS of the control plane, over real gRPC.
#include <fmt/format.h>

#include <thread>

#include "common/rendezvous/rendezvous.h"
#include "tests/support/lab.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using client::Rendezvous;
using control::Admin;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};  // bounds a test that hangs

JobSpec job_of(std::uint32_t workers) {
  return {.name = "demo", .workers = workers, .keys = {{.name = "w", .elements = 1000}}};
}

grpc::Status list_jobs(const Lab& lab, const std::string& role, const std::string& token = "") {
  control::ListJobsReply reply;
  return ask(*lab.admin_stub(role), token, &Admin::Stub::ListJobs, control::ListJobsRequest(),
             reply);
}

// A token of the tenant default.
std::string worker_token(const Lab& lab) {
  control::CreateTokenRequest request;
  request.set_tenant("default");
  control::CreateTokenReply reply;
  REQUIRE(ask(*lab.admin_stub("admin"), "", &Admin::Stub::CreateToken, request, reply).ok());
  return reply.token();
}

TEST_CASE("the unit of a certificate is the caller's role") {
  const Lab lab;
  CHECK(list_jobs(lab, "admin").ok());
  CHECK(list_jobs(lab, "observer").ok());
  CHECK(list_jobs(lab, "worker").error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(list_jobs(lab, "server").error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(list_jobs(lab, "worker", lab.admin_token()).ok());
  control::DrainReply drained;
  CHECK(ask(*lab.admin_stub("observer"), "", &Admin::Stub::Drain, control::DrainRequest(), drained)
            .error_code() == grpc::StatusCode::PERMISSION_DENIED);
}

TEST_CASE("without tokens a worker's certificate joins, and does nothing else") {
  const Lab lab(true, /*tokens_required=*/false);
  CHECK(list_jobs(lab, "worker").error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(Rendezvous::create(lab.address(), lab.security("worker", ""))
            .value()
            ->join(job_of(1), kLong));
  CHECK(Rendezvous::create(lab.address(), lab.security("observer", ""))
            .value()
            ->join(job_of(1), kLong)
            .error()
            .code() == Code::kPermissionDenied);
}

TEST_CASE("who has no certificate of the CA does not get as far as a call") {
  const Lab lab;
  const Lab other;
  CHECK(list_jobs(lab, "", lab.admin_token()).error_code() == grpc::StatusCode::UNAVAILABLE);
  const auto plain = grpc::CreateChannel(lab.address(), grpc::InsecureChannelCredentials());
  control::ListJobsReply reply;
  CHECK(ask(*Admin::NewStub(plain), lab.admin_token(), &Admin::Stub::ListJobs,
            control::ListJobsRequest(), reply)
            .error_code() == grpc::StatusCode::UNAVAILABLE);
  // A certificate of another CA, in both directions.
  TlsFiles foreign = other.files_of("admin");
  const auto with = [&](const TlsFiles& files) {
    const auto channel = grpc::CreateChannel(lab.address(), channel_credentials(files).value());
    return ask(*Admin::NewStub(channel), "", &Admin::Stub::ListJobs, control::ListJobsRequest(),
               reply)
        .error_code();
  };
  CHECK(with(foreign) == grpc::StatusCode::UNAVAILABLE);  // we do not know the server
  foreign.ca = lab.files_of("admin").ca;
  CHECK(with(foreign) == grpc::StatusCode::UNAVAILABLE);  // the server does not know us
  const auto refused =
      Rendezvous::create(lab.address(), {}).value()->join(job_of(1), milliseconds(300));
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(), Contains("TLS"));
}

TEST_CASE("a server's certificate must be for the name that it is reached by") {
  const Lab lab;
  lab.issue("server2", "server", "server2");
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, "rack9.example");
  const auto channel = grpc::CreateCustomChannel(
      lab.address(), channel_credentials(lab.files_of("admin")).value(), arguments);
  control::ListJobsReply reply;
  CHECK(ask(*Admin::NewStub(channel), "", &Admin::Stub::ListJobs, control::ListJobsRequest(), reply)
            .error_code() == grpc::StatusCode::UNAVAILABLE);
}

TEST_CASE("certificates that change are used by new connections, without a restart") {
  const Lab lab;
  const auto before = lab.admin_stub("observer");
  control::ListJobsReply reply;
  REQUIRE(ask(*before, "", &Admin::Stub::ListJobs, control::ListJobsRequest(), reply).ok());

  // Another CA: the server's files and the clients' are replaced, as an administrator does it.
  const Lab other;
  for (const char* const role : {"server", "admin"}) {
    for (const char* const file : {"key.pem", "cert.pem", "ca.pem"}) {
      std::filesystem::copy_file(other.folder() / role / file, lab.folder() / role / file,
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  bool is_reloaded = false;
  while (!is_reloaded && std::chrono::steady_clock::now() < deadline) {
    is_reloaded = list_jobs(lab, "admin").ok();
  }
  CHECK(is_reloaded);
  // Who still has the old CA's certificate is not let in any more; who is connected stays.
  CHECK(list_jobs(lab, "observer").error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(ask(*before, "", &Admin::Stub::ListJobs, control::ListJobsRequest(), reply).ok());
}

// About a second on a quiet machine with two processors; how long is printed, not judged, as tests
// share machines.
TEST_CASE("as many workers as a job may have join over mutual TLS at once") {
  constexpr std::uint32_t kWorkers = PHUB_JOINING_WORKERS;
  const Lab lab;
  const ClientSecurity security = lab.security("worker", worker_token(lab));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  std::atomic<std::uint32_t> joined{0};
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&] {
      const auto rendezvous = Rendezvous::create(lab.address(), security);
      if (rendezvous && (*rendezvous)->join(job_of(kWorkers), kLong)) ++joined;
    });
  }
  for (std::thread& worker : workers) worker.join();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("{} joins over mutual TLS: {:.2f} s\n", kWorkers, taken.count());
  CHECK(joined == kWorkers);
}

TEST_CASE("a job trains over shm and tcp with mutual TLS and tokens in the control plane") {
  const Lab lab;
  for (const std::string transport : {"shm", "tcp"}) {
    const ClientOptions options{.servers = {lab.address()},
                                .job = {.name = "train-" + transport},
                                .transport = transport,
                                .timeout = kLong,
                                .security = lab.security("worker", worker_token(lab))};
    auto client = Client::connect(options);
    REQUIRE(client);
    REQUIRE((*client)->register_keys({{"w", 1000}}).ok());
    (*client)->gradient<float>(0)[7] = 3.0F;
    REQUIRE((*client)->push_pull(0).ok());
    CHECK((*client)->parameter<float>(0)[7] == 3.0F);
  }
}

}  // namespace
}  // namespace phub::testing
