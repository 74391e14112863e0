// The pinned cores of a data plane, each with its CPU and its port of a NIC.
//
// Made by a control thread; its events are on the io_context's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <vector>

#include "server/core/core.h"
#include "server/plane/core_ports.h"
#include "server/plane/data_plane.h"

namespace phub::server {

using Cores = std::vector<std::unique_ptr<Core>>;

class CoreSet {
 public:
  // Workers that the cores lose are told to `membership`. Errors: see DataPlane::create.
  static Result<std::unique_ptr<CoreSet>> create(const DataPlaneOptions& options,
                                                 boost::asio::io_context& context,
                                                 MembershipListener& membership);

  const Cores& cores() const { return cores_; }
  const std::vector<OpenPort>& ports() const { return ports_; }  // by core; empty: no RDMA

 private:
  CoreSet(boost::asio::io_context& context, MembershipListener& membership)
      : membership_(membership), events_(context) {}
  void watch_events();

  MembershipListener& membership_;
  boost::asio::posix::stream_descriptor events_;  // an eventfd: a core reported a loss
  std::vector<OpenPort> ports_;
  Cores cores_;
};

}  // namespace phub::server
