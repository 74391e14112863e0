// What a server replies to a join: how to reach its data plane, and as whom.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/transport/verbs/device/device.h"

namespace phub::client {

using Secret = std::array<std::uint8_t, 32>;

// How a NIC of the server is found.
struct RdmaPort {
  std::string device;
  transport::verbs::LinkLayer link_layer = transport::verbs::LinkLayer::kEthernet;
  transport::verbs::Gid gid;
};

struct JoinInfo {
  std::uint64_t job_id = 0;  // of this server; other servers give the same job other ids
  std::uint32_t epoch = 0;
  std::uint32_t worker_index = 0;
  std::uint32_t seat = 0;  // this member's place at this server
  Secret secret{};         // authenticates this worker's data connections to this server
  std::uint32_t cores = 0;
  std::string host;            // of the data port: the control address's, without brackets
  std::uint16_t tcp_port = 0;  // 0: the server offers no tcp
  std::string shm_socket;      // abstract name without the leading NUL; empty: no shm
  bool same_host = false;      // same boot id: shm is possible
  std::vector<RdmaPort> rdma;  // by core: the NIC that serves it; empty: no verbs
  bool encrypts_data = false;  // the server's tcp streams are encrypted
  std::vector<std::uint64_t> core_load_bytes;  // by core: what other jobs have there, for the plan
  std::chrono::milliseconds heartbeat_interval{0};
  std::string no_snapshots = {};  // why the server takes none; empty: it takes them
};

}  // namespace phub::client
