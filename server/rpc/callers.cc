#include "server/rpc/callers.h"

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>

#include <string>
#include <string_view>
#include <utility>

#include "server/rpc/authorizer.h"

namespace phub::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// The job that a member's message is about; 0: it is no member's.
std::uint64_t job_of(const google::protobuf::Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const auto* const job = type.FindFieldByName("job_id");
  if (job == nullptr || type.FindFieldByName("secret") == nullptr) return 0;
  return message.GetReflection()->GetUInt64(message, job);
}

class Watcher final : public grpc::experimental::Interceptor {
 public:
  Watcher(ControlListener& listener, const PayerOf& payer_of, ServerRpcInfo* call)
      : listener_(listener), payer_of_(payer_of), call_(call) {}

  void Intercept(InterceptorBatchMethods* batch) override {
    const bool ends = batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS);
    const bool begins =
        batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA);
    if (ends ? batch->GetSendStatus().ok() : begins) know();
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      count(batch->GetRecvMessage());
    }
    batch->Proceed();
  }

 private:
  std::string peer() const { return call_->server_context()->peer(); }

  // What the call says of its job was right: it has succeeded, or was admitted.
  void know() const {
    const grpc::ServerContextBase& context = *call_->server_context();
    const std::uint64_t job_id =
        job_id_ != 0 ? job_id_ : ticket_of(context).value_or(Ticket()).job_id;
    if (const auto payer = payer_of_(context, job_id)) listener_.know(peer(), *payer);
  }

  // Null: the stream has ended. All methods that are watched have messages of protobuf.
  void count(const void* message) {
    if (message == nullptr) return;
    const auto& whole = *static_cast<const google::protobuf::Message*>(message);
    job_id_ = job_of(whole);
    listener_.count_message(peer(), whole.ByteSizeLong());
  }

  ControlListener& listener_;
  const PayerOf& payer_of_;
  std::uint64_t job_id_ = 0;  // of a member's call
  ServerRpcInfo* const call_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(ControlListener& listener, PayerOf payer_of)
      : listener_(listener), payer_of_(std::move(payer_of)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    const std::string_view method = call->method() == nullptr ? "" : call->method();
    if (!method.starts_with("/phub.control.")) return nullptr;
    return new Watcher(listener_, payer_of_, call);  // gRPC owns it
  }

 private:
  ControlListener& listener_;
  const PayerOf payer_of_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> watch_callers(
    ControlListener& listener, PayerOf payer_of) {
  return std::make_unique<Factory>(listener, std::move(payer_of));
}

}  // namespace phub::server
