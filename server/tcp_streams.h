// Starts the tcp streams that cores have taken, encrypted or plain, and counts what did not verify.
//
// Owned by the data plane; control threads call it. A core counts in its own counter.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/counter.h"
#include "common/base/status.h"
#include "common/transport/tcp/stream_keys.h"
#include "server/core.h"

namespace phub::server {

class TcpStreams {
 public:
  explicit TcpStreams(std::uint32_t cores) : bad_tags_(cores) {}

  // `keys`: nothing for a plain stream. REQUIRES: core.connect_tcp has taken the worker's stream.
  // A stream that has ended since then is left to the core. Error: kInternal, OpenSSL has no
  // AES-GCM.
  Status begin(Core& core, std::uint32_t core_index, const Shard& shard, std::uint32_t worker,
               const std::optional<transport::StreamKeys>& keys);

  // Streams that were lost to a record that did not verify.
  std::uint64_t bad_tags() const;

 private:
  std::deque<Counter> bad_tags_;  // by core
};

}  // namespace phub::server
