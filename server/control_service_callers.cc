#include "server/control_service_callers.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

namespace phub::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

class Watcher final : public grpc::experimental::Interceptor {
 public:
  Watcher(ControlListener& listener, ServerRpcInfo* call) : listener_(listener), call_(call) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    const bool ends = batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS);
    const bool begins =
        batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA);
    if (ends ? batch->GetSendStatus().ok() : begins) listener_.know(peer());
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      count(batch->GetRecvMessage());
    }
    batch->Proceed();
  }

 private:
  std::string peer() const { return call_->server_context()->peer(); }

  // Null: the stream has ended. All methods that are watched have messages of protobuf.
  void count(const void* message) const {
    if (message == nullptr) return;
    const auto* const whole = static_cast<const google::protobuf::MessageLite*>(message);
    listener_.count_message(peer(), whole->ByteSizeLong());
  }

  ControlListener& listener_;
  ServerRpcInfo* const call_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(ControlListener& listener) : listener_(listener) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    const std::string_view method = call->method() == nullptr ? "" : call->method();
    if (!method.starts_with("/phub.control.")) return nullptr;
    return new Watcher(listener_, call);  // gRPC owns it
  }

 private:
  ControlListener& listener_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> watch_callers(
    ControlListener& listener) {
  return std::make_unique<Factory>(listener);
}

}  // namespace phub::server
