// One call of a phub-server's Admin, for the figures that only the server has.
//
// Any thread; blocks for at most ten seconds.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>

#include "common/base/status.h"
#include "proto/control.grpc.pb.h"

namespace phub::bench {

// Error: kUnavailable, which does not name the server.
template <typename Method, typename Request, typename Reply>
Status call_admin(const std::string& address, Method method, const Request& request, Reply& reply) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  const auto stub =
      control::Admin::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
  return status.ok() ? Status() : Status(Code::kUnavailable, status.error_message());
}

}  // namespace phub::bench
