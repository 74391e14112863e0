#include "common/rendezvous/rendezvous.h"

#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "common/rendezvous/messages.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials.h"
#include "common/rpc/credentials_folder.h"
#include "common/rpc/status.h"
#include "proto/control.grpc.pb.h"

namespace phub::client {
namespace {

using std::chrono::milliseconds;

// The server replies to a start that timed out itself, with names; only then the call's deadline.
constexpr milliseconds kStartReplyMargin{2000};
constexpr std::int64_t kSnapshotTimeoutMsMax = 3'600'000;
constexpr milliseconds kLeaveAgainTimeout{1000};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "unknown";
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

// What a join shows.
struct Proof {
  std::string tenant;
  std::string token;
  std::uint64_t job_id = 0;
  std::string nonce;

  // Empty: nothing.
  std::string metadata() const {
    if (!token.empty()) return "Bearer " + token;
    return nonce.empty() ? "" : fmt::format("Ticket {}:{}", job_id, nonce);
  }
};

// When to try again, if the server has said so.
std::optional<milliseconds> retry_after(const grpc::ClientContext& context,
                                        const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return std::nullopt;
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find(kRetryAfterMs);
  if (found == metadata.end()) return std::nullopt;
  std::int64_t pause_ms = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto parsed = std::from_chars(found->second.data(), end, pause_ms);
  if (parsed.ec != std::errc() || pause_ms <= 0) return std::nullopt;
  return milliseconds(pause_ms);
}

Status read_nonce(const std::string& path, std::size_t server, Proof& proof) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> lines, secret_lines(path));
  if (server >= lines.size()) {
    return {
        Code::kInvalidArgument,
        fmt::format("nonce_file: {} has {} lines; give one for each server", path, lines.size())};
  }
  const std::string& line = lines[server];
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), proof.job_id);
  if (error != std::errc() || *end != ':') {
    return {Code::kInvalidArgument,
            fmt::format("nonce_file: line {} of {} is not JOB_ID:NONCE, as `phubctl job create` "
                        "prints it",
                        server + 1, path)};
  }
  proof.nonce = line.substr(static_cast<std::size_t>(end - line.data()) + 1);
  return {};
}

Result<Proof> proof_from(const ClientSecurity& security, std::size_t server) {
  Proof proof{.tenant = security.tenant, .token = {}, .nonce = {}};
  if (!security.token_file.empty()) {
    PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> lines, secret_lines(security.token_file));
    proof.token = lines.front();
  } else if (!security.nonce_file.empty()) {
    PHUB_RETURN_IF_ERROR(read_nonce(security.nonce_file, server, proof));
  }
  return proof;
}

class GrpcRendezvous final : public Rendezvous {
 public:
  GrpcRendezvous(Address address, std::string text, Proof proof,
                 const std::shared_ptr<grpc::Channel>& channel)
      : address_(std::move(address)),
        text_(std::move(text)),
        proof_(std::move(proof)),
        channel_(channel),
        stub_(control::Rendezvous::NewStub(channel)) {}

  Result<JoinInfo> join(const JobDescription& job, milliseconds timeout) override {
    control::JoinRequest request;
    fill(job, *request.mutable_spec());
    request.set_worker_index(job.worker_index);
    request.set_host(host_name());
    request.set_process_id(static_cast<std::uint32_t>(getpid()));
    request.set_tenant(proof_.tenant);
    control::JoinReply reply;
    PHUB_RETURN_IF_ERROR(call_until(timeout, [&](grpc::ClientContext& context) {
      return send_join(context, request, job.keys, reply);
    }));
    JoinInfo info{
        .job_id = reply.job_id(),
        .epoch = reply.epoch(),
        .worker_index = reply.worker_index(),
        .secret = {},
        .cores = reply.cores(),
        .host = address_.host,
        .tcp_port = static_cast<std::uint16_t>(reply.tcp_port()),
        .shm_socket = reply.shm_socket(),
        .same_host = !reply.boot_id().empty() && reply.boot_id() == boot_id(),
        .rdma = {},
        .encrypts_data = reply.encrypts_data(),
        .core_load_bytes = {reply.core_load_bytes().begin(), reply.core_load_bytes().end()},
        .heartbeat_interval = milliseconds(reply.heartbeat_interval_ms())};
    if (reply.secret().size() != info.secret.size() || info.cores == 0 ||
        reply.tcp_port() > UINT16_MAX || info.worker_index >= job.workers ||
        info.heartbeat_interval.count() == 0 || info.core_load_bytes.size() != info.cores) {
      return Status(Code::kInternal, text_ + " sent a join reply that makes no sense");
    }
    std::copy(reply.secret().begin(), reply.secret().end(), info.secret.begin());
    for (const control::RdmaPort& message : reply.rdma()) {
      const auto port = port_from(message);
      if (!port || reply.rdma_size() != static_cast<int>(info.cores)) {
        return Status(Code::kInternal, text_ + " sent RDMA ports that make no sense");
      }
      info.rdma.push_back(*port);
    }
    joined_ = info;
    return info;
  }

