#include "server/directory/etcd_directory.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>
#include <utility>

#include "common/base/log_value.h"
#include "common/base/rack.h"
#include "common/rpc/address.h"
#include "common/rpc/status.h"

namespace phub::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPauseMin{100};
constexpr milliseconds kPauseMax{5000};
constexpr std::chrono::seconds kWatchLife{600};
constexpr int kBeatsOfLease = 3;
// What a list reads beyond the servers that can be known.
constexpr std::size_t kKeysReadMax = 2 * kRackServersMax;

constexpr char kNotAskedYet[] = "etcd has not been asked yet";

// As `announced` says, where the configuration leaves the port open.
std::string with_port(const std::string& address, const std::string& announced) {
  auto own = parse_address(address);
  const auto other = parse_address(announced);
  if (!own) return address;
  if (own->port == 0 && other) own->port = other->port;
  return to_string(*own);
}

}  // namespace

Result<std::unique_ptr<Directory>> EtcdDirectory::create(const DirectoryOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto calls, EtcdCalls::create(*options.etcd));
  return std::unique_ptr<Directory>(new EtcdDirectory(options, std::move(calls)));
}

EtcdDirectory::EtcdDirectory(const DirectoryOptions& options, std::unique_ptr<EtcdCalls> calls)
    : options_(*options.etcd),
      calls_(std::move(calls)),
      known_(options_.prefix, kRackServersMax, kRacksMax),
      own_{.rack = options.rack, .address = options.address},
      trouble_(kNotAskedYet),
      member_(calls_->endpoint()) {}

EtcdDirectory::~EtcdDirectory() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  woken_.notify_all();
  calls_->stop();
  if (thread_.joinable()) thread_.join();
}

void EtcdDirectory::announce(const std::string& control_address) {
  {
    const std::lock_guard lock(mutex_);
    own_.address = with_port(own_.address, control_address);
    racks_ = known_.racks(own_);
  }
  thread_ = std::thread([this] { run(); });
}

std::vector<RackEntry> EtcdDirectory::racks() const {
  const std::lock_guard lock(mutex_);
  return racks_;
}

std::string EtcdDirectory::own_address() const {
  const std::lock_guard lock(mutex_);
  return own_.address;
}

void EtcdDirectory::on_change(std::function<void()> changed) {
  const std::lock_guard lock(change_mutex_);
  changed_ = std::move(changed);
}

DirectoryStatus EtcdDirectory::status() const {
  const std::lock_guard lock(mutex_);
  DirectoryStatus status{.source = "etcd at " + member_, .keys_left_out = keys_left_out_};
  if (!trouble_.empty()) {
    status.trouble = trouble_;
    status.troubled_for = std::chrono::duration_cast<milliseconds>(Clock::now() - troubled_since_);
  }
  return status;
}

bool EtcdDirectory::wait_until(Clock::time_point time) {
  std::unique_lock lock(mutex_);
  woken_.wait_until(lock, time, [this] { return is_woken_ || is_stopping_; });
  is_woken_ = false;
  return !is_stopping_;
}

void EtcdDirectory::wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  woken_.notify_all();
}

// Pauses grow while nothing comes of it, and differ between servers that have lost the same etcd.
void EtcdDirectory::run() {
  std::minstd_rand random{std::random_device{}()};
  milliseconds pause = kPauseMin;
  while (true) {
    const Status ended = session();
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) break;
      if (trouble_.empty()) pause = kPauseMin;  // the session had begun
    }
    if (ended.ok()) continue;
    note_trouble(ended);
    calls_->use_next_member();
    std::uniform_int_distribution<milliseconds::rep> jitter(pause.count() / 2, pause.count());
    const auto again = Clock::now() + milliseconds(jitter(random));
    while (wait_until(again) && Clock::now() < again) {
    }
    // Where some calls succeed the lease is kept by them.
    pause = std::min({2 * pause, kPauseMax, milliseconds(options_.lease) / kBeatsOfLease});
  }
  if (lease_.id == 0 || !status().trouble.empty()) return;
  const Status left = calls_->revoke(lease_.id);
  if (!left.ok()) spdlog::warn("event=directory_lease_left reason={}", log_value(left.message()));
}

Status EtcdDirectory::session() {
  PHUB_RETURN_IF_ERROR(calls_->authenticate());
  PHUB_RETURN_IF_ERROR(register_self());
  PHUB_ASSIGN_OR_RETURN(const std::int64_t revision, list());
  publish();
  note_success();
  return watch(revision + 1);
}

