// The phub-server processes of one system under test, and what memory they hold.
//
// Belongs to the bench's main thread; the servers end with the object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/processes/child_process.h"
#include "bench/processes/work.h"
#include "common/base/status.h"

namespace phub::bench {

// Sums over the servers, in bytes.
struct ServerMemory {
  std::uint64_t anonymous = 0;    // RssAnon of the processes
  std::uint64_t shared = 0;       // RssShmem of the processes
  std::uint64_t gradients = 0;    // of which the workers' own memory, mapped once by each core
  std::uint64_t idle = 0;         // anonymous and shared before the job
  std::uint64_t job = 0;          // what the servers report: parameters, state, staging
  std::uint64_t job_staging = 0;  // of which staging

  // Resident bytes that are the servers'.
  std::uint64_t owned() const { return anonymous + shared - gradients; }
};

class PhubServers {
 public:
  static Result<std::unique_ptr<PhubServers>> start(const Work& work, Places& places);
  ~PhubServers();
  PhubServers(const PhubServers&) = delete;
  PhubServers& operator=(const PhubServers&) = delete;

  // Control addresses, comma-separated.
  std::string addresses() const;
  Result<ServerMemory> memory(const std::string& job) const;

 private:
  PhubServers() = default;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
  std::vector<std::string> addresses_;
  std::uint64_t idle_bytes_ = 0;
};

}  // namespace phub::bench
