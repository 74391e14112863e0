#include "server/doctor/peer/peer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "common/base/version.h"
#include "common/transport/link/link_end.h"
#include "server/doctor/peer/blocks.h"
#include "server/doctor/peer/client.h"
#include "server/doctor/peer/end.h"

namespace phub::doctor {
namespace {

using Stub = doctor_wire::Doctor::Stub;

constexpr std::uint32_t kFirstPings = 16;
constexpr std::uint32_t kMostPings = 1U << 20U;
constexpr std::uint32_t kMostBursts = 1U << 16U;
constexpr double kGrowth = 8.0;

// How many fit in the time that is left, when `count` of them took `elapsed`.
std::uint32_t next_count(std::uint32_t count, double elapsed, double left, std::uint32_t most) {
  const double wanted = count * std::min(kGrowth, left / std::max(elapsed, 1e-9));
  return static_cast<std::uint32_t>(std::clamp(std::ceil(wanted), 1.0, static_cast<double>(most)));
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename Reply>
Status status_of(const Result<Reply>& reply) {
  return reply ? Status() : reply.error();
}

// The peer's part of a measurement: leads the listener through it.
class Trial {
 public:
  Trial(const MeetOptions& options, DoctorClient& client) : options_(options), client_(client) {}

  // Over this port, or over tcp without one.
  LinkTrial run(const RdmaEnd* rdma) {
    rdma_ = rdma;
    trial_ = {};
    trial_.status = open();
    const bool is_open = trial_.status.ok();
    if (is_open) trial_.status = connect();
    if (trial_.status.ok()) trial_.status = measure();
    if (is_open) {
      const Status closed = close();
      if (trial_.status.ok()) trial_.status = closed;
    }
    link_.reset();
    if (!trial_.status.ok() && *options_.limits.stop) trial_.status = check_stop(options_.limits);
    return std::move(trial_);
  }

 private:
  Status open() {
    show("connecting");
    if (rdma_ != nullptr) before_ = counters_of(options_.paths, *rdma_);
    doctor_wire::Link link;
    link.set_verbs(rdma_ != nullptr);
    return status_of(client_.call(&Stub::AsyncOpen, link));
  }

  Status connect() {
    transport::LinkOptions link{.device = nullptr,
                                .bytes = kChunkBytes,
                                .depth = kLinkDepth,
                                .patience = options_.limits.silence,
                                .interrupted = [this] { return check_stop(options_.limits); }};
    const auto make = [&]() -> Status {
      if (rdma_ != nullptr) {
        PHUB_ASSIGN_OR_RETURN(
            link.device,
            transport::verbs::open_device(rdma_->device, static_cast<std::uint8_t>(rdma_->port),
                                          static_cast<std::uint8_t>(rdma_->gid.index)));
      }
      PHUB_ASSIGN_OR_RETURN(UniqueFd socket, connect_to(options_.address, options_.limits));
      const std::string& token = client_.welcome().token();
      const long sent = ::send(socket.get(), token.data(), token.size(), MSG_NOSIGNAL);
      if (sent != static_cast<long>(token.size())) return errno_status("send", Code::kUnavailable);
      PHUB_ASSIGN_OR_RETURN(link_, transport::LinkEnd::create(link, 0, std::move(socket)));
      return {};
    };
    const auto call = client_.start(&Stub::AsyncConnect, doctor_wire::Nothing());
    const Status made = make();
    const Status theirs = status_of(client_.finish(*call));
    return made.ok() || (made.code() == Code::kUnavailable && !theirs.ok()) ? theirs : made;
  }

  Status measure() {
    show("ping-pong");
    PHUB_ASSIGN_OR_RETURN(trial_.ping_seconds, half_round_trip(kPingBytes));
    PHUB_ASSIGN_OR_RETURN(trial_.chunk_seconds, half_round_trip(kChunkBytes));
    if (options_.has_messages) {
      show("messages to it");
      PHUB_ASSIGN_OR_RETURN(trial_.message_seconds,
                            seconds_per_write(doctor_wire::Block::TO_LISTENER, kPingBytes));
    }
    show("bandwidth to it");
    PHUB_ASSIGN_OR_RETURN(trial_.bytes_per_second_there,
                          bytes_per_second(doctor_wire::Block::TO_LISTENER));
    show("bandwidth from it");
    PHUB_ASSIGN_OR_RETURN(trial_.bytes_per_second_back,
                          bytes_per_second(doctor_wire::Block::TO_PEER));
    return {};
  }

  Status close() {
    PHUB_ASSIGN_OR_RETURN(const doctor_wire::Found found,
                          client_.call(&Stub::AsyncClose, doctor_wire::Nothing()));
    trial_.verified_here = link_ && link_->verified();
    trial_.verified_there = found.verified();
    for (const doctor_wire::Counter& counter : found.risen()) {
      trial_.risen_there.push_back({printable(counter.name(), 64), counter.value()});
    }
    if (rdma_ != nullptr) {
      trial_.risen_here = risen(before_, counters_of(options_.paths, *rdma_));
    }
    return {};
  }

  // The median, in seconds.
  Result<double> half_round_trip(std::uint32_t bytes) {
    const double wanted = options_.seconds / 2;  // there are two sizes
    double taken = 0.0;
    halves_.clear();
    for (std::uint32_t count = kFirstPings; taken < wanted;) {
      if (count != kFirstPings && halves_.size() == kFirstPings) halves_.clear();  // the warm-up
      PHUB_ASSIGN_OR_RETURN(const double elapsed,
                            block(doctor_wire::Block::PING_PONG, count, bytes));
      taken += elapsed;
      count = next_count(count, elapsed, wanted - taken, kMostPings);
    }
    return median(halves_);
  }

  Result<double> bytes_per_second(doctor_wire::Block::Kind direction) {
    PHUB_ASSIGN_OR_RETURN(const double seconds, seconds_per_write(direction, kChunkBytes));
    return kChunkBytes / seconds;
  }

  // In bursts; of the longest block, which is one of the last.
  Result<double> seconds_per_write(doctor_wire::Block::Kind direction, std::uint32_t bytes) {
    double taken = 0.0;
    double best = 0.0;
    double longest = 0.0;
    std::uint64_t left = std::max<std::uint64_t>(
        kLeastBursts, options_.bytes / (std::uint64_t{kBurst} * kChunkBytes));
    for (std::uint32_t count = kLeastBursts; taken < options_.seconds && left > 0;) {
      PHUB_ASSIGN_OR_RETURN(const double elapsed, block(direction, count, bytes));
      taken += elapsed;
      left -= count;
      if (elapsed > longest) best = elapsed / (static_cast<double>(count) * kBurst);
      longest = std::max(longest, elapsed);
      count = next_count(count, elapsed, options_.seconds - taken, kMostBursts);
      count = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, left));
    }
    return best;
  }

