// Tells the control port's listener whose calls have succeeded.
//
// gRPC calls it from its own threads, for every call.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <functional>
#include <memory>
#include <string>

namespace phub::server {

// `on_success` is told the peer of each call that was answered with OK, or whose answer began
// before its end, as that of an admitted join does. But for those of the health service, which
// answers everybody. It outlives the server, and any thread may call it.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> watch_callers(
    std::function<void(const std::string& peer)> on_success);

}  // namespace phub::server
