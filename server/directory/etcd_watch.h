// A watch of an etcd: one response is held until it is taken, then the next one is asked for.
//
// Owned by the thread that takes; gRPC calls from threads of its own.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "proto/etcd/rpc.grpc.pb.h"
#include "server/directory/etcd_calls.h"

namespace phub::server {

class EtcdWatch final
    : public grpc::ClientBidiReactor<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse> {
 public:
  // Ends after `life` by itself. `wake` is called when there is something to take, or it has ended,
  // from a thread of gRPC's; it takes no lock under which the watch is called.
  EtcdWatch(const EtcdCalls& calls, std::int64_t from_revision, std::chrono::seconds life,
            std::function<void()> wake);
  // Ends it, and waits until gRPC has.
  ~EtcdWatch() override;
  EtcdWatch(const EtcdWatch&) = delete;
  EtcdWatch& operator=(const EtcdWatch&) = delete;

  // The next response, if one is there.
  std::optional<etcdserverpb::WatchResponse> take();
  // How it has ended, when all responses are taken.
  std::optional<grpc::Status> ended() const;

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  etcdserverpb::Watch::Stub stub_;
  const std::function<void()> wake_;
  grpc::ClientContext context_;
  const etcdserverpb::WatchRequest request_;
  etcdserverpb::WatchResponse response_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_response_ = false;  // in response_; else a read is under way, or it has ended
  std::optional<grpc::Status> ended_;
};

}  // namespace phub::server
