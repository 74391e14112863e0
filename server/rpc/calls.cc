#include "server/rpc/calls.h"

#include <utility>

#include "common/rpc/status.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {

void Calls::start(grpc::CallbackServerContext& context, const google::protobuf::Message& request,
                  grpc::ServerUnaryReactor& reactor, const Permission& needed,
                  Method method) const {
  const std::optional<std::string> payer = authorizer_.payer_of(context);
  auto call = [this, &context, &reactor, needed, method = std::move(method)] {
    reactor.Finish(outcome_of(context, needed, method));
  };
  Status posted;
  if (!payer) {
    posted = threads_.strangers.post(kNobodyYet, std::move(call));  // which refuses it
  } else if (Status named = check_names(request); !named.ok()) {
    posted = std::move(named);
  } else if (payer->empty()) {
    posted = threads_.administrators.post("of administrators", std::move(call));
  } else {
    posted = threads_.tenants.post(*payer, std::move(call));
  }
  if (!posted.ok()) reactor.Finish(to_grpc(posted));
}

grpc::Status Calls::outcome_of(const grpc::CallbackServerContext& context, const Permission& needed,
                               const Method& method) const {
  const Result<Principal> caller = authorizer_.authorize(&context, needed.right, needed.action);
  if (!caller) return to_grpc(caller.error());
  Call call{.caller = *caller};
  const Status outcome = method(call);
  if (!call.changed) return to_grpc(outcome);
  return authorizer_.audited(call.caller, needed.action, *call.changed, outcome);
}

}  // namespace phub::server
