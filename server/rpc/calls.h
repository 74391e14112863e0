// Runs the calls of people and tools on threads that are counted by who calls.
//
// Owned by the services; gRPC's threads call it.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/server_callback.h>

#include <functional>

#include "server/process/control_threads.h"
#include "server/rpc/authorizer.h"

namespace phub::server {

class Calls {
 public:
  // Both outlive the calls.
  Calls(const Authorizer& authorizer, CallThreads& threads)
      : authorizer_(authorizer), threads_(threads) {}

  // The call is answered with what `method` of `service` returns, which may block; a request with
  // names that nobody can have is refused before, unless it is a stranger's.
  template <typename Service, typename Request, typename Reply>
  grpc::ServerUnaryReactor* run(grpc::CallbackServerContext* context, Service& service,
                                grpc::Status (Service::*method)(grpc::ServerContextBase*,
                                                                const Request*, Reply*),
                                const Request* request, Reply* reply) const {
    auto* const reactor = context->DefaultReactor();
    start(*context, *request, *reactor, [context, reactor, &service, method, request, reply] {
      reactor->Finish((service.*method)(context, request, reply));
    });
    return reactor;
  }

 private:
  void start(grpc::CallbackServerContext& context, const google::protobuf::Message& request,
             grpc::ServerUnaryReactor& reactor, std::function<void()> call) const;

  const Authorizer& authorizer_;
  CallThreads& threads_;
};

}  // namespace phub::server
