#include "server/rpc/calls.h"

#include <optional>
#include <string>
#include <utility>

#include "common/rpc/status.h"
#include "server/rpc/messages/names.h"

namespace phub::server {

void Calls::start(grpc::CallbackServerContext& context, const google::protobuf::Message& request,
                  grpc::ServerUnaryReactor& reactor, std::function<void()> call) const {
  const std::optional<std::string> payer = authorizer_.payer_of(context);
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

}  // namespace phub::server
