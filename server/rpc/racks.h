// The gRPC service Racks: what the directory knows.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include "proto/racks.grpc.pb.h"
#include "server/access/tenancy.h"
#include "server/directory/directory.h"
#include "server/process/control_threads.h"
#include "server/rpc/authorizer.h"
#include "server/rpc/calls.h"

namespace phub::server {

class RackService final : public control::Racks::CallbackService {
 public:
  // `directory` null: no racks are known. All outlive the calls.
  RackService(const Directory* directory, Tenancy* tenancy, const ControlPeers& peers,
              CallThreads& threads)
      : directory_(directory), authorizer_(tenancy, peers), calls_(authorizer_, threads) {}

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const control::ListRacksRequest* request,
                                 control::ListRacksReply* reply) override {
    return calls_.run(context, {Right::kRead}, *this, &RackService::list, request, reply);
  }

 private:
  Status list(Call& call, const control::ListRacksRequest& request, control::ListRacksReply& reply);

  const Directory* const directory_;
  const Authorizer authorizer_;
  const Calls calls_;
};

}  // namespace phub::server
