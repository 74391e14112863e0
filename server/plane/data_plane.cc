#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/affinity.h"
#include "common/transport/tcp/sealed_stream.h"
#include "server/plane/core_cpus.h"
#include "server/plane/pinned_data_plane.h"
#include "server/process/descriptor_limit.h"

namespace phub::server {

namespace asio = boost::asio;

PinnedDataPlane::~PinnedDataPlane() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
  setups_.join();
  acceptor_.reset();
  for (auto& [id, job] : jobs_) detach(*job);
  cores_.clear();
}

Status PinnedDataPlane::open() {
  PHUB_ASSIGN_OR_RETURN(const auto cpus, assign_cpus(options_));
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return errno_status("eventfd", Code::kResourceExhausted);
  events_.emplace(context_, event.release());
  const int event_fd = events_->native_handle();
  PHUB_ASSIGN_OR_RETURN(ports_, ports_by_core(cpus));
  for (std::uint32_t i = 0; i < cpus.size(); ++i) {
    PHUB_ASSIGN_OR_RETURN(auto core,
                          Core::create({.index = i,
                                        .cpu = cpus[i],
                                        .waiting = options_.waiting,
                                        .max_connections = options_.connections_per_core,
                                        .device = ports_.empty() ? nullptr : ports_[i].device,
                                        .on_event = [event_fd] { ::eventfd_write(event_fd, 1); }}));
    cores_.push_back(std::move(core));
  }
  if (options_.shm) {
    const transport::Nonce nonce = transport::random_nonce();
    shm_socket_ = "phub-" + std::to_string(::getpid()) + "-";
    for (std::size_t i = 0; i < 4; ++i) shm_socket_ += std::to_string(nonce[i]);
  }
  PHUB_ASSIGN_OR_RETURN(const auto congestion_control,
                        transport::CongestionControl::parse(options_.tcp_congestion_control));
  PHUB_ASSIGN_OR_RETURN(acceptor_,
                        Acceptor::create({.tcp_address = options_.tcp ? options_.tcp_address : "",
                                          .congestion_control = congestion_control,
                                          .encrypt_tcp = options_.encrypt_tcp,
                                          .shm_socket = shm_socket_,
                                          .places = descriptor_shares().handshakes},
                                         context_, *this));
  watch_events();
  thread_ = std::thread([this] { context_.run(); });
  return {};
}

Result<std::vector<OpenPort>> PinnedDataPlane::ports_by_core(
    const std::vector<std::optional<std::uint32_t>>& cpus) const {
  PHUB_ASSIGN_OR_RETURN(const std::vector<OpenPort> ports, open_ports(options_));
  if (ports.empty()) return ports;
  std::vector<int> core_nodes;
  std::vector<int> port_nodes;
  for (const auto& cpu : cpus) core_nodes.push_back(cpu ? numa_node_of(*cpu) : -1);
  for (const OpenPort& port : ports) port_nodes.push_back(port.numa_node);
  std::vector<OpenPort> by_core;
  for (const std::size_t port : assign_ports(core_nodes, port_nodes)) {
    by_core.push_back(ports[port]);
  }
  return by_core;
}

void PinnedDataPlane::watch_events() {
  events_->async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                        if (error) return;
                        eventfd_t value = 0;
                        ::eventfd_read(events_->native_handle(), &value);
                        for (const auto& core : cores_) {
                          while (const auto event = core->next_event()) {
                            membership_.on_lost(event->job_id, event->worker, event->reason);
                          }
                        }
                        watch_events();
                      });
}

Status PinnedDataPlane::create_job(const JobLayout& shape) {
  if (shape.workers == 0 || shape.workers > kMaxWorkers) {
    return {Code::kInvalidArgument, "workers: " + std::to_string(shape.workers) +
                                        " is not between 1 and " + std::to_string(kMaxWorkers)};
  }
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.contains(shape.job_id) || creating_.contains(shape.job_id)) {
      return {Code::kAlreadyExists, "job " + std::to_string(shape.job_id) + " exists"};
    }
    const std::uint64_t bytes = bytes_pinned(shape, offered());
    PHUB_RETURN_IF_ERROR(server::admit(bytes, room()));
    creating_.emplace(shape.job_id, bytes);
  }
  auto job = std::make_shared<Job>(setups_.get_executor());
  job->shape = shape;
  const Status made = make(*job);
  const std::lock_guard lock(mutex_);
  creating_.erase(shape.job_id);
  if (made.ok()) jobs_.emplace(shape.job_id, std::move(job));
  return made;
}

Status PinnedDataPlane::make(Job& job) const {
  job.connected.resize(job.shape.workers * cores_.size());
  job.bookkeeping_bytes = bytes_of_bookkeeping(job.shape);
  const Pages pages = ports_.empty() ? Pages::kTransparent : Pages::kReserved;
  PHUB_ASSIGN_OR_RETURN(job.memory, JobMemory::create(job.shape, pages));
  job.shm = std::make_unique<ShmMemory>(job.shape);
  for (std::uint32_t core = 0; core < cores_.size(); ++core) {
    PHUB_ASSIGN_OR_RETURN(auto on_core, JobOnCore::create(job.shape, core, job.memory));
    job.on_cores.push_back(std::move(on_core));
  }
  job.shape.initial = nullptr;  // the shards have it
  return {};
}

Room PinnedDataPlane::room() const {
  Room room{.limit_bytes = options_.memory_limit_bytes,
            .available_bytes = available_bytes(!ports_.empty())};
  for (const auto& [id, bytes] : creating_) {
    room.admitted_bytes += bytes;
    room.untouched_bytes += bytes;
  }
  for (const auto& [id, job] : jobs_) {
    const std::uint64_t pinned = bytes_pinned(job->shape, offered());
    std::uint64_t touched = touched_bytes(*job);
    for (const auto& [device, memory] : job->verbs) touched += memory->window_bytes();
    const std::uint64_t beyond = staged_beyond(*job);
    for (const auto& on_core : job->on_cores) touched += on_core->staging->touched_bytes();
    touched -= beyond;
    if (offered().sealing) {
      const auto connected = std::count(job->connected.begin(), job->connected.end(), true);
      touched += static_cast<std::uint64_t>(connected) * transport::SealedStream::buffer_bytes();
    }
    room.admitted_bytes += pinned + beyond;
    room.untouched_bytes += pinned - std::min(pinned, touched);
  }
  for (const auto& copy : reserved_) {
    const auto bytes = copy.lock();
    if (bytes) room.admitted_bytes += *bytes;  // it is touched at once
  }
  return room;
}

void PinnedDataPlane::detach(Job& job) {
  for (std::size_t core = 0; core < job.on_cores.size(); ++core) {
    cores_[core]->detach(job.on_cores[core].get());
  }
}

// What the job and its workers had mapped goes here, on the caller's thread.
void PinnedDataPlane::remove_job(std::uint64_t job_id) {
  JobPointer job;
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(job_id);
    if (found == jobs_.end()) return;
    job = std::move(found->second);
    jobs_.erase(found);
  }
  const std::lock_guard setup(job->setup);  // nobody of it is being connected
  job->is_removed = true;
  detach(*job);
}

Result<std::unique_ptr<DataPlane>> DataPlane::create(const DataPlaneOptions& options,
                                                     MembershipListener& membership) {
  auto plane = std::make_unique<PinnedDataPlane>(options, membership);
  PHUB_RETURN_IF_ERROR(plane->open());
  return std::unique_ptr<DataPlane>(std::move(plane));
}

}  // namespace phub::server
