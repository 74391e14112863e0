// What a run of the bench exchanges, and where its processes find things. Values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/rule.h"
#include "common/base/status.h"

namespace phub::bench {

struct Work {
  std::string transport = "shm";  // shm, tcp, or auto: shm where it can be had
  std::uint32_t workers = 4;
  std::uint64_t elements = 0;
  std::string keys = "auto";  // see keys.h
  DataType dtype = DataType::kFloat32;
  RuleKind rule = RuleKind::kSum;
  bool deterministic = true;
  std::uint32_t chunk_kib = 32;
  std::string congestion = "auto";   // tcp_congestion_control of servers and workers
  std::uint32_t tcp_buffer_kib = 0;  // the same
  std::uint32_t tcp_delay_us = 0;    // of what worker and servers send by tcp
  std::uint32_t tcp_streams = 1;     // of each worker to each core
  bool encrypt = false;              // tcp: the servers' security.encrypt_data
  bool vote = false;       // a vote of each worker ends each round (common/base/loss_scale.h)
  bool watch = false;      // servers look who pushes what is not finite (watch_values: "name")
  bool checksums = false;  // of each push (checksums: true)
  std::uint32_t servers = 1;
  std::uint32_t server_cores = 2;         // of each server
  std::uint32_t wait_s = 60;              // a worker's deadline: of a join, of a round
  std::vector<std::uint32_t> racks = {};  // workers of each, joined in rack_shape; empty: one
  std::string rack_shape = "spread";
  std::uint64_t rack_hybrid_bytes = 0;  // of hybrid: the largest key that is small

  // Payload of one worker's push.
  std::uint64_t payload_bytes() const { return elements * size_of(dtype); }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Work, transport, workers, elements, keys, dtype, rule,
                                   deterministic, chunk_kib, congestion, tcp_buffer_kib,
                                   tcp_delay_us, tcp_streams, encrypt, vote, watch, checksums,
                                   servers, server_cores, wait_s, racks, rack_shape,
                                   rack_hybrid_bytes)

// The job that the workers of a phub system join, unless there are several.
inline constexpr char kJobName[] = "bench";

// What a worker process of phub's is told.
struct ServedWork {
  Work work;
  std::vector<std::string> addresses;  // control addresses of its servers
  std::string job = kJobName;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServedWork, work, addresses, job)

// Of the rack in its place in Work::racks.
inline std::string rack_name(std::size_t rack) { return "r" + std::to_string(rack); }

// The places of a run: the folder of our binaries and a scratch folder that is removed at the end.
class Places {
 public:
  static Result<std::unique_ptr<Places>> create();
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Path of one of our programs. Error: kNotFound with the target to build.
  Result<std::string> program(const std::string& name) const;
  const std::filesystem::path& scratch() const { return scratch_; }
  // A file in the scratch folder that no one else uses.
  std::string fresh_path(const std::string& name);
  // Readable once SIGINT or SIGTERM has come (both are blocked from here on).
  int interrupt_fd() const { return interrupt_fd_; }

 private:
  Places() = default;
  std::filesystem::path binaries_;
  std::filesystem::path scratch_;
  int interrupt_fd_ = -1;
  unsigned paths_ = 0;
};

}  // namespace phub::bench
