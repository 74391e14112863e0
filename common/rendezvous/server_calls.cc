#include "common/rendezvous/server_calls.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>

#include <charconv>
#include <utility>
#include <vector>

#include "common/rpc/credentials.h"
#include "common/rpc/credentials_folder.h"
#include "common/rpc/run_header.h"
#include "common/rpc/status.h"
#include "proto/control.grpc.pb.h"

namespace phub::client {

using std::chrono::milliseconds;

namespace {

// When to try again, if the server has said so.
std::optional<milliseconds> retry_after(const grpc::ClientContext& context,
                                        const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED &&
      status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    return std::nullopt;
  }
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find(kRetryAfterMs);
  if (found == metadata.end()) return std::nullopt;
  std::int64_t pause_ms = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto parsed = std::from_chars(found->second.data(), end, pause_ms);
  if (parsed.ec != std::errc() || pause_ms <= 0) return std::nullopt;
  return milliseconds(pause_ms);
}

using Message = CallMessages::Message;
using AnyStub = grpc::TemplatedGenericStub<Message, Message>;

// One call under way. Owns itself until it is done.
//
// It is a stream for gRPC whatever the service says: a stream's read tells when a message does not
// parse. The writer that gRPC 1.51 has for client streams aborts the process there, and a unary
// call by callback succeeds with a part of the reply.
class Call final : public grpc::ClientBidiReactor<Message, Message>,
                   public std::enable_shared_from_this<Call> {
 public:
  using Done = std::function<void(const CallOutcome&)>;
  Call(CallMessages messages, Done done) : messages_(std::move(messages)), done_(std::move(done)) {}

  grpc::ClientContext& context() { return context_; }

  void start(const std::shared_ptr<grpc::Channel>& channel) {
    self_ = shared_from_this();
    AnyStub(channel).PrepareBidiStreamingCall(
        &context_, fmt::format("/{}/{}", messages_.service, messages_.method), {}, this);
    StartRead(messages_.reply);
    write_next();
    StartCall();
  }

  // A server that has refused takes no more requests; its status says why.
  void OnWriteDone(bool ok) override {
    if (ok) write_next();
  }
  void OnReadDone(bool ok) override { has_reply_ = ok; }
  void OnDone(const grpc::Status& status) override {
    CallOutcome outcome{
        .status = status, .retry_after = retry_after(context_, status), .peer = context_.peer()};
    if (status.ok() && !has_reply_) {
      outcome.status = {grpc::StatusCode::INTERNAL, "sent a reply to " + messages_.method +
                                                        " that cannot be read; is it a phub-server "
                                                        "of this version?"};
    }
    const Done done = std::move(done_);
    { const auto last = std::move(self_); }  // with the context, which holds the channel
    done(outcome);
  }

 private:
  void write_next() {
    const Message* const message = messages_.request(written_++);
    if (message != nullptr) return StartWrite(message);
    StartWritesDone();
  }

  const CallMessages messages_;
  Done done_;
  grpc::ClientContext context_;
  std::size_t written_ = 0;
  bool has_reply_ = false;
  std::shared_ptr<Call> self_;  // until it is done
};

// Workers of one process must not share a connection, and a server that is just starting must not
// cost a long back-off, nor one whose port is flooded from this address.
grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxControlMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxControlMessageBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // By its name a pause; it is how long a connection may take, TLS on a busy machine included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

Status read_nonce(const std::string& path, std::size_t server, JoinProof& proof) {
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

// From the files. `server` is the server's place in the job's list of servers. Errors:
// kInvalidArgument names the file.
Result<JoinProof> read_join_proof(const ClientSecurity& security, std::size_t server) {
  JoinProof proof{.tenant = security.tenant, .token = {}, .nonce = {}, .run = security.run};
  if (!security.token_file.empty()) {
    PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> lines, secret_lines(security.token_file));
    proof.token = lines.front();
  } else if (!security.nonce_file.empty()) {
    PHUB_RETURN_IF_ERROR(read_nonce(security.nonce_file, server, proof));
  }
  return proof;
}

}  // namespace

std::string JoinProof::metadata() const {
  if (!token.empty()) return "Bearer " + token;
  return nonce.empty() ? "" : fmt::format("Ticket {}:{}", job_id, nonce);
}

ServerCalls::ServerCalls(Address parsed, std::string text, JoinProof proof,
                         const std::shared_ptr<grpc::Channel>& channel)
    : parsed_(std::move(parsed)),
      text_(std::move(text)),
      proof_(std::move(proof)),
      channel_(channel) {}

Result<std::unique_ptr<ServerCalls>> ServerCalls::create(const std::string& address,
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
  PHUB_ASSIGN_OR_RETURN(JoinProof proof, read_join_proof(security, server));
  PHUB_RETURN_IF_ERROR(check_secrecy(
      proof.is_secret(), security.tls.empty() && !security.allow_plaintext, parsed->host));
  if (security.require_encryption && security.tls.empty() && !is_loopback(parsed->host)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("require_encryption: the keys come from what {} replies to a join, "
                              "which is readable on the way without TLS; give security {{ ca }} "
                              "(--credentials), or remove require_encryption",
                              address));
  }
  PHUB_ASSIGN_OR_RETURN(const auto credentials, channel_credentials(security.tls));
  const auto channel =
      grpc::CreateCustomChannel(to_string(*parsed), credentials, channel_arguments());
  return std::unique_ptr<ServerCalls>(
      new ServerCalls(std::move(*parsed), address, std::move(proof), channel));
}

std::function<void()> ServerCalls::begin(CallMessages messages,
                                         std::chrono::system_clock::time_point deadline,
                                         std::function<void(const CallOutcome&)> done) {
  const auto call = std::make_shared<Call>(std::move(messages), std::move(done));
  grpc::ClientContext& context = call->context();
  context.set_deadline(deadline);
  context.set_wait_for_ready(true);  // the server may still be starting
  if (!proof_.run.empty()) context.AddMetadata(kRunHeader, proof_.run);
  const std::string proof = proof_.metadata();
  if (!proof.empty()) context.AddMetadata("authorization", proof);
  call->start(channel_);
  return [call] { call->context().TryCancel(); };
}

void ServerCalls::settle(std::chrono::system_clock::time_point deadline) {
  channel_->WaitForStateChange(GRPC_CHANNEL_CONNECTING, deadline);
}

Status ServerCalls::outcome_of(const grpc::Status& status, milliseconds timeout) const {
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

}  // namespace phub::client
