// This server's part in measuring the link to another one: it listens for it, or calls on it.
//
// Any control thread; measure blocks. One measurement at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/rpc/tls_files.h"

namespace phub::server {

struct ProberOptions {
  std::string host = "127.0.0.1";  // to listen at
  TlsFiles tls = {};               // of the control plane; none: in clear
  bool require_client_certificates = true;
  TlsFiles client_tls = {};  // how this server proves at others who it is
  // Whether a server may be at this host: others are not called. Null: at every one. Any thread.
  std::function<bool(const std::string& host)> is_known = {};
};

struct ProbePort {
  std::uint16_t port = 0;
  std::string ticket;
};

struct ProbeTask {
  std::string address;  // of a server that listens, "host:port"
  std::string ticket;
  double seconds = 0.2;     // of each of five measurements, about
  std::uint64_t bytes = 0;  // in either direction at most
};

struct ProbeFigures {
  double alpha_seconds = 0.0;  // half a round trip, the median
  double there_seconds_per_byte = 0.0;
  double back_seconds_per_byte = 0.0;
  double message_seconds = 0.0;
};

class Prober {
 public:
  static constexpr double kSecondsMin = 0.01;
  static constexpr double kSecondsMax = 5.0;
  static constexpr std::uint64_t kBytesMax = std::uint64_t{16} << 30;

  explicit Prober(ProberOptions options) : options_(std::move(options)) {}
  ~Prober();  // stops
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // Ends what is under way, within about a second; what comes later is refused.
  void stop() { stop_ = true; }

  // For ten seconds, or until the visitor with this ticket has left. Errors: kResourceExhausted
  // while another measurement is under way; kInternal when no port can be had.
  Result<ProbePort> listen();
  // Errors: kInvalidArgument names the field, also for a host that is not known; kResourceExhausted
  // as above; those of the way there.
  Result<ProbeFigures> measure(const ProbeTask& task);

 private:
  // Waits for the end of another one for as long as an end takes. Error: kResourceExhausted: it
  // goes on for longer, or somebody waits for it already.
  Status begin();
  void end();

  const ProberOptions options_;
  std::atomic<bool> stop_{false};  // set by the destructor
  std::mutex mutex_;
  std::condition_variable ended_;
  bool busy_ = false;  // under the mutex; whoever sets it has thread_ for itself
  bool is_awaited_ = false;
  std::thread thread_;  // listens
};

}  // namespace phub::server
