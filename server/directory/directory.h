// Which racks there are, and the servers of each: the one thing that a server knows of the others
// before it calls them.
//
// Owned by the daemon; any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace phub::server {

struct RackEntry {
  std::string name;
  std::vector<std::string> servers;  // control addresses, "host:port", in order; at least one

  bool operator==(const RackEntry&) const = default;
};

struct DirectoryOptions {
  std::string rack = {};     // this server's own; empty: no racks are known
  std::string address = {};  // this server's control address, as other racks reach it
  // Static: each rack once, the own one among them.
  std::vector<RackEntry> racks = {};
};

class Directory {
 public:
  // REQUIRES: the options make sense, as common/config/racks.cc checks.
  static Result<std::unique_ptr<Directory>> create(const DirectoryOptions& options);

  virtual ~Directory() = default;
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // All racks as they are known now, the own one included, sorted by name: every server has them in
  // the same order. Servers are in the order of the list. Empty: no racks are known. Does not block
  // on anything but a short lock.
  virtual std::vector<RackEntry> racks() const = 0;

  // `changed` is called after racks() has changed, on a thread of the directory's, one call at a
  // time; null: nothing is called. When this returns the function before is not called any more.
  // `changed` does not block for long and does not call on_change.
  virtual void on_change(std::function<void()> changed) = 0;

  // Where the list comes from, for people: "configuration".
  virtual std::string source() const = 0;

  const std::string& own_rack() const { return own_rack_; }
  const std::string& own_address() const { return own_address_; }

 protected:
  explicit Directory(const DirectoryOptions& options)
      : own_rack_(options.rack), own_address_(options.address) {}

 private:
  const std::string own_rack_;
  const std::string own_address_;
};

}  // namespace phub::server
