#include "server/plane/core_set.h"

#include <sys/eventfd.h>

#include "server/plane/core_cpus.h"

namespace phub::server {

Result<std::unique_ptr<CoreSet>> CoreSet::create(const DataPlaneOptions& options,
                                                 boost::asio::io_context& context,
                                                 MembershipListener& membership) {
  std::unique_ptr<CoreSet> set(new CoreSet(context, membership));
  PHUB_ASSIGN_OR_RETURN(const auto cpus, assign_cpus(options));
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return errno_status("eventfd", Code::kResourceExhausted);
  const int event_fd = event.release();
  set->events_.assign(event_fd);
  PHUB_ASSIGN_OR_RETURN(set->ports_, open_ports(options, cpus));
  for (std::uint32_t i = 0; i < cpus.size(); ++i) {
    PHUB_ASSIGN_OR_RETURN(
        auto core, Core::create({.index = i,
                                 .cpu = cpus[i],
                                 .waiting = options.waiting,
                                 .max_connections = options.connections_per_core,
                                 .tcp_front = options.tcp_front,
                                 .device = set->ports_.empty() ? nullptr : set->ports_[i].device,
                                 .on_event = [event_fd] { ::eventfd_write(event_fd, 1); }}));
    set->cores_.push_back(std::move(core));
  }
  set->watch_events();
  return set;
}

void CoreSet::watch_events() {
  events_.async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [this](const boost::system::error_code& error) {
        if (error) return;
        eventfd_t value = 0;
        ::eventfd_read(events_.native_handle(), &value);
        for (const auto& core : cores_) {
          while (const auto event = core->next_event()) {
            event->goes_on ? membership_.on_left_behind(event->job_id, event->worker, event->reason)
                           : membership_.on_lost(event->job_id, event->worker, event->reason);
          }
        }
        watch_events();
      });
}

}  // namespace phub::server