// The key is put again in each session: somebody may have removed it, or an etcd forgotten it.
Status EtcdDirectory::register_self() {
  if (lease_.id != 0) {
    PHUB_ASSIGN_OR_RETURN(lease_, calls_->keep_alive(lease_.id));
    if (lease_.lasts.count() <= 0) lease_ = {};
  }
  if (lease_.id == 0) {
    PHUB_ASSIGN_OR_RETURN(lease_, calls_->grant_lease());
  }
  PHUB_RETURN_IF_ERROR(calls_->put(server_key(options_.prefix, own_), lease_.id));
  is_registered_ = true;
  return {};
}

// What was known stays until all of it has been read.
Result<std::int64_t> EtcdDirectory::list() {
  ServerKeys found(options_.prefix, kRackServersMax, kRacksMax);
  PHUB_ASSIGN_OR_RETURN(const EtcdCalls::Listed listed,
                        calls_->list(kKeysReadMax, [&found](const etcdserverpb::KeyValue& entry) {
                          found.put(entry.key(), entry.mod_revision());
                        }));
  known_ = std::move(found);
  is_listed_ = true;
  note_left_out(listed.keys - std::min<std::uint64_t>(listed.keys, known_.size()));
  return listed.revision;
}

Status EtcdDirectory::watch(std::int64_t from_revision) {
  EtcdWatch changes(*calls_, from_revision, kWatchLife, [this] { wake(); });
  const auto interval = [this] { return milliseconds(lease_.lasts) / kBeatsOfLease; };
  auto next_beat = Clock::now() + interval();
  while (wait_until(next_beat)) {
    bool has_changed = false;
    while (Clock::now() < next_beat) {
      const auto response = changes.take();
      if (!response) break;
      PHUB_RETURN_IF_ERROR(apply(*response));
      has_changed = true;
    }
    if (has_changed) publish();
    if (const auto ended = changes.ended()) {
      if (ended->error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return {};  // its life
      return from_grpc(*ended).with_context("etcd at " + calls_->endpoint() + ": the watch ended");
    }
    if (Clock::now() < next_beat) continue;
    PHUB_RETURN_IF_ERROR(beat());
    if (!is_listed_) return {};
    next_beat = Clock::now() + interval();
    wake();  // a response may have come meanwhile
  }
  return {};
}

Status EtcdDirectory::beat() {
  if (!is_registered_) return register_self();
  PHUB_ASSIGN_OR_RETURN(lease_, calls_->keep_alive(lease_.id));
  if (lease_.lasts.count() > 0) return {};
  lease_ = {};  // it was over: etcd has not heard of us for too long
  return register_self();
}

Status EtcdDirectory::apply(const etcdserverpb::WatchResponse& response) {
  if (response.canceled() || response.compact_revision() != 0) {
    return {Code::kUnavailable, fmt::format("etcd at {}: the watch was refused: {}",
                                            calls_->endpoint(), response.cancel_reason())};
  }
  for (const auto& event : response.events()) apply(event);
  return {};
}

void EtcdDirectory::apply(const etcdserverpb::Event& event) {
  const std::string& key = event.kv().key();
  const bool is_put = event.type() == etcdserverpb::Event::PUT;
  const auto change = is_put ? known_.put(key, event.kv().mod_revision()) : known_.remove(key);
  if (change == ServerKeys::Change::kLeftOut) is_listed_ = false;
  if (!is_put && key == server_key(options_.prefix, own_)) is_registered_ = false;
}

void EtcdDirectory::publish() {
  std::vector<RackEntry> racks = known_.racks(own_);
  if (racks == this->racks()) return;
  std::size_t servers = 0;
  for (const RackEntry& rack : racks) servers += rack.servers.size();
  spdlog::info("event=directory_changed racks={} servers={}", racks.size(), servers);
  {
    const std::lock_guard lock(mutex_);
    racks_ = std::move(racks);
  }
  const std::lock_guard lock(change_mutex_);
  if (changed_) changed_();
}

void EtcdDirectory::note_left_out(std::uint64_t keys) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(keys_left_out_, keys) == keys) return;
  }
  spdlog::warn("event=directory_keys_left_out keys={} prefix={}", keys, log_value(options_.prefix));
}

void EtcdDirectory::note_trouble(const Status& why) {
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    is_new = !is_away_;
    is_away_ = true;
    if (trouble_.empty()) troubled_since_ = Clock::now();
    trouble_ = why.message();
  }
  if (is_new) spdlog::warn("event=directory_away reason={}", log_value(why.message()));
}

void EtcdDirectory::note_success() {
  bool was_away = false;
  {
    const std::lock_guard lock(mutex_);
    was_away = !trouble_.empty();
    is_away_ = false;
    trouble_.clear();
    member_ = calls_->endpoint();
  }
  if (was_away) spdlog::info("event=directory_reached etcd={}", log_value(calls_->endpoint()));
}

}  // namespace phub::server
