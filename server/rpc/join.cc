// Join: the caller is known before a message is read, and keys are read in parts that are small.
#include <fmt/format.h>
#include <grpcpp/alarm.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/job/check.h"
#include "common/job/message.h"
#include "common/rpc/run_header.h"
#include "common/rpc/status.h"
#include "server/rpc/authorizer.h"
#include "server/rpc/messages/messages.h"
#include "server/rpc/rendezvous.h"
#include "server/rpc/take.h"

namespace phub::server {
namespace {

constexpr std::size_t kHostCharsMax = 256;

// Empty: the caller says nothing of its run.
std::string run_of(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kRunHeader);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace

// One call. Owns itself until it is done.
//
// Either the last message, or the first that goes wrong, or the alarm decides what becomes of it.
// The alarm is set from a callback of gRPC's, which keeps the call while it runs, and only knows a
// call that is not done.
class RendezvousService::JoinCall final : public grpc::ServerReadReactor<control::JoinRequest>,
                                          public std::enable_shared_from_this<JoinCall> {
 public:
  JoinCall(RendezvousService& service, grpc::CallbackServerContext& context,
           control::JoinReply& reply)
      : service_(service), context_(context), reply_(reply) {}

  void begin() {
    self_ = shared_from_this();
    const Status posted = service_.threads_.door.post(kNobodyYet, [this] {
      const Status admitted = admit();
      if (!admitted.ok()) return Finish(to_grpc(admitted));
      is_admitted_.store(true, std::memory_order_release);
      StartSendInitialMetadata();  // tells the listener that the caller is no stranger
    });
    if (!posted.ok()) refuse(posted);
  }

  void OnSendInitialMetadataDone(bool /*ok*/) override {
    alarm_.Set(std::chrono::system_clock::now() + service_.join_patience_,
               [call = weak_from_this()](bool has_expired) {
                 const auto late = call.lock();
                 if (late && has_expired) late->end_late();
               });
    StartRead(&part_);
  }

  void OnReadDone(bool ok) override {
    // gRPC's locks order this behind the admission too, but no sanitizer sees them.
    const bool is_admitted = is_admitted_.load(std::memory_order_acquire);
    PHUB_CHECK(is_admitted, "messages are read from admitted callers alone");
    if (!ok) {
      if (decides()) Finish({grpc::StatusCode::CANCELLED, "the join broke off"});
      return;
    }
    const Status taken = take_part();
    if (taken.ok() && part_.more()) {
      ++messages_;
      return StartRead(&part_);
    }
    if (!decides()) return;
    alarm_.Cancel();
    if (!taken.ok()) return part_.rack().empty() ? refuse(taken) : refuse_rack(taken);
    arguments_.is_given_up = [this] { return context_.IsCancelled(); };
    const Status posted = service_.threads_.work.post(arguments_.tenant, [this] {
      Result<Identity> joined = service_.join(context_, arguments_, reply_);
      const Status status = joined ? Status() : joined.error();
      if (!arguments_.rack.empty()) audit(arguments_.spec->name, status);
      if (joined) joined_ = std::move(*joined);
      if (arguments_.after_first && status.code() == Code::kUnavailable) {
        ask_to_try_again(context_);
      }
      Finish(to_grpc(status));
    });
    if (!posted.ok()) refuse(posted);
  }
  // A caller that has gone meanwhile does not know its secret, and tries again perhaps.
  void OnDone() override {
    const auto last = std::move(self_);
    alarm_.Cancel();
    if (joined_ && context_.IsCancelled()) service_.table_.members.withdraw(*joined_);
  }

 private:
  // Whether it is the caller of this that finishes the call.
  bool decides() { return !is_decided_.exchange(true); }

  // The read that waits ends without a message then.
  void end_late() {
    if (!decides()) return;
    Finish(to_grpc(
        {Code::kDeadlineExceeded,
         fmt::format("the join's messages have not all come within {} ms: {} came, and the next is "
                     "missing; does the worker stand still, or is the network very slow?",
                     service_.join_patience_.count(), messages_.load())}));
  }

  void refuse(const Status& status) {
    if (status.code() == Code::kResourceExhausted) ask_to_try_again(context_);
    Finish(to_grpc(status));
  }

  // Another rack's server acts for a tenant here, so what becomes of it is audited, which may
  // block.
  void audit(const std::string& job, const Status& outcome) const {
    const std::string what = fmt::format("{} for {}/{}", arguments_.rack, arguments_.tenant, job);
    static_cast<void>(service_.authorizer_.audited(caller_, "join as rack", what, outcome));
  }
  void refuse_rack(const Status& status) {
    arguments_.rack = part_.rack();
    arguments_.tenant = namespace_of(caller_, part_.tenant());
    const Status posted = service_.threads_.work.post(arguments_.tenant, [this, status] {
      audit(part_.spec().name(), status);
      refuse(status);
    });
    if (!posted.ok()) refuse(posted);
  }

  // By what the metadata say.
  Status admit() {
    arguments_.run = run_of(context_);
    if (!is_run(arguments_.run)) {
      return {Code::kInvalidArgument,
              fmt::format("{}: must be at most {} printable characters of ASCII, without spaces",
                          kRunHeader, kRunBytesMax)};
    }
    arguments_.ticket = ticket_of(context_);
    if (!arguments_.ticket) {
      PHUB_ASSIGN_OR_RETURN(caller_, service_.authorizer_.authorize_join(context_));
      return {};
    }
    Result<std::string> tenant = service_.table_.views.tenant_of(*arguments_.ticket);
    if (!tenant) {
      service_.authorizer_.count_refusal(&context_, "job nonce");
      return tenant.error();
    }
    arguments_.tenant = std::move(*tenant);
    return {};
  }

  Status take_part() {
    if (!has_spec_) PHUB_RETURN_IF_ERROR(take_first_part());
    const auto& keys = part_.spec().keys();
    const std::size_t count = spec_.keys.size() + static_cast<std::size_t>(keys.size());
    if (count > JobLimits().keys_max) {
      return {Code::kInvalidArgument, "keys: more than " + std::to_string(JobLimits().keys_max) +
                                          " are not allowed; fuse small tensors"};
    }
    // A vector may have twice the room that it needs; names are in the message.
    const std::uint64_t bytes =
        2 * sizeof(KeySpec) * static_cast<std::uint64_t>(keys.size()) + part_.ByteSizeLong();
    PHUB_RETURN_IF_ERROR(service_.keys_.take(arguments_.tenant, bytes, share_));
    append(keys, spec_.keys);
    if (part_.more()) return {};
    // The share goes with the spec, which the job may keep.
    struct Counted {
      Counted(JobSpec whole, KeyAllowance::Share taken)
          : spec(std::move(whole)), share(std::move(taken)) {}
      JobSpec spec;
      KeyAllowance::Share share;
    };
    const auto counted = std::make_shared<Counted>(std::move(spec_), std::move(share_));
    arguments_.spec = std::shared_ptr<const JobSpec>(counted, &counted->spec);
    return {};
  }

  // Whether the caller may join as another rack's server, for this tenant.
  Status check_rack() {
    if (arguments_.ticket) {
      return {Code::kPermissionDenied, "rack: a job's nonce lets workers in, and no other rack"};
    }
    PHUB_RETURN_IF_ERROR(require(caller_, Right::kJoinAsRack));
    return service_.check_shared(namespace_of(caller_, part_.tenant()), part_);
  }

  Status take_first_part() {
    has_spec_ = true;
    PHUB_RETURN_IF_ERROR(check_names(part_));
    if (!part_.rack().empty()) {
      PHUB_RETURN_IF_ERROR(check_rack());
    } else if (!arguments_.ticket) {
      PHUB_RETURN_IF_ERROR(require(caller_, Right::kJoin));
    }
    if (!arguments_.ticket) {
      if (caller_.role == Role::kTenant &&
          namespace_of(caller_, part_.tenant()) != caller_.tenant) {
        return {Code::kPermissionDenied,
                "tenant: the token is that of tenant \"" + caller_.tenant + "\"; leave tenant out"};
      }
      arguments_.tenant = namespace_of(caller_, part_.tenant());
    }
    const std::string& host = part_.host();
    const bool is_printable =
        std::all_of(host.begin(), host.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    if (host.empty() || host.size() > kHostCharsMax || !is_printable) {
      return {Code::kInvalidArgument, "host: must be a host name of 1 to 256 characters"};
    }
    PHUB_ASSIGN_OR_RETURN(spec_, spec_without_keys(part_.spec()));
    arguments_.worker_index = part_.worker_index();
    arguments_.host = host;
    arguments_.process_id = part_.process_id();
    arguments_.rack = part_.rack();
    arguments_.attempt = part_.attempt();
    arguments_.after_first = part_.after_first() && part_.rack().empty();
    if (!part_.has_base()) return {};
    PHUB_ASSIGN_OR_RETURN(arguments_.base, identity_from(part_.base()));
    return {};
  }

  RendezvousService& service_;
  grpc::CallbackServerContext& context_;
  control::JoinReply& reply_;
  control::JoinRequest part_;
  Principal caller_;
  JoinArguments arguments_;
  bool has_spec_ = false;
  JobSpec spec_;
  KeyAllowance::Share share_;
  std::optional<Identity> joined_;
  std::atomic<std::size_t> messages_ = 0;  // that came and said that more follow
  std::atomic<bool> is_admitted_ = false;  // what admit() wrote is there
  std::atomic<bool> is_decided_ = false;
  grpc::Alarm alarm_;
  std::shared_ptr<JoinCall> self_;  // until it is done
};

grpc::ServerReadReactor<control::JoinRequest>* RendezvousService::Join(
    grpc::CallbackServerContext* context, control::JoinReply* reply) {
  const auto call = std::make_shared<JoinCall>(*this, *context, *reply);
  call->begin();
  return call.get();
}

Result<Identity> RendezvousService::join(const grpc::ServerContextBase& context,
                                         const JoinArguments& arguments,
                                         control::JoinReply& reply) {
  Result<Identity> joined = table_.members.join(arguments);
  if (!joined) {
    if (joined.error().code() == Code::kUnauthenticated)
      authorizer_.count_refusal(&context, "job nonce");
    return joined;
  }
  const Identity& identity = *joined;
  reply.set_job_id(identity.job_id);
  reply.set_epoch(identity.epoch);
  reply.set_worker_index(table_.views.index_of(identity));
  reply.set_seat(identity.worker);
  reply.set_secret(identity.secret.data(), identity.secret.size());
  fill_offer(reply);
  if (snapshotter_ == nullptr) reply.set_no_snapshots(no_snapshots().message());
  const std::vector<std::uint64_t> load = table_.views.core_load_bytes(identity.job_id);
  reply.mutable_core_load_bytes()->Add(load.begin(), load.end());
  return joined;
}

Status RendezvousService::check_shared(const std::string& tenant,
                                       const control::JoinRequest& request) const {
  if (tenancy_ == nullptr || tenant == kDefaultTenant) return {};
  PHUB_ASSIGN_OR_RETURN(const Tenant own, tenancy_->directory.find(tenant));
  const std::string& theirs = request.tenant_shared_id();
  if (!own.shared_id.empty() && own.shared_id == theirs) return {};
  const auto described = [](const std::string& id) { return id.empty() ? "none" : id; };
  return {Code::kPermissionDenied,
          fmt::format("tenant: nobody has said that \"{}\" of rack {} and \"{}\" here are one; its "
                      "shared id is {} there and {} here; `phubctl tenant set {} --shared-id WORD` "
                      "gives it the same in all racks",
                      tenant, request.rack(), tenant, described(theirs), described(own.shared_id),
                      tenant)};
}

void RendezvousService::fill_offer(control::JoinReply& reply) const {
  reply.set_cores(offer_.cores);
  reply.set_tcp_port(offer_.tcp_port);
  reply.set_shm_socket(offer_.shm_socket);
  for (const CorePort& port : offer_.rdma) {
    control::RdmaPort& message = *reply.add_rdma();
    message.set_device(port.device);
    message.set_infiniband(port.link_layer == transport::verbs::LinkLayer::kInfiniBand);
    message.set_gid(port.gid.bytes.data(), port.gid.bytes.size());
    message.set_gid_type(static_cast<std::uint32_t>(port.gid.type));
  }
  reply.set_boot_id(offer_.boot_id);
  reply.set_heartbeat_interval_ms(offer_.heartbeat_interval_ms);
  reply.set_encrypts_data(offer_.encrypts_data);
}

}  // namespace phub::server
