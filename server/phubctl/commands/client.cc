#include "server/phubctl/commands/client.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>

#include <ctime>
#include <set>
#include <vector>

#include "common/base/visible.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials.h"
#include "common/rpc/status.h"

namespace phub::phubctl {

Result<std::unique_ptr<AdminClient>> AdminClient::create(const std::string& address,
                                                         std::chrono::milliseconds timeout,
                                                         const CredentialFiles& credentials) {
  const Result<Address> parsed = parse_address(address);
  if (!parsed) return parsed.error().with_context("--server");
  std::string token;
  if (!credentials.token.empty()) {
    PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> lines, secret_lines(credentials.token));
    token = lines.front();
  }
  PHUB_RETURN_IF_ERROR(check_secrecy(!token.empty(), credentials.tls.ca.empty(), parsed->host));
  PHUB_ASSIGN_OR_RETURN(const auto channel_security, channel_credentials(credentials.tls));
  std::unique_ptr<AdminClient> client(
      new AdminClient(to_string(*parsed), timeout, std::move(token)));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxControlMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  client->channel_ = grpc::CreateCustomChannel(client->address_, channel_security, arguments);
  client->stubs_ = {
      control::Admin::NewStub(client->channel_), control::Snapshots::NewStub(client->channel_),
      control::Racks::NewStub(client->channel_), control::Probes::NewStub(client->channel_)};
  return client;
}

Status AdminClient::explain(const grpc::Status& status, const Wait& wait) const {
  if (status.ok()) return {};
  const bool is_connected = channel_->GetState(false) == GRPC_CHANNEL_READY;
  const bool did_not_answer = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                              status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!is_connected && did_not_answer) {
    return {Code::kUnavailable,
            fmt::format("no phub-server answers at {}: is it running? start it with "
                        "`phub-server --control {}`, or give its address with --server; one with "
                        "TLS answers to --credentials of its CA only ({})",
                        address_, address_, status.error_message())};
  }
  // An earlier one is a deadline of the server's, which says what it was waiting for.
  const bool is_own = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
                      std::chrono::system_clock::now() >= wait.deadline;
  if (is_own) {
    return {Code::kDeadlineExceeded,
            fmt::format("the phub-server at {} did not answer within {} ms; give it longer with "
                        "--timeout-ms",
                        address_, wait.timeout.count())};
  }
  return from_grpc(status);
}

Status Session::with_other_tenants(const std::string& job, Status outcome) const {
  if (outcome.code() != Code::kNotFound || !tenant.empty() || job.empty()) return outcome;
  control::ListJobsReply jobs;
  const Status listed =
      client.call(&control::Admin::Stub::ListJobs, control::ListJobsRequest(), jobs);
  if (!listed.ok()) return outcome;
  std::set<std::string> tenants;
  for (const control::JobInfo& other : jobs.jobs()) {
    if (other.spec().name() == job) tenants.insert(other.tenant());
  }
  if (tenants.empty()) return outcome;
  return {outcome.code(), fmt::format("{}; there is one of tenant {}: name it with --tenant",
                                      outcome.message(), fmt::join(tenants, ", "))};
}

std::string time_text(std::int64_t unix_seconds) {
  if (unix_seconds == 0) return "never";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::localtime(static_cast<std::time_t>(unix_seconds)));
}

void print(const std::string& text) {
  fmt::print("{}{}", visible(text), text.ends_with('\n') ? "" : "\n");
}

}  // namespace phub::phubctl
