#include "server/data_plane.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "common/base/affinity.h"
#include "common/wire.h"
#include "kernels/reduce.h"
#include "server/acceptor.h"
#include "server/core.h"
#include "server/core_cpus.h"
#include "server/core_ports.h"
#include "server/host_memory.h"
#include "server/job_copying.h"
#include "server/job_memory.h"
#include "server/tcp_streams.h"
#include "server/verbs_memory.h"

namespace phub::server {

namespace asio = boost::asio;

namespace {

struct Job {
  JobShape shape;
  std::map<const transport::verbs::OpenDevice*, std::shared_ptr<VerbsMemory>> verbs;
  std::shared_ptr<JobMemory> memory;
  std::vector<std::unique_ptr<Shard>> shards;  // by core
  std::vector<bool> connected;                 // [worker * cores + core]
};

std::string_view name_of(transport::Kind kind) {
  switch (kind) {
    case transport::Kind::kShm:
      return "shm";
    case transport::Kind::kVerbs:
      return "verbs";
    default:
      return "tcp";
  }
}

void add_counters(const Shard& shard, JobCounters& counters) {
  counters.chunks += shard.chunks();
  counters.chunks_completed += shard.chunks_completed.value();
  counters.staging_bytes += shard.staging_bytes();
  counters.queued_pushes += shard.arrivals->length();
  counters.push_to_reply.add(shard.times->push_to_reply.counts());
  counters.wait_for_slowest.add(shard.times->wait_for_slowest.counts());
  counters.workers.resize(shard.workers());
  for (std::uint32_t i = 0; i < shard.workers(); ++i) {
    const WorkerCounters& worker = shard.worker_counters[i];
    counters.workers[i].pushes += worker.pushes.value();
    counters.workers[i].bytes_received += worker.bytes_received.value();
    counters.workers[i].bytes_sent += worker.bytes_sent.value();
    counters.bytes_received += worker.bytes_received.value();
    counters.bytes_sent += worker.bytes_sent.value();
  }
}

class DataPlaneImpl final : public DataPlane, private Admission {
 public:
  DataPlaneImpl(const DataPlaneOptions& options, Membership& membership)
      : options_(options), membership_(membership) {}

  ~DataPlaneImpl() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    acceptor_.reset();
    for (auto& [id, job] : jobs_) detach(job);
    cores_.clear();
  }

  Status open();
  Status create_job(const JobShape& shape) override;
  void remove_job(std::uint64_t job_id) override;

  std::uint32_t cores() const override { return static_cast<std::uint32_t>(cores_.size()); }
  std::uint16_t tcp_port() const override { return acceptor_->tcp_port(); }
  bool encrypts_tcp() const override { return options_.encrypt_tcp; }
  std::string shm_socket() const override { return shm_socket_; }
  std::vector<CorePort> verbs_ports() const override;
  std::vector<PortStatus> port_statuses() const override {
    return statuses_of(ports_, options_.sysfs_root);
  }
  std::optional<JobCounters> job_counters(std::uint64_t job_id) const override;
  std::vector<CoreRounds> job_rounds(std::uint64_t job_id, std::size_t rounds) const override;
  Result<CopiedJob> copy_job(std::uint64_t job_id, std::uint64_t round,
                             std::chrono::milliseconds timeout) override;
  Result<CopiedJob> copy_alone(std::uint64_t job_id, std::uint64_t round,
                               std::chrono::milliseconds timeout);
  std::vector<CoreCounters> core_counters() const override;
  std::vector<DropCounter> drops() const override;

 private:
  std::optional<Secret> secret_of(const transport::Hello& hello) override {
    return membership_.secret_of(hello.job_id, hello.epoch, hello.worker);
  }
  Result<Admitted> admit(Candidate candidate) override;
  Result<transport::ShmConnection> shm_connection(Candidate& candidate, const JobMemory& memory);
  Result<transport::verbs::Introduction> connect_verbs(Job& job, Candidate& candidate);
  Result<Admitted> connect(Job& job, Candidate& candidate);
  Result<std::vector<OpenPort>> ports_by_core(
      const std::vector<std::optional<std::uint32_t>>& cpus) const;
  Room room() const;  // REQUIRES: mutex_
  void detach(Job& job);
  void watch_events();

