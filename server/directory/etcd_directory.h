// The directory in an etcd: this server is registered under a lease, and watches the others.
//
// Owned by the daemon. A thread of its own makes all calls; racks() and status() answer with what
// it has learned last.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/directory/directory.h"
#include "server/directory/etcd_calls.h"
#include "server/directory/etcd_watch.h"
#include "server/directory/server_keys.h"

namespace phub::server {

class EtcdDirectory final : public Directory {
 public:
  // Errors: those of EtcdCalls::create. REQUIRES: options.etcd.
  static Result<std::unique_ptr<Directory>> create(const DirectoryOptions& options);

  // Ends the lease, so that the others need not wait until it is over.
  ~EtcdDirectory() override;

  void announce(const std::string& control_address) override;
  std::vector<RackEntry> racks() const override;
  bool may_grow() const override { return true; }
  void on_change(std::function<void()> changed) override;
  DirectoryStatus status() const override;
  std::string own_rack() const override { return own_.rack; }
  std::string own_address() const override;

 private:
  using Clock = std::chrono::steady_clock;

  EtcdDirectory(const DirectoryOptions& options, std::unique_ptr<EtcdCalls> calls);

  // All of these on the thread.
  void run();
  // Registers, lists and watches until that ends. Ok: to begin again at once; else why.
  Status session();
  Status register_self();
  // The revision that `known_` is right at.
  Result<std::int64_t> list();
  Status watch(std::int64_t from_revision);
  Status beat();
  Status apply(const etcdserverpb::WatchResponse& response);
  void apply(const etcdserverpb::Event& event);
  void publish();
  void note_left_out(std::uint64_t keys);
  void note_trouble(const Status& why);
  void note_success();

  // Until it is woken, the server ends or the time has come. False: the server ends.
  bool wait_until(Clock::time_point time);
  void wake();

  const EtcdOptions options_;
  const std::unique_ptr<EtcdCalls> calls_;

  // The thread's own.
  ServerKeys known_;
  EtcdCalls::Lease lease_ = {};  // id 0: none
  bool is_registered_ = false;
  bool is_listed_ = false;  // false: keys came or went that are not in `known_`

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable woken_;
  bool is_woken_ = false;
  bool is_stopping_ = false;
  ServerKey own_;  // its address changes once, when it is announced
  std::vector<RackEntry> racks_;
  std::uint64_t keys_left_out_ = 0;
  bool is_away_ = false;  // which the log has told
  std::string trouble_;
  Clock::time_point troubled_since_ = Clock::now();
  std::string member_;

  std::mutex change_mutex_;  // held while changed_ is called
  std::function<void()> changed_;

  std::thread thread_;  // last: it uses the others
};

}  // namespace phub::server
