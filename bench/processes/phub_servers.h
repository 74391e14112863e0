// The phub-server processes of one system under test, and what memory they hold.
//
// Belongs to the bench's main thread; the servers end with the object.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

// One that is ready, on ports of its own.
struct PhubServer {
  std::unique_ptr<ChildProcess> process;
  std::string address;    // of its control plane
  std::string data_port;  // of tcp
};

// One of our programs, and its words; the path of the server's configuration comes after them.
struct ServerProgram {
  std::string program = "phub-server";
  std::vector<std::string> words = {"--config"};
};

// The server whose tcp sends leave so much later.
ServerProgram delayed_server(std::uint32_t delay_us);

// Starts a server on these CPUs; `settings` are further lines of its configuration.
Result<PhubServer> start_server(const std::string& name, std::span<const std::uint32_t> cpus,
                                const std::string& settings, Places& places,
                                const ServerProgram& run = {});

class PhubServers {
 public:
  static Result<std::unique_ptr<PhubServers>> start(const Work& work, Places& places);
  ~PhubServers();
  PhubServers(const PhubServers&) = delete;
  PhubServers& operator=(const PhubServers&) = delete;

  // Of their control planes.
  std::vector<std::string> addresses() const;
  // With what they hold for kJobName.
  Result<ServerMemory> memory() const;

 private:
  PhubServers() = default;
  std::vector<PhubServer> servers_;
  ServerMemory idle_;
};

}  // namespace phub::bench