  DataPlaneOptions options_;
  Membership& membership_;
  const std::uint64_t start_ticks_ = ticks();
  asio::io_context context_{1};
  std::string shm_socket_;
  std::vector<OpenPort> ports_;  // by core; empty: no RDMA
  std::vector<std::unique_ptr<Core>> cores_;
  std::optional<asio::posix::stream_descriptor> events_;  // an eventfd: a core reported a loss
  std::optional<TcpStreams> streams_;
  std::unique_ptr<Acceptor> acceptor_;
  mutable std::mutex mutex_;  // jobs_, copying_
  std::map<std::uint64_t, Job> jobs_;
  std::set<std::uint64_t> copying_;  // jobs that a copy_job copies: a shard makes one at a time
  std::thread thread_;               // runs context_
};

Status DataPlaneImpl::open() {
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
  streams_.emplace(cores());
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
                                          .shm_socket = shm_socket_},
                                         context_, *this));
  watch_events();
  thread_ = std::thread([this] { context_.run(); });
  return {};
}

Result<std::vector<OpenPort>> DataPlaneImpl::ports_by_core(
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

std::vector<CorePort> DataPlaneImpl::verbs_ports() const {
  std::vector<CorePort> identities;
  for (const OpenPort& port : ports_) identities.push_back(port.identity);
  return identities;
}

void DataPlaneImpl::watch_events() {
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

Status DataPlaneImpl::create_job(const JobShape& shape) {
  if (shape.workers == 0 || shape.workers > kernels::kMaxSources) {
    return {Code::kInvalidArgument, "workers: " + std::to_string(shape.workers) +
                                        " is not between 1 and " +
                                        std::to_string(kernels::kMaxSources)};
  }
  const std::lock_guard lock(mutex_);
  if (jobs_.contains(shape.job_id)) {
    return {Code::kAlreadyExists, "job " + std::to_string(shape.job_id) + " exists"};
  }
  PHUB_RETURN_IF_ERROR(server::admit(bytes_pinned(shape, !ports_.empty()), room()));
  Job job;
  job.shape = shape;
  job.connected.resize(shape.workers * cores_.size());
  const Pages pages = ports_.empty() ? Pages::kTransparent : Pages::kReserved;
  PHUB_ASSIGN_OR_RETURN(job.memory, JobMemory::create(shape, pages));
  for (std::uint32_t core = 0; core < cores_.size(); ++core) {
    PHUB_ASSIGN_OR_RETURN(auto shard, Shard::create(shape, core, job.memory));
    job.shards.push_back(std::move(shard));
  }
  job.shape.initial = nullptr;  // the shards have it
  jobs_.emplace(shape.job_id, std::move(job));
  return {};
}

Room DataPlaneImpl::room() const {
  Room room{.limit_bytes = options_.memory_limit_bytes,
            .available_bytes = available_bytes(!ports_.empty())};
  for (const auto& [id, job] : jobs_) {
    const std::uint64_t pinned = bytes_pinned(job.shape, !ports_.empty());
    std::uint64_t touched = job.memory->resident_bytes();
    for (const auto& [device, memory] : job.verbs) touched += memory->window_bytes();
    room.admitted_bytes += pinned;
    room.untouched_bytes += pinned - std::min(pinned, touched);
  }
  return room;
}

void DataPlaneImpl::detach(Job& job) {
  for (std::size_t core = 0; core < job.shards.size(); ++core) {
    cores_[core]->detach(job.shards[core].get());
  }
}

void DataPlaneImpl::remove_job(std::uint64_t job_id) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return;
  detach(found->second);
  jobs_.erase(found);
}

Result<transport::ShmConnection> DataPlaneImpl::shm_connection(Candidate& candidate,
                                                               const JobMemory& memory) {
  const transport::Hello& hello = candidate.hello;
  constexpr std::uint64_t kMostMemory = 1ULL << 40;
  if (candidate.descriptors.size() != 2 || hello.memory_bytes > kMostMemory ||
      hello.channel_capacity > (1U << wire::kSlotBits)) {
    return Status(Code::kInvalidArgument, "a shm connection brings a channel and its memory");
  }
  const std::size_t channel_bytes = transport::channel_bytes(hello.channel_capacity);
  PHUB_RETURN_IF_ERROR(check_sealed(candidate.descriptors[0].get(), channel_bytes));
  PHUB_RETURN_IF_ERROR(check_sealed(candidate.descriptors[1].get(), hello.memory_bytes));
  transport::ShmConnection connection;
  PHUB_ASSIGN_OR_RETURN(connection.channel,
                        Mapping::of_file(candidate.descriptors[0].get(), channel_bytes, true));
  PHUB_ASSIGN_OR_RETURN(auto peer_memory, Mapping::of_file(candidate.descriptors[1].get(),
                                                           hello.memory_bytes, false));
  connection.peer_memory = std::move(peer_memory);
  connection.socket = std::move(candidate.socket);
  connection.capacity = hello.channel_capacity;
  connection.core_side = true;
  connection.own_memory = {memory.published->data(), memory.published->size()};
  return connection;
}

// The queue pair can receive before the worker hears of it, and the core knows it before that.
Result<transport::verbs::Introduction> DataPlaneImpl::connect_verbs(Job& job,
                                                                    Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  if (ports_.empty()) return Status(Code::kFailedPrecondition, "no RDMA here");
  Core& core = *cores_[hello.core];
  const auto& device = ports_[hello.core].device;
  std::shared_ptr<VerbsMemory> memory;
  if (const auto found = job.verbs.find(device.get()); found != job.verbs.end()) {
    memory = found->second;
  } else {
    std::vector<std::uint32_t> cores;
    for (std::uint32_t i = 0; i < cores_.size(); ++i) {
      if (ports_[i].device == device) cores.push_back(i);
    }
    PHUB_ASSIGN_OR_RETURN(memory, VerbsMemory::create(device, job.memory, job.shape, cores));
    job.verbs[device.get()] = memory;
  }
  Shard* shard = job.shards[hello.core].get();
  PHUB_ASSIGN_OR_RETURN(const transport::VerbsMemory parts, memory->of(hello.worker, hello.core));
  // Each chunk and a Hyper, at most, are on their way at a time.
  PHUB_ASSIGN_OR_RETURN(auto connection, core.verbs()->prepare(parts, shard->chunks() + 1));
  connection.peer = candidate.introduction;
  connection.socket = std::move(candidate.socket);
  PHUB_RETURN_IF_ERROR(core.verbs()->connect(connection));
  const transport::verbs::Introduction own = connection.own;
  PHUB_RETURN_IF_ERROR(core.connect_verbs(shard, hello.worker, std::move(connection),
                                          parts.window.data(), memory->landing(hello.core)));
  return own;
}

Result<Admitted> DataPlaneImpl::connect(Job& job, Candidate& candidate) {
  const transport::Hello& hello = candidate.hello;
  Core& core = *cores_[hello.core];
  Shard* shard = job.shards[hello.core].get();
  Admitted admitted;
  switch (hello.kind) {
    case transport::Kind::kShm: {
      PHUB_ASSIGN_OR_RETURN(auto connection, shm_connection(candidate, *job.memory));
      PHUB_RETURN_IF_ERROR(core.connect_shm(shard, hello.worker, std::move(connection)));
      admitted.memory_bytes = job.memory->published->size();
      admitted.memory_fd = UniqueFd(::fcntl(job.memory->published_fd.get(), F_DUPFD_CLOEXEC, 0));
      return admitted;
    }
    case transport::Kind::kTcp:
      PHUB_RETURN_IF_ERROR(core.connect_tcp(shard, hello.worker, std::move(candidate.socket)));
      PHUB_RETURN_IF_ERROR(streams_->begin(core, hello.core, *shard, hello.worker, candidate.keys));
      return admitted;
    case transport::Kind::kVerbs: {
      PHUB_ASSIGN_OR_RETURN(admitted.introduction, connect_verbs(job, candidate));
      return admitted;
    }
  }
  return Status(Code::kInvalidArgument, "no such transport");
}

Result<Admitted> DataPlaneImpl::admit(Candidate candidate) {
  const transport::Hello hello = candidate.hello;
  Result<Admitted> admitted = Status(Code::kInternal, "not tried");
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(hello.job_id);
    if (found == jobs_.end() || found->second.shape.epoch != hello.epoch) {
      return Status(Code::kNotFound, "no such job");
    }
    Job& job = found->second;
    if (hello.core >= cores_.size() || hello.worker >= job.shape.workers) {
      return Status(Code::kInvalidArgument, "no such core or worker");
    }
    const std::size_t index = hello.worker * cores_.size() + hello.core;
    if (job.connected[index]) return Status(Code::kAlreadyExists, "connected already");
    admitted = connect(job, candidate);
    job.connected[index] = admitted.has_value();
  }
  if (!admitted) {  // the job cannot go on without it; its members learn why
    membership_.on_lost(hello.job_id, hello.worker,
                        "its connection was refused: " + admitted.error().message());
    return admitted;
  }
  membership_.on_connected(hello.job_id, hello.worker, hello.core, name_of(hello.kind));
  return admitted;
}

