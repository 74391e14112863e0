// The data plane of a real daemon: cores with threads of their own, their listener, the jobs'
// memory.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <thread>

#include "server/plane/acceptor.h"
#include "server/plane/job_copying.h"
#include "server/plane/rack_connections.h"
#include "server/plane/worker_admission.h"
#include "server/process/descriptor_limit.h"

namespace phub::server {
namespace {

CoreJobCounters counters_of(const JobOnCore& job, const TickRate& rate) {
  CoreJobCounters counters{.job_id = job.job_id,
                           .chunks_completed = job.shard.updates.chunks_completed.value(),
                           .busy_nanoseconds = rate.nanoseconds_of(job.times.busy.value()),
                           .queued_pushes = job.arrivals.length()};
  for (const auto* const peers : {&job.worker_counters, &job.above_counters}) {
    for (const WorkerCounters& peer : *peers) {
      counters.bytes_received += peer.bytes_received.value();
      counters.bytes_sent += peer.bytes_sent.value();
    }
  }
  return counters;
}

// From ticks to nanoseconds since `start`.
void convert(RoundRecord& record, std::uint64_t start, const TickRate& rate) {
  const auto since_start = [&](std::uint64_t& stamp) {
    stamp = stamp > start ? rate.nanoseconds_of(stamp - start) : 0;
  };
  since_start(record.first_push);
  since_start(record.complete);
  since_start(record.replied);
  record.work = rate.nanoseconds_of(record.work);
  for (WorkerSpan& worker : record.workers) {
    since_start(worker.first_push);
    since_start(worker.last_push);
  }
  for (RackSpan& rack : record.racks) {
    since_start(rack.first);
    since_start(rack.last);
  }
}

class PinnedDataPlane final : public DataPlane {
 public:
  explicit PinnedDataPlane(const DataPlaneOptions& options) : options_(options) {}
  ~PinnedDataPlane() override;
  PinnedDataPlane(const PinnedDataPlane&) = delete;
  PinnedDataPlane& operator=(const PinnedDataPlane&) = delete;

  // Once, before any other call. Errors: see DataPlane::create.
  Status open(MembershipListener& membership);

  Status create_job(const JobLayout& layout) override {
    return jobs_->create(layout, setups_.get_executor());
  }
  Result<std::shared_ptr<const void>> reserve(std::uint64_t bytes,
                                              const std::string& what) override {
    PHUB_ASSIGN_OR_RETURN(std::shared_ptr<const void> counted, jobs_->reserve(bytes, what));
    return counted;
  }
  Status know_rack(std::uint64_t job_id, std::uint32_t rack, std::uint32_t cores) override {
    return racks_->know(job_id, rack, cores);
  }
  Status connect_rack(const RackTarget& target) override { return racks_->connect(target); }
  Status reaches(const client::RdmaPort& peer, std::uint32_t core) const override {
    return racks_->reaches(peer, core);
  }
  void drop_worker(std::uint64_t job_id, std::uint32_t worker) override {
    if (const PlaneJobs::Pointer job = jobs_->find(job_id)) job->drop(worker);
  }
  void remove_job(std::uint64_t job_id) override;

  std::uint32_t cores() const override { return static_cast<std::uint32_t>(all_cores().size()); }
  std::uint16_t tcp_port() const override { return acceptor_->tcp_port(); }
  bool encrypts_tcp() const override { return options_.encrypt_tcp; }
  std::string shm_socket() const override { return shm_socket_; }
  std::vector<CorePort> verbs_ports() const override;
  std::vector<PortStatus> port_statuses() const override {
    return statuses_of(cores_->ports(), options_.sysfs_root);
  }
  StagedBeyond staged_beyond() const override { return jobs_->staged_beyond(); }
  std::optional<JobCounters> job_counters(std::uint64_t job_id) const override;
  std::vector<CoreRounds> job_rounds(std::uint64_t job_id, std::size_t rounds) const override;
  std::unique_ptr<CopyUnderWay> copy_job(std::uint64_t job_id, const CopyMoment& moment) override {
    return std::make_unique<JobCopying>(*jobs_, all_cores(), copies_, job_id, moment);
  }
  std::vector<CoreCounters> core_counters() const override;
  std::vector<DropCounter> drops() const override;

 private:
  const Cores& all_cores() const { return cores_->cores(); }

