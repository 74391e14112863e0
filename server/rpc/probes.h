// The gRPC service Probes: measurements of the links between servers, and the last one of all
// links, which is kept.
//
// Owned by the ControlService; gRPC calls it from its own threads.
#pragma once

#include <mutex>
#include <string>

#include "proto/probe.grpc.pb.h"
#include "server/access/tenancy.h"
#include "server/probe/prober.h"
#include "server/process/control_threads.h"
#include "server/rpc/authorizer.h"
#include "server/rpc/calls.h"

namespace phub::server {

class ProbeService final : public control::Probes::CallbackService {
 public:
  // `file`: where the last probe is kept; empty: in memory only. One that cannot be read is
  // reported in the log, and there is none then. The rest outlives the calls.
  ProbeService(ProberOptions options, std::string file, Tenancy* tenancy, const ControlPeers& peers,
               CallThreads& threads);

  // Ends a measurement that is under way.
  void stop() { prober_.stop(); }

#define PHUB_CALL(Name, method, ...)                                                         \
  grpc::ServerUnaryReactor* Name(grpc::CallbackServerContext* context,                       \
                                 const control::Name##Request* request,                      \
                                 control::Name##Reply* reply) override {                     \
    return calls_.run(context, {__VA_ARGS__}, *this, &ProbeService::method, request, reply); \
  }
  PHUB_CALL(Listen, listen, Right::kAdminister, "probe listen")
  PHUB_CALL(Measure, measure, Right::kAdminister, "probe measure")
  PHUB_CALL(Keep, keep, Right::kAdminister, "probe keep")
  PHUB_CALL(Last, last, Right::kRead)
#undef PHUB_CALL

 private:
  Status listen(Call& call, const control::ListenRequest& request, control::ListenReply& reply);
  Status measure(Call& call, const control::MeasureRequest& request, control::MeasureReply& reply);
  Status keep(Call& call, const control::KeepRequest& request, control::KeepReply& reply);
  Status last(Call& call, const control::LastRequest& request, control::LastReply& reply);

  Prober prober_;
  const std::string file_;
  const Authorizer authorizer_;
  const Calls calls_;

  std::mutex mutex_;  // guards the last one, and the file
  control::Probe last_;
};

// Whether a probe makes sense. Error: kInvalidArgument names the field.
Status check_probe(const control::Probe& probe);

}  // namespace phub::server