std::optional<JobCounters> DataPlaneImpl::job_counters(std::uint64_t job_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return std::nullopt;
  JobCounters counters;
  counters.rounds_before = found->second.shape.rounds_before;
  for (const auto& shard : found->second.shards) add_counters(*shard, counters);
  for (const auto& [device, memory] : found->second.verbs) {
    counters.staging_bytes += memory->window_bytes();
    counters.reserved_page_bytes += memory->reserved_page_bytes();
  }
  counters.memory_bytes = counters.staging_bytes + found->second.memory->resident_bytes();
  counters.reserved_page_bytes += found->second.memory->reserved_page_bytes();
  return counters;
}

// Jobs are copied beside each other: one that stands still must not hold up another tenant's.
Result<CopiedJob> DataPlaneImpl::copy_job(std::uint64_t job_id, std::uint64_t round,
                                          std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (copying_.insert(job_id).second) break;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(Code::kDeadlineExceeded, "another snapshot of it is still under way");
    }
    std::this_thread::sleep_for(JobCopying::kRest);
  }
  const auto left = deadline - std::chrono::steady_clock::now();
  Result<CopiedJob> copied =
      copy_alone(job_id, round, std::chrono::ceil<std::chrono::milliseconds>(left));
  const std::lock_guard lock(mutex_);
  copying_.erase(job_id);
  return copied;
}