  const DataPlaneOptions options_;
  const std::uint64_t start_ticks_ = ticks();
  const TickRate rate_ = TickRate::measure();
  boost::asio::io_context context_{1};
  std::unique_ptr<CoreSet> cores_;
  // Sets connections up: not on the thread that shakes hands, which nobody may keep from it.
  // Outlives the jobs, whose strands are its.
  static constexpr std::size_t kSetupThreads = 4;
  boost::asio::thread_pool setups_{kSetupThreads};
  std::optional<PlaneJobs> jobs_;
  CopyQueue copies_;
  std::optional<WorkerAdmission> admission_;
  std::optional<RackConnections> racks_;
  std::string shm_socket_;
  std::unique_ptr<Acceptor> acceptor_;
  std::thread thread_;  // runs context_
};

PinnedDataPlane::~PinnedDataPlane() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
  setups_.join();
  acceptor_.reset();
  if (jobs_) jobs_->for_each([](PlaneJob& job) { job.detach(); });
}

Status PinnedDataPlane::open(MembershipListener& membership) {
  PHUB_ASSIGN_OR_RETURN(cores_, CoreSet::create(options_, context_, membership));
  jobs_.emplace(*cores_,
                Offered{.windows = !cores_->ports().empty(),
                        .sealing = options_.encrypt_tcp,
                        .staging = options_.tcp},
                options_.memory_limit_bytes);
  admission_.emplace(*cores_, *jobs_, membership);
  if (options_.shm) {
    const transport::Nonce nonce = transport::random_nonce();
    shm_socket_ = "phub-" + std::to_string(::getpid()) + "-";
    for (std::size_t i = 0; i < 4; ++i) shm_socket_ += std::to_string(nonce[i]);
  }
  PHUB_ASSIGN_OR_RETURN(auto congestion_control,
                        transport::CongestionControl::parse(options_.tcp_congestion_control));
  congestion_control.bound_buffers(options_.tcp_buffer_kib);
  racks_.emplace(*cores_, *jobs_, congestion_control);
  PHUB_ASSIGN_OR_RETURN(acceptor_,
                        Acceptor::create({.tcp_address = options_.tcp ? options_.tcp_address : "",
                                          .congestion_control = congestion_control,
                                          .encrypt_tcp = options_.encrypt_tcp,
                                          .shm_socket = shm_socket_,
                                          .places = descriptor_shares().handshakes},
                                         context_, *admission_));
  thread_ = std::thread([this] { context_.run(); });
  return {};
}

// What the job and its workers had mapped goes here, on the caller's thread.
void PinnedDataPlane::remove_job(std::uint64_t job_id) {
  if (const PlaneJobs::Pointer job = jobs_->extract(job_id)) job->detach();
}

std::vector<CorePort> PinnedDataPlane::verbs_ports() const {
  std::vector<CorePort> identities;
  for (const OpenPort& port : cores_->ports()) identities.push_back(port.identity);
  return identities;
}

std::optional<JobCounters> PinnedDataPlane::job_counters(std::uint64_t job_id) const {
  std::optional<JobCounters> counters;
  jobs_->with(job_id, [&](const PlaneJob& job) { counters = job.counters(); });
  return counters;
}

std::vector<CoreRounds> PinnedDataPlane::job_rounds(std::uint64_t job_id,
                                                    std::size_t rounds) const {
  std::vector<CoreRounds> result;
  jobs_->with(job_id, [&](const PlaneJob& job) {
    for (std::uint32_t i = 0; i < cores(); ++i) {
      const JobOnCore& on_core = *job.on_cores()[i];
      if (on_core.shard.chunks() == 0) continue;
      CoreRounds& core = result.emplace_back(CoreRounds{.core = i, .records = {}});
      all_cores()[i]->call([&] { core.records = on_core.times.log().last(rounds); });
    }
  });
  for (CoreRounds& core : result) {
    for (RoundRecord& record : core.records) convert(record, start_ticks_, rate_);
  }
  return result;
}

std::vector<CoreCounters> PinnedDataPlane::core_counters() const {
  std::vector<CoreCounters> counters;
  for (const auto& core : all_cores()) counters.push_back(core->counters());
  jobs_->for_each([&](const PlaneJob& job) {
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const JobOnCore& on_core = *job.on_cores()[i];
      if (on_core.shard.chunks() > 0) counters[i].jobs.push_back(counters_of(on_core, rate_));
    }
  });
  return counters;
}

std::vector<DropCounter> PinnedDataPlane::drops() const {
  std::vector<DropCounter> result;
  for (std::size_t i = 0; i < kDropNames.size(); ++i) {
    std::uint64_t count = acceptor_->drops().value(static_cast<Drop>(i));
    for (const auto& core : all_cores()) count += core->drops().value(static_cast<Drop>(i));
    result.push_back({kDropNames[i], count});
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<DataPlane>> DataPlane::create(const DataPlaneOptions& options,
                                                     MembershipListener& membership) {
  auto plane = std::make_unique<PinnedDataPlane>(options);
  PHUB_RETURN_IF_ERROR(plane->open(membership));
  return std::unique_ptr<DataPlane>(std::move(plane));
}

}  // namespace phub::server
