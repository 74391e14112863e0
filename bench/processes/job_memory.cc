#include "bench/processes/job_memory.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>

#include "proto/control.grpc.pb.h"

namespace phub::bench {

Result<JobMemory> job_memory(const std::string& server, const std::string& job) {
  constexpr std::chrono::seconds kTimeout{5};
  const auto stub =
      control::Admin::NewStub(grpc::CreateChannel(server, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  control::InspectJobRequest request;
  request.set_name(job);
  control::InspectJobReply reply;
  const grpc::Status status = stub->InspectJob(&context, request, &reply);
  if (!status.ok()) {
    return Status(Code::kUnavailable,
                  fmt::format("inspecting job {} at {}: {}", job, server, status.error_message()));
  }
  const control::JobStatistics& statistics = reply.job().statistics();
  return JobMemory{statistics.memory_bytes(), statistics.staging_bytes()};
}

}  // namespace phub::bench