  // One block of `count`; how long it took, in seconds.
  Result<double> block(doctor_wire::Block::Kind kind, std::uint32_t count, std::uint32_t bytes) {
    doctor_wire::Block block;
    block.set_kind(kind);
    block.set_count(count);
    block.set_bytes(bytes);
    const auto call = client_.start(&Stub::AsyncPlay, block);
    Status played = link_->receive(1);  // it is ready
    const auto start = Clock::now();
    if (played.ok()) played = play(kind, count, bytes);
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (!played.ok()) link_.reset();  // the other end notices, and answers
    const Status theirs = status_of(client_.finish(*call));
    PHUB_RETURN_IF_ERROR(played);
    PHUB_RETURN_IF_ERROR(theirs);
    return elapsed;
  }

  Status play(doctor_wire::Block::Kind kind, std::uint32_t count, std::uint32_t bytes) {
    if (kind == doctor_wire::Block::PING_PONG) return ping(*link_, count, bytes, halves_);
    return kind == doctor_wire::Block::TO_LISTENER ? send_bursts(*link_, count, bytes)
                                                   : receive_bursts(*link_, count);
  }

  void show(const std::string& what) const {
    if (!options_.progress) return;
    options_.progress((rdma_ == nullptr ? "tcp: " : "verbs: ") + what);
  }

  const MeetOptions& options_;
  DoctorClient& client_;
  const RdmaEnd* rdma_ = nullptr;
  std::unique_ptr<transport::LinkEnd> link_;
  std::vector<Counter> before_;
  LinkTrial trial_;
  std::vector<double> halves_;
};

// The port here; with one there, the one that reaches it.
void choose_here(const MeetOptions& options, Meeting& meeting) {
  meeting.here.rdma = choose_end(options.paths, options.choices);
  if (!meeting.here.rdma.obstacle.empty() || !meeting.there.rdma.obstacle.empty()) return;
  auto end = choose_end_towards(options.paths, options.choices, meeting.there.rdma);
  if (end) {
    meeting.here.rdma = std::move(*end);
  } else {
    meeting.route = end.error();
  }
}

}  // namespace

Meeting meet(const MeetOptions& options) {
  Meeting meeting;
  meeting.address = options.address;
  meeting.here.host = host_name();
  meeting.here.software = kVersion;
  const auto client = DoctorClient::create(options);
  if (!client) {
    meeting.met = client.error();
    return meeting;
  }
  const doctor_wire::Welcome& welcome = (*client)->welcome();
  meeting.there.software = printable(welcome.software(), kMostHostBytes);
  meeting.there.host = printable(welcome.host(), kMostHostBytes);
  auto rdma = from_wire(welcome.port());
  if (!rdma) {
    meeting.met = rdma.error();
    return meeting;
  }
  meeting.there.rdma = std::move(*rdma);
  choose_here(options, meeting);
  Trial trial(options, **client);
  meeting.tcp = trial.run(nullptr);
  const bool has_verbs = options.has_verbs && meeting.here.rdma.obstacle.empty() &&
                         meeting.there.rdma.obstacle.empty() && meeting.route.ok();
  if (has_verbs && meeting.tcp->status.code() != Code::kAborted) {
    meeting.verbs = trial.run(&meeting.here.rdma);
  }
  return meeting;
}

}  // namespace phub::doctor
