// Runs the calls of people and tools: on threads that are counted by who calls, when the caller
// may, and with a word in the audit log of what they change.
//
// Owned by the services; gRPC's threads call it.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/process/control_threads.h"
#include "server/rpc/authorizer.h"

namespace phub::server {

// A call that its caller may make.
struct Call {
  Principal caller;
  std::optional<std::string> changed = {};  // set by the call: what it is to change, for the audit
};

// What a caller must be allowed to, and how the audit log calls it.
struct Permission {
  Right right;
  std::string_view action = {};  // of what is not only read
};

class Calls {
 public:
  // Both outlive the calls.
  Calls(const Authorizer& authorizer, CallThreads& threads)
      : authorizer_(authorizer), threads_(threads) {}

  // The call is answered with what `method` of `service` returns, which may block; a request with
  // names that nobody can have is refused before, unless it is a stranger's.
  template <typename Service, typename Request, typename Reply>
  grpc::ServerUnaryReactor* run(grpc::CallbackServerContext* context, const Permission& needed,
                                Service& service,
                                Status (Service::*method)(Call&, const Request&, Reply&),
                                const Request* request, Reply* reply) const {
    auto* const reactor = context->DefaultReactor();
    start(*context, *request, *reactor, needed, [&service, method, request, reply](Call& call) {
      return (service.*method)(call, *request, *reply);
    });
    return reactor;
  }

 private:
  using Method = std::function<Status(Call&)>;
  void start(grpc::CallbackServerContext& context, const google::protobuf::Message& request,
             grpc::ServerUnaryReactor& reactor, const Permission& needed, Method method) const;
  grpc::Status outcome_of(const grpc::CallbackServerContext& context, const Permission& needed,
                          const Method& method) const;

  const Authorizer& authorizer_;
  CallThreads& threads_;
};

}  // namespace phub::server