  Status ready(const std::vector<std::uint32_t>& cores_per_server,
               const std::vector<std::uint64_t>& core_load_bytes, std::uint32_t server_index,
               std::uint64_t plan_hash, milliseconds timeout) override {
    control::ReadyRequest request = identified<control::ReadyRequest>();
    request.mutable_cores_per_server()->Add(cores_per_server.begin(), cores_per_server.end());
    request.mutable_core_load_bytes()->Add(core_load_bytes.begin(), core_load_bytes.end());
    request.set_server_index(server_index);
    request.set_plan_hash(plan_hash);
    control::ReadyReply reply;
    return call(&control::Rendezvous::Stub::Ready, request, reply, timeout);
  }

  Status start(milliseconds timeout, const std::string& transport_reason) override {
    control::StartRequest request = identified<control::StartRequest>();
    // More than an hour is refused.
    request.set_timeout_ms(static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(timeout.count(), 1, kSnapshotTimeoutMsMax)));
    request.set_transport_reason(transport_reason);
    control::StartReply reply;
    PHUB_RETURN_IF_ERROR(
        call(&control::Rendezvous::Stub::Start, request, reply, timeout + kStartReplyMargin));
    rounds_before_ = reply.rounds_before();
    return {};
  }

  std::uint64_t rounds_before() const override { return rounds_before_; }

  Result<Beat> heartbeat(milliseconds timeout) override {
    control::HeartbeatReply reply;
    const Status status = call(&control::Rendezvous::Stub::Heartbeat,
                               identified<control::HeartbeatRequest>(), reply, timeout);
    // A server that was restarted knows neither the job nor the secret.
    if (status.code() == Code::kNotFound || status.code() == Code::kPermissionDenied) {
      return Beat{.running = false, .reason = status.message(), .left = {}};
    }
    PHUB_RETURN_IF_ERROR(status);
    return Beat{.running = reply.running(),
                .reason = reply.reason(),
                .left = {reply.workers_left().begin(), reply.workers_left().end()}};
  }

  Result<std::string> snapshot(std::uint64_t round, milliseconds timeout) override {
    control::SnapshotRequest request = identified<control::SnapshotRequest>();
    request.set_round(round);
    request.set_timeout_ms(static_cast<std::uint32_t>(std::max<std::int64_t>(1, timeout.count())));
    control::TakeReply reply;
    PHUB_RETURN_IF_ERROR(
        call(&control::Rendezvous::Stub::Snapshot, request, reply, timeout + kStartReplyMargin));
    return reply.snapshot().file();
  }

  Status leave(milliseconds timeout) override {
    control::LeaveReply reply;
    return call(&control::Rendezvous::Stub::Leave, identified<control::LeaveRequest>(), reply,
                timeout);
  }

  const std::string& address() const override { return text_; }

 private:
  template <typename Request>
  Request identified() const {
    Request request;
    request.set_job_id(joined_.job_id);
    request.set_epoch(joined_.epoch);
    request.set_worker_index(joined_.worker_index);
    request.set_secret(joined_.secret.data(), joined_.secret.size());
    return request;
  }

  // In parts that a server takes. One that has refused takes no more, and its reply says why.
  grpc::Status send_join(grpc::ClientContext& context, const control::JoinRequest& head,
                         const std::vector<KeySpec>& keys, control::JoinReply& reply) {
    const auto parts = stub_->Join(&context, &reply);
    control::JoinRequest part = head;
    std::size_t sent = 0;
    bool is_taken = true;
    do {
      sent = add_keys(keys, sent, *part.mutable_spec());
      part.set_more(sent < keys.size());
      is_taken = parts->Write(part);
      part.Clear();
    } while (is_taken && sent < keys.size());
    parts->WritesDone();
    return parts->Finish();
  }

  template <typename Method, typename Request, typename Reply>
  Status call(Method method, const Request& request, Reply& reply, milliseconds timeout) {
    return call_until(timeout, [&](grpc::ClientContext& context) {
      return (stub_.get()->*method)(&context, request, &reply);
    });
  }

  // Tries again while the server says that this may help.
  template <typename Attempt>
  Status call_until(milliseconds timeout, const Attempt& attempt) {
    const auto deadline = std::chrono::system_clock::now() + timeout;
    while (true) {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      context.set_wait_for_ready(true);  // the server may still be starting
      const std::string proof = proof_.metadata();
      if (!proof.empty()) context.AddMetadata("authorization", proof);
      const grpc::Status status = attempt(context);
      const auto pause = retry_after(context, status);
      if (!pause || std::chrono::system_clock::now() + *pause >= deadline) {
        return outcome_of(status, timeout);
      }
      std::this_thread::sleep_for(*pause);
    }
  }

  Status outcome_of(const grpc::Status& status, milliseconds timeout) const {
    if (status.ok()) return {};
    const bool no_reply = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
                          channel_->GetState(false) != GRPC_CHANNEL_READY;
    if (no_reply) {
      return {Code::kUnavailable,
              fmt::format("no phub-server answers at {} within {} ms; is it running, is this its "
                          "control address, and do both ends use TLS with certificates of one CA, "
                          "or neither (security, --credentials)?",
                          text_, timeout.count())};
    }
    return from_grpc(status).with_context("phub-server at " + text_);
  }

  const Address address_;
  const std::string text_;
  const Proof proof_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<control::Rendezvous::Stub> stub_;
  JoinInfo joined_;
  std::uint64_t rounds_before_ = 0;
};

