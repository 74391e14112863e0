// Which racks there are, and the servers of each: the one thing that a server knows of the others
// before it calls them.
//
// Owned by the daemon; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/tls_files.h"

namespace phub::server {

struct RackEntry {
  std::string name;
  std::vector<std::string> servers;  // control addresses, "host:port", in order; at least one

  bool operator==(const RackEntry&) const = default;
};

// Fields: those of EtcdConfig (proto/config.proto).
struct EtcdOptions {
  std::vector<std::string> endpoints;
  std::string prefix = "/phub/racks";
  std::chrono::seconds lease{10};
  std::chrono::milliseconds timeout{3000};
  TlsFiles tls = {};
  std::string user = {};
  std::string password_file = {};
};

struct DirectoryOptions {
  std::string rack = {};  // this server's own; empty: no racks are known
  // This server's control address, as other racks reach it. Port 0: that of `announce`.
  std::string address = {};
  // Static: each rack once, the own one among them.
  std::vector<RackEntry> racks = {};
  std::optional<EtcdOptions> etcd = {};  // instead of `racks`
};

struct DirectoryStatus {
  std::string source = {};   // for people: "configuration", "etcd at 10.0.0.9:2379"
  std::string trouble = {};  // why what is known may be old; empty: it is not
  std::chrono::milliseconds troubled_for{0};
  std::uint64_t keys_left_out = 0;  // in etcd, under the prefix: no servers, or too many
};

class Directory {
 public:
  // Asks nobody yet. Errors: kInvalidArgument names the field and the file that is wrong.
  // REQUIRES: the options make sense, as common/config/racks.cc checks.
  static Result<std::unique_ptr<Directory>> create(const DirectoryOptions& options);

  virtual ~Directory() = default;
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // This server serves at `control_address` from now on: others may know. Does not wait for them.
  // REQUIRES: once, before any other call but the constructor's.
  virtual void announce(const std::string& control_address) = 0;

  // All racks as they are known now, the own one included, sorted by name: every server has them in
  // the same order. Servers are in the order of the list or, from etcd, of the numbers in their
  // addresses: 10.0.0.9 is before 10.0.0.10. Empty: no racks are known. Does not block on anything
  // but a short lock.
  virtual std::vector<RackEntry> racks() const = 0;

  // Whether a rack that is not among racks() may come while this server runs.
  virtual bool may_grow() const = 0;

  // `changed` is called after racks() has changed, on a thread of the directory's, one call at a
  // time; null: nothing is called. When this returns the function before is not called any more.
  // `changed` does not block for long and does not call on_change; it may come until the directory
  // is destroyed.
  virtual void on_change(std::function<void()> changed) = 0;

  virtual DirectoryStatus status() const = 0;

  virtual std::string own_rack() const = 0;
  virtual std::string own_address() const = 0;
};

}  // namespace phub::server
