// Many calls of a server at once, from one thread.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_unary_call.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace phub::testing {

inline constexpr std::chrono::seconds kCallGuard{120};

// Calls of one method, many at once; they end when the test does.
template <typename Stub, typename Request, typename Reply>
class Calls {
 public:
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  explicit Calls(Method method) : method_(method) {}
  ~Calls() {
    for (const auto& call : calls_) call->context.TryCancel();
    while (left_ > 0) wait_for_one();
  }

  // `authorization`: metadata; empty: none.
  void send(Stub& stub, const Request& request, const std::string& authorization = {}) {
    calls_.push_back(std::make_unique<Call>());
    Call& call = *calls_.back();
    if (!authorization.empty()) call.context.AddMetadata("authorization", authorization);
    call.reader = (stub.*method_)(&call.context, request, &queue_);
    call.reader->Finish(&call.reply, &call.status, &call);
    ++left_;
  }
  // The outcome of whichever call ends next.
  grpc::Status wait_for_one() {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + kCallGuard;
    REQUIRE(queue_.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT);
    --left_;
    return static_cast<Call*>(tag)->status;
  }
  std::size_t left() const { return left_; }

 private:
  struct Call {
    grpc::ClientContext context;
    Reply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
  };

  const Method method_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::size_t left_ = 0;
};

}  // namespace phub::testing