// What is left of `timeout` since `start`; at least a millisecond, so that the call still says
// what went wrong.
milliseconds remaining(std::chrono::steady_clock::time_point start, milliseconds timeout) {
  const auto elapsed =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
  return std::max(milliseconds(1), timeout - elapsed);
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> Rendezvous::create(const std::string& address,
                                                       const ClientSecurity& security,
                                                       std::size_t server) {
  Result<Address> parsed = parse_address(address);
  if (!parsed) return parsed.error().with_context("server address");
  if (parsed->port == 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("server address: {} has port 0; give the port that phub-server "
                              "printed when it started",
                              address));
  }
  PHUB_ASSIGN_OR_RETURN(Proof proof, proof_from(security, server));
  PHUB_RETURN_IF_ERROR(check_secrecy(!proof.token.empty() || !proof.nonce.empty(),
                                     security.tls.empty() && !security.allow_plaintext,
                                     parsed->host));
  if (security.require_encryption && security.tls.empty() && !is_loopback(parsed->host)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("require_encryption: the keys come from what {} replies to a join, "
                              "which is readable on the way without TLS; give security {{ ca }} "
                              "(--credentials), or remove require_encryption",
                              address));
  }
  PHUB_ASSIGN_OR_RETURN(const auto credentials, channel_credentials(security.tls));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxControlMessageBytes);
  // Workers of one process must not share a connection, and a server that is just starting must
  // not cost a long back-off, nor one whose port is flooded from this address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // By its name a pause; it is how long a connection may take, TLS on a busy machine included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(to_string(*parsed), credentials, arguments);
  return std::unique_ptr<Rendezvous>(
      std::make_unique<GrpcRendezvous>(std::move(*parsed), address, std::move(proof), channel));
}

Result<Membership> join_all(const std::vector<std::string>& addresses, const JobDescription& job,
                            milliseconds timeout, const ClientSecurity& security) {
  if (addresses.empty()) {
    return Status(Code::kInvalidArgument, "servers: give at least one control address");
  }
  const auto start = std::chrono::steady_clock::now();
  Membership membership;
  JobDescription mine = job;
  const auto join_next = [&](const std::string& address) -> Status {
    PHUB_ASSIGN_OR_RETURN(auto rendezvous,
                          Rendezvous::create(address, security, membership.servers.size()));
    PHUB_ASSIGN_OR_RETURN(JoinInfo info, rendezvous->join(mine, remaining(start, timeout)));
    mine.worker_index = static_cast<std::int32_t>(info.worker_index);
    membership.servers.push_back(std::move(rendezvous));
    membership.joined.push_back(std::move(info));
    return {};
  };
  for (const std::string& address : addresses) {
    const Status joined = join_next(address);
    if (joined.ok()) continue;
    for (const auto& server : membership.servers) {
      // What matters is the first error; a server that cannot be left notices by heartbeat.
      static_cast<void>(server->leave(kLeaveAgainTimeout));
    }
    return joined;
  }
  return membership;
}

Result<std::vector<std::string>> snapshot_all(const Membership& membership, std::uint64_t round,
                                              milliseconds timeout) {
  std::vector<std::future<Result<std::string>>> asked;
  for (const auto& server : membership.servers) {
    asked.push_back(std::async(std::launch::async, [&server, round, timeout] {
      return server->snapshot(round, timeout);
    }));
  }
  std::vector<Result<std::string>> replies;
  for (auto& reply : asked) replies.push_back(reply.get());
  std::vector<std::string> files;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i]) return replies[i].error().with_context("snapshot");
    files.push_back(*replies[i] + " at " + membership.servers[i]->address());
  }
  return files;
}

}  // namespace phub::client
