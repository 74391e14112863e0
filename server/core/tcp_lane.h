// A core's tcp streams: where what they bring is put, and how much of a job's is read in its turn.
//
// Reading is work for the job that is read from. So nothing is read before its turn: a stream that
// has something is listed with its job, whose flow is then awake, and is read when the job is
// served, no more at a time than is served soon. Belongs to the core's thread.
#pragma once

#include <memory>
#include <span>

#include "common/transport/tcp/tcp_endpoint.h"
#include "server/core/lane.h"
#include "server/core/turns.h"

namespace phub::server {

class TcpLane final : public Lane {
 public:
  // `turns` outlives it.
  static Result<std::unique_ptr<TcpLane>> create(std::uint32_t max_connections,
                                                 const transport::EndpointFront& front,
                                                 Turns& turns);
  transport::TcpEndpoint& endpoint() const { return *tcp_; }

  // Reads of the job's streams what its turn can pay for: one after the other, a few writes of
  // each. How many are whole now. What was read without any of them is paid at once. REQUIRES: it
  // is the job's turn.
  std::size_t read(JobOnCore& job, std::span<transport::Completion> completions);

 private:
  TcpLane(std::uint32_t max_connections, Turns& turns) : Lane(max_connections), turns_(turns) {}

  std::size_t writes_of_each(const JobOnCore& job) const;
  void attribute(JobOnCore& job, std::span<const transport::Completion> arrived,
                 std::uint64_t spent);

  std::byte* acquire(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) override;
  std::byte* acquire_checked(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes,
                             std::uint32_t checksum) override;
  void release(transport::PeerId peer, std::byte* data) override;
  bool reads_later(transport::PeerId peer) override;

  Turns& turns_;
  std::unique_ptr<transport::TcpEndpoint> tcp_;
  std::unique_ptr<transport::Endpoint> front_;  // of it; null: nothing is there
};

}  // namespace phub::server
