// A client's data plane for one job: the memory that is exchanged, a connection or several streams
// to each core of each server, and the Exchange over them.
//
// Made at set-up, which blocks, after the servers agreed on the plan. Belongs to the client's
// thread; what drives the exchange ends before it.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "common/connect/data_connection.h"
#include "common/connect/transport_choice.h"
#include "common/exchange/exchange.h"
#include "common/memory/exported_memory.h"
#include "common/memory/memory.h"
#include "common/plan/plan.h"
#include "common/rendezvous/heartbeats.h"

namespace phub::client {

// What they connect; all of it outlives the links.
struct LinkedJob {
  const Membership& membership;
  Heartbeats& heartbeat;
  std::shared_ptr<const Plan> plan;
  DataType wire_type = DataType::kFloat32;
  transport::CongestionControl congestion_control = {};
  std::uint32_t tcp_streams = 1;  // to each core that is reached by tcp
  transport::EndpointFront tcp_front = {};
  std::chrono::milliseconds timeout{0};  // of each connection
  // The server updates what it has replied with while this worker computes, so replies are copied.
  bool has_quorum = false;
  // Hyper-parameters of others than worker 0 may count, so all workers say them: of a quorum, whose
  // worker 0 may leave, or where each rack makes rounds by itself.
  bool all_may_lead = false;
  bool checksums = false;           // of each pushed chunk
  bool has_sparse_replies = false;  // over tcp and verbs some may be
  bool hogwild = false;             // this worker changes the parameters that the server shares
  // It clips over several servers, whose cores tell norms.
  bool passes_norms = false;
};

class JobLinks {
 public:
  // Errors name the server and the core; kAborted says why the job has ended.
  static Result<std::unique_ptr<JobLinks>> create(const LinkedJob& job, TransportChoices choices);

  Exchange& exchange() { return *exchange_; }
  const Plan& plan() const { return *job_.plan; }
  const TransportChoices& transports() const { return choices_; }
  // The arenas, laid out as the plan says.
  std::byte* gradients() const { return memory_->data() + gradients_offset_; }
  const std::byte* parameters() const { return parameters_; }
  // Where workers change them. REQUIRES: LinkedJob::hogwild.
  std::byte* shared_parameters() const { return published_->data(); }

  // From now on gradients are pushed from there: Client::push_from. REQUIRES: the exchange is idle.
  Result<std::string> push_from(ExportedMemoryPointer gpu);
  // For rounds that do not carry gradients, whatever push_from said. REQUIRES: as there.
  void push_from_host(bool from_host) {
    if (gpu_) exchange_->push_from(from_host ? gradients() : gpu_->bytes.data());
  }

 private:
  JobLinks(const LinkedJob& job, TransportChoices choices)
      : job_(job), choices_(std::move(choices)) {}
  std::uint32_t streams_of(std::uint32_t server) const {
    return choices_.by_server[server].transport == "tcp" ? job_.tcp_streams : 1;
  }
  std::size_t arena_bytes() const { return plan().arena_elements * size_of(job_.wire_type); }
  Status allocate();
  Status allocate_parameters(Pages pages);
  Status connect_server(std::uint32_t server);
  Status connect_core(std::uint32_t server, std::uint32_t core);
  Status connect_tcp(ServerCore where, DataTarget target);
  Status connect_verbs(const ServerCore& where, const DataTarget& target);

  LinkedJob job_;
  TransportChoices choices_;
  std::unique_ptr<SharedMemory> memory_;  // hyper slots, the gradient arena, checksums
  std::size_t gradients_offset_ = 0;
  std::unique_ptr<Mapping> local_parameters_;  // null: the server's are read in place
  std::byte* sparse_replies_ = nullptr;        // null: replies are whole
  std::unique_ptr<Mapping> local_changes_;     // over tcp alone, where they come in
  std::shared_ptr<Mapping> published_;
  const std::byte* parameters_ = nullptr;
  ExportedMemoryPointer gpu_;  // null: gradients are pushed from memory_
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace phub::client
