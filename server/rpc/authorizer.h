// Who a gRPC call comes from, and whether it may: what calls.h asks for every call of Admin, and
// the first line of Join and Take.
//
// Owned by the ControlService; gRPC's threads.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/rpc/status.h"
#include "server/access/tenancy.h"
#include "server/door/control_peers.h"
#include "server/jobs/job_index.h"
#include "server/process/token_bucket.h"

namespace phub::server {

// What a join's metadata bring instead of a token: "Ticket JOB_ID:NONCE". One that makes no sense
// is a wrong one.
std::optional<Ticket> ticket_of(const grpc::ServerContextBase& context);

// Tells the caller that the same call may succeed a moment later. REQUIRES: before it is finished.
void ask_to_try_again(grpc::ServerContextBase& context);

// How often tenants may call: more is refused with the figures.
class CallRates {
 public:
  // Of each tenant.
  CallRates(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  // Errors: kResourceExhausted.
  Status admit(const std::string& tenant, TokenBucket::Clock::time_point now);

 private:
  const double per_second_;
  const double burst_;
  std::mutex mutex_;
  std::map<std::string, TokenBucket> rates_;  // of who has ever called; administrators make tenants
};

class Authorizer {
 public:
  // `tenancy` null: everybody may do everything, and nothing is audited. `peers`: of the listener
  // that the calls come through. Both outlive this.
  Authorizer(Tenancy* tenancy, const ControlPeers& peers) : tenancy_(tenancy), peers_(peers) {}

  // Errors: kUnauthenticated, kPermissionDenied; kResourceExhausted where a tenant calls too often,
  // joins apart. A change that is denied is audited as `action`.
  Result<Principal> authorize(const grpc::ServerContextBase* context, Right right,
                              std::string_view action = {}) const;

  // The same of a join, before it has said whether it is as a worker or as a rack.
  Result<Principal> authorize_join(const grpc::ServerContextBase& context) const;

  // Whose calls this one counts with: a tenant's, or "" for administrators' and observers'.
  // Nothing: its token is wrong. Does not write anything.
  std::optional<std::string> payer_of(const grpc::ServerContextBase& context) const;

  // The outcome of a change, for the caller and for the audit log.
  grpc::Status audited(const Principal& caller, std::string_view action, std::string_view object,
                       const Status& outcome) const;

  // A secret that is no token was wrong.
  void count_refusal(const grpc::ServerContextBase* context, const std::string& what) const;

 private:
  static constexpr double kCallsPerSecond = 50;
  static constexpr double kBurst = 200;

  // Nothing: the call's connection has ended.
  std::optional<Credentials> credentials_of(const grpc::ServerContextBase& context) const;

  Tenancy* const tenancy_;
  const ControlPeers& peers_;
  const std::unique_ptr<CallRates> rates_ = std::make_unique<CallRates>(kCallsPerSecond, kBurst);
};

}  // namespace phub::server
