#include "server/control_service_callers.h"

#include <grpcpp/server_context.h>

#include <string_view>

namespace phub::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;
using OnSuccess = std::function<void(const std::string& peer)>;

class Watcher final : public grpc::experimental::Interceptor {
 public:
  Watcher(const OnSuccess& on_success, ServerRpcInfo* call)
      : on_success_(on_success), call_(call) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    const bool ends = batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS);
    const bool begins =
        batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA);
    if (ends ? batch->GetSendStatus().ok() : begins) on_success_(call_->server_context()->peer());
    batch->Proceed();
  }

 private:
  const OnSuccess& on_success_;
  ServerRpcInfo* const call_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(OnSuccess on_success) : on_success_(std::move(on_success)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    const std::string_view method = call->method() == nullptr ? "" : call->method();
    if (method.starts_with("/grpc.health.")) return nullptr;
    return new Watcher(on_success_, call);  // gRPC owns it
  }

 private:
  const OnSuccess on_success_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> watch_callers(
    std::function<void(const std::string& peer)> on_success) {
  return std::make_unique<Factory>(std::move(on_success));
}

}  // namespace phub::server
