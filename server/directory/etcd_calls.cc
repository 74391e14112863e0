#include "server/directory/etcd_calls.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <utility>

#include "common/rpc/credentials.h"
#include "common/rpc/credentials_folder.h"
#include "common/rpc/status.h"

namespace phub::server {
namespace {

// An etcd takes requests of 1.5 MiB, so no key or value is longer; a page of keys of ours is a
// tenth of it.
constexpr int kMessageBytesMax = 4 * 1024 * 1024;
constexpr std::int64_t kKeysOfPage = 512;
constexpr int kReconnectMsMax = 1000;
constexpr std::chrono::milliseconds kLastCall{1000};

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

// The first key that does not begin with `prefix`, which ends with "/".
std::string end_of(std::string prefix) {
  ++prefix.back();
  return prefix;
}

}  // namespace

Result<std::unique_ptr<EtcdCalls>> EtcdCalls::create(const EtcdOptions& options) {
  const auto credentials = channel_credentials(options.tls);
  if (!credentials) return credentials.error().with_context("directory.etcd");
  if (!options.password_file.empty()) {
    const auto password = secret_lines(options.password_file);
    if (!password) {
      return Status(Code::kInvalidArgument,
                    "directory.etcd.password_file: " + password.error().message());
    }
  }
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& endpoint : options.endpoints) {
    channels.push_back(grpc::CreateCustomChannel(endpoint, *credentials, channel_arguments()));
  }
  return std::unique_ptr<EtcdCalls>(new EtcdCalls(options, std::move(channels)));
}

void EtcdCalls::prepare(grpc::ClientContext& context) const {
  // A member that has lost the others fails instead of answering with what it knew.
  context.AddMetadata("hasleader", "true");
  if (!token_.empty()) context.AddMetadata("token", token_);
}

Status EtcdCalls::call(std::string_view what,
                       const std::function<grpc::Status(grpc::ClientContext&)>& attempt) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options_.timeout);
  prepare(context);
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return {Code::kAborted, "the server ends"};
    under_way_ = &context;
  }
  const grpc::Status status = attempt(context);
  {
    const std::lock_guard lock(mutex_);
    under_way_ = nullptr;
  }
  return outcome_of(what, status);
}

Status EtcdCalls::outcome_of(std::string_view what, const grpc::Status& status) const {
  if (status.ok()) return {};
  const auto code = status.error_code();
  const bool is_late = code == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!is_late && code != grpc::StatusCode::UNAVAILABLE) {
    return from_grpc(status).with_context(fmt::format("etcd at {}: {}", endpoint(), what));
  }
  return {
      Code::kUnavailable,
      fmt::format("etcd at {}: {}: {}; is it running, is this its clients' address, and do both "
                  "ends use TLS, or neither?",
                  endpoint(), what,
                  is_late ? fmt::format("no answer within {} ms", options_.timeout.count())
                          : status.error_message())};
}

void EtcdCalls::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  if (under_way_ != nullptr) under_way_->TryCancel();
}

Status EtcdCalls::authenticate() {
  token_.clear();
  if (options_.user.empty()) return {};
  PHUB_ASSIGN_OR_RETURN(const auto lines, secret_lines(options_.password_file));
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(lines.front());
  etcdserverpb::AuthenticateResponse response;
  etcdserverpb::Auth::Stub stub(channels_[member_]);
  PHUB_RETURN_IF_ERROR(call("user and password", [&](grpc::ClientContext& context) {
    return stub.Authenticate(&context, request, &response);
  }));
  token_ = response.token();
  return {};
}

Result<EtcdCalls::Lease> EtcdCalls::grant_lease() {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(options_.lease.count());
  etcdserverpb::LeaseGrantResponse response;
  etcdserverpb::Lease::Stub stub(channels_[member_]);
  PHUB_RETURN_IF_ERROR(call("to get a lease", [&](grpc::ClientContext& context) {
    return stub.LeaseGrant(&context, request, &response);
  }));
  if (response.id() == 0 || response.ttl() <= 0) {
    return Status(Code::kUnavailable,
                  fmt::format("etcd at {}: to get a lease: none was granted: {}", endpoint(),
                              response.error()));
  }
  return Lease{.id = response.id(), .lasts = as_asked(response.ttl())};
}