// REQUIRES: the job is in copying_.
Result<CopiedJob> DataPlaneImpl::copy_alone(std::uint64_t job_id, std::uint64_t round,
                                            std::chrono::milliseconds timeout) {
  std::unique_ptr<JobCopying> copying;
  while (true) {
    std::optional<JobShape> shape;
    {
      const std::lock_guard lock(mutex_);
      const auto found = jobs_.find(job_id);
      if (found == jobs_.end()) return Status(Code::kNotFound, "it is not running here");
      if (copying) {
        PHUB_ASSIGN_OR_RETURN(const bool done, copying->step(cores_, found->second.shards));
        if (done) return copying->result();
      } else {
        shape = found->second.shape;
      }
    }
    if (shape) {
      PHUB_ASSIGN_OR_RETURN(copying, JobCopying::create(*shape, round, timeout));
    } else {
      std::this_thread::sleep_for(JobCopying::kRest);  // in which others may have the mutex
    }
  }
}

std::vector<CoreRounds> DataPlaneImpl::job_rounds(std::uint64_t job_id, std::size_t rounds) const {
  const std::lock_guard lock(mutex_);
  std::vector<CoreRounds> result;
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return result;
  for (std::uint32_t i = 0; i < cores_.size(); ++i) {
    const Shard& shard = *found->second.shards[i];
    if (shard.chunks() > 0) result.push_back({i, cores_[i]->rounds(shard, rounds, start_ticks_)});
  }
  return result;
}

std::vector<CoreCounters> DataPlaneImpl::core_counters() const {
  const std::lock_guard lock(mutex_);
  std::vector<CoreCounters> counters;
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    counters.push_back(cores_[i]->counters());
    for (const auto& [id, job] : jobs_) {
      const Shard& shard = *job.shards[i];
      if (shard.chunks() > 0) counters.back().jobs.push_back(cores_[i]->job_counters(shard));
    }
  }
  return counters;
}

std::vector<DropCounter> DataPlaneImpl::drops() const {
  std::vector<DropCounter> result;
  for (std::size_t i = 0; i < kDropNames.size(); ++i) {
    std::uint64_t count = acceptor_->drops().value(static_cast<Drop>(i));
    for (const auto& core : cores_) count += core->drops().value(static_cast<Drop>(i));
    if (static_cast<Drop>(i) == Drop::kBadTag) count += streams_->bad_tags();
    result.push_back({kDropNames[i], count});
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<DataPlane>> DataPlane::create(const DataPlaneOptions& options,
                                                     Membership& membership) {
  auto plane = std::make_unique<DataPlaneImpl>(options, membership);
  PHUB_RETURN_IF_ERROR(plane->open());
  return std::unique_ptr<DataPlane>(std::move(plane));
}

}  // namespace phub::server