// At most: an etcd may say more, and the less is safe.
std::chrono::seconds EtcdCalls::as_asked(std::int64_t ttl) const {
  return std::min(std::chrono::seconds(ttl), options_.lease);
}

Result<EtcdCalls::Lease> EtcdCalls::keep_alive(std::int64_t lease_id) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease_id);
  etcdserverpb::LeaseKeepAliveResponse response;
  etcdserverpb::Lease::Stub stub(channels_[member_]);
  PHUB_RETURN_IF_ERROR(call("to keep the lease", [&](grpc::ClientContext& context) {
    const auto stream = stub.LeaseKeepAlive(&context);
    const bool is_answered =
        stream->Write(request) && stream->WritesDone() && stream->Read(&response);
    // What else comes is not for us, and the end of a stream that goes on is its deadline.
    if (is_answered) context.TryCancel();
    const grpc::Status status = stream->Finish();
    if (is_answered) return grpc::Status::OK;
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer") : status;
  }));
  return Lease{.id = lease_id, .lasts = as_asked(response.ttl())};
}

Status EtcdCalls::revoke(std::int64_t lease_id) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease_id);
  etcdserverpb::LeaseRevokeResponse response;
  etcdserverpb::Lease::Stub stub(channels_[member_]);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::min(options_.timeout, kLastCall));
  prepare(context);
  return outcome_of("to end the lease", stub.LeaseRevoke(&context, request, &response));
}

Status EtcdCalls::put(const std::string& key, std::int64_t lease_id) {
  etcdserverpb::PutRequest request;
  request.set_key(key);
  request.set_lease(lease_id);
  etcdserverpb::PutResponse response;
  etcdserverpb::KV::Stub stub(channels_[member_]);
  return call("to write " + key,
              [&](grpc::ClientContext& context) { return stub.Put(&context, request, &response); });
}

Result<EtcdCalls::Listed> EtcdCalls::list(
    std::size_t keys_max, const std::function<void(const etcdserverpb::KeyValue&)>& take) {
  const std::string prefix = options_.prefix + "/";
  etcdserverpb::RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(end_of(prefix));
  request.set_limit(kKeysOfPage);
  request.set_keys_only(true);
  etcdserverpb::KV::Stub stub(channels_[member_]);
  Listed listed;
  for (std::size_t read = 0; read < keys_max;) {
    etcdserverpb::RangeResponse response;
    const Status page = call("to list " + prefix, [&](grpc::ClientContext& context) {
      return stub.Range(&context, request, &response);
    });
    if (page.code() == Code::kResourceExhausted) {
      return page.with_context(
          "keys are too long for a server's; remove them, and let nobody else "
          "write under the prefix");
    }
    PHUB_RETURN_IF_ERROR(page);
    for (const auto& entry : response.kvs()) take(entry);
    if (listed.revision == 0) {
      listed = {.keys = static_cast<std::uint64_t>(response.count()),
                .revision = response.header().revision()};
      request.set_revision(listed.revision);
    }
    read += static_cast<std::size_t>(response.kvs_size());
    if (!response.more() || response.kvs().empty()) break;
    request.set_key(response.kvs().rbegin()->key() + '\0');  // the next one that can be
  }
  return listed;
}

etcdserverpb::Watch::Stub EtcdCalls::watch_stub() const {
  return etcdserverpb::Watch::Stub(channels_[member_]);
}

etcdserverpb::WatchRequest EtcdCalls::watch_request(std::int64_t revision) const {
  const std::string prefix = options_.prefix + "/";
  etcdserverpb::WatchRequest request;
  request.mutable_create_request()->set_key(prefix);
  request.mutable_create_request()->set_range_end(end_of(prefix));
  request.mutable_create_request()->set_start_revision(revision);
  request.mutable_create_request()->set_fragment(true);
  return request;
}

}  // namespace phub::server
