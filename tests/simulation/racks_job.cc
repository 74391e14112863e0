#include "tests/simulation/racks_job.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "tests/support/nested_names.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::simulation {
namespace {
constexpr std::size_t kHurriedBytes = std::size_t{1} << 16;
}

RacksJob::RacksJob(RacksJobOptions options, Random& random)
    : options_(std::move(options)), random_(random) {
  const auto count = static_cast<std::uint32_t>(options_.cores.size());
  trees_ = make_rack_trees(testing::nested_names(count), options_.shape);
  PlanInput input;
  input.key_elements = options_.key_elements;
  input.wire_type = options_.wire_type;
  input.chunk_bytes = options_.chunk_bytes;
  input.cores_per_server = {1};
  input.whole_keys = needs_whole_keys(options_.rule);
  input.rack_trees = static_cast<std::uint32_t>(trees_.size());
  input.small_key_trees = small_key_trees(count, options_.shape);
  input.small_key_bytes = options_.hybrid_bytes;
  plan_ = std::make_shared<const Plan>(std::move(*make_plan(input)));
  racks_.resize(count);
  for (std::uint32_t rack = 0; rack < count; ++rack) add_rack(rack);
  for (std::uint32_t from = 0; from < count; ++from) {
    for (std::uint32_t to = 0; to < count; ++to) {
      if (from != to) connect(from, to);
    }
  }
  rounds_ = std::make_unique<RacksRounds>(
      racks_[0].layout, options_.workers, trees_,
      [this](const auto& from, std::uint32_t key, std::uint64_t i, std::uint32_t round) {
        return value(from, key, i, round);
      },
      [this](std::uint32_t round) { return words_of(round); });
}

RacksJob::~RacksJob() {
  for (Rack& rack : racks_) detach(rack);
}

void RacksJob::add_rack(std::uint32_t index) {
  Rack& rack = racks_[index];
  server::JobLayout& layout = rack.layout;
  layout.job_id = id();
  layout.tenant_id = options_.tenant;
  layout.weight = options_.weight;
  layout.epoch = epoch(index);
  layout.workers = options_.workers[index];
  layout.wire_type = options_.wire_type;
  layout.rule = options_.rule;
  layout.hyper = {.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F};
  layout.weight_decay.assign(options_.key_elements.size(), 0.01F);
  layout.lars = {.coefficient = 0.02F, .epsilon = 1e-6F};
  layout.adaptive.epsilon = 1e-6;
  layout.loss_scale = {.kind = options_.loss_scaling, .factor = scale(1)};
  layout.plan = plan_;
  layout.rack_wire_type = options_.rack_wire_type;
  if (options_.compresses) layout.rack_compress = {.density = 1.0F, .dense_below = 1};
  if (racks() > 1) layout.rack = {racks(), index, trees_};
  rack.memory = std::move(*server::JobMemory::create(layout));
  rack.on_core = std::move(*server::JobOnCore::create(layout, 0, rack.memory));
  rack.copies = std::make_unique<RackCopies>(layout, *rack.on_core);
  if (random_.one_in(2)) rack.on_core->limit_staging(random_.between(1, 6));
  rack.reported.resize(server::seats(layout));
  rack.workers.resize(layout.workers);
  for (std::uint32_t i = 0; i < layout.workers; ++i) {
    Worker& worker = rack.workers[i];
    auto [own, cores] = transport::stream_pair();
    const Status status =
        options_.cores[index]->attachments().connect_tcp(rack.on_core.get(), i, std::move(cores));
    PHUB_CHECK(status.ok(), "room for a worker");
    worker.end = std::make_unique<StreamEnd>(std::move(own));
    worker.order.resize(chunks());
    std::iota(worker.order.begin(), worker.order.end(), 0U);
    if (random_.one_in(2)) std::shuffle(worker.order.begin(), worker.order.end(), random_.engine());
    worker.pushed.resize(chunks());
    worker.replied.resize(chunks());
  }
}

void RacksJob::connect(std::uint32_t from, std::uint32_t to) {
  auto [below, below_middle] = transport::stream_pair();
  auto [above, above_middle] = transport::stream_pair();
  Rack& upper = racks_[to];
  const std::uint32_t seat = upper.layout.rack.seat_of(from, upper.layout.workers);
  Status status =
      options_.cores[to]->attachments().connect_tcp(upper.on_core.get(), seat, std::move(above));
  PHUB_CHECK(status.ok(), "room for the rack below");
  status = options_.cores[from]->attachments().connect_rack(racks_[from].on_core.get(),
                                                            {to, epoch(to)}, std::move(below));
  PHUB_CHECK(status.ok(), "room for the rack above");
  streams_.push_back(std::make_unique<RackStream>(
      RackStream::Way{.below = from, .above = to, .chunks = chunks(), .rounds = options_.rounds},
      std::move(below_middle), std::move(above_middle)));
}

// ---- what is pushed --------------------------------------------------------------------------

std::uint64_t RacksJob::mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) const {
  std::uint64_t hash = id() * 0x9E3779B97F4A7C15ULL;
  for (const std::uint64_t word : {a, b, c}) {
    hash = (hash ^ word) * 0xBF58476D1CE4E5B9ULL;
    hash ^= hash >> 29U;
  }
  return hash;
}

// Of many sizes and both signs, so that another order of a sum has other bits; now and then one of
// a round overflows where the job looks for that.
float RacksJob::value(const RacksRounds::Source& from, std::uint32_t key, std::uint64_t i,
                      std::uint32_t round) const {
  const bool looks = options_.loss_scaling != LossScaling::kNone && round > 0;
  if (looks && i == 0 && mixed(round, 1) % 4 == 0) {
    const std::uint64_t one = mixed(round, 2);
    const auto rack = static_cast<std::uint32_t>(one % racks());
    if (from.rack == rack && from.worker == (one >> 16U) % options_.workers[rack] &&
        key == (one >> 32U) % options_.key_elements.size()) {
      return std::numeric_limits<float>::infinity();
    }
  }
  const std::uint64_t bits = mixed((std::uint64_t{from.rack} << 32U) | from.worker,
                                   (std::uint64_t{round} << 32U) | key, i);
  const auto mantissa = static_cast<float>(static_cast<std::int32_t>(bits >> 40U) - (1 << 23));
  const float size = std::ldexp(1.0F, static_cast<int>(bits & 7U) - 27);
  return mantissa * size * (round > 0 ? scale(round) : 1.0F);
}

float RacksJob::scale(std::uint32_t round) const {
  if (options_.loss_scaling == LossScaling::kNone) return 1.0F;
  return static_cast<float>(1U << (mixed(votes() ? round : 0, 3) % 5));
}

bool RacksJob::overflows(std::uint32_t rack, std::uint32_t worker, std::uint32_t round) const {
  return votes() && round > 0 && mixed(round, 4, (std::uint64_t{rack} << 32U) | worker) % 13 == 0;
}

bool RacksJob::changes_hyper(std::uint32_t round) const { return mixed(round, 5) % 3 == 0; }

Hyper RacksJob::hyper_of(std::uint32_t round) const {
  for (std::uint32_t since = round + 1; since-- > 0;) {
    if (!changes_hyper(since)) continue;
    const std::uint64_t bits = mixed(since, 6);
    return {.learning_rate = 0.1F * static_cast<float>(1 + bits % 7),
            .momentum = 0.1F * static_cast<float>(bits / 7 % 10),
            .gradient_scale = 0.125F * static_cast<float>(1 + bits / 70 % 5)};
  }
  return racks_[0].layout.hyper;
}

RoundWords RacksJob::words_of(std::uint32_t round) const {
  RoundWords words{.hyper = hyper_of(round), .votes = {.loss_scale = scale(round)}};
  for (std::uint32_t rack = 0; rack < racks(); ++rack) {
    for (std::uint32_t worker = 0; worker < options_.workers[rack]; ++worker) {
      words.votes.overflow = words.votes.overflow || overflows(rack, worker, round);
    }
  }
  return words;
}

// ---- workers and streams ---------------------------------------------------------------------

std::string RacksJob::step() {
  if (!streams_.empty()) {
    const auto count = static_cast<std::uint32_t>(streams_.size());
    for (std::uint32_t some = random_.between(1, 1 + count / 3); some > 0; --some) {
      const std::size_t most = random_.one_in(4) ? random_.between(1, 60) : kHurriedBytes;
      progress_ += streams_[random_.below(count)]->pump(most);
    }
  }
  for (std::uint32_t some = random_.between(1, 2 * racks()); some > 0; --some) {
    const std::uint32_t rack = random_.below(racks());
    auto wrong = step(rack, random_.below(options_.workers[rack]));
    if (!wrong.empty()) return wrong;
  }
  return copy_some();
}

std::string RacksJob::hurry() {
  hurries_ = true;
  for (const auto& stream : streams_) progress_ += stream->pump(kHurriedBytes);
  for (std::uint32_t rack = 0; rack < racks(); ++rack) {
    for (std::uint32_t index = 0; index < options_.workers[rack]; ++index) {
      if (auto wrong = step(rack, index); !wrong.empty()) return wrong;
    }
  }
  return copy_some();
}

void RacksJob::change_mood(Worker& worker) {
  worker.most_bytes = SIZE_MAX;
  switch (random_.below(6)) {
    case 0:
      worker.asleep = random_.between(1, 30);
      break;
    case 1:
      worker.most_bytes = random_.between(1, 100);
      break;
    default:
      break;
  }
}

std::string RacksJob::step(std::uint32_t rack, std::uint32_t index) {
  Worker& worker = racks_[rack].workers[index];
  if (worker.dead) return {};
  if (hurries_) {
    worker.asleep = 0;
    worker.most_bytes = SIZE_MAX;
  }
  if (worker.asleep > 0) return --worker.asleep, std::string();
  if (!hurries_ && random_.one_in(8)) change_mood(worker);
  push_some(rack, index);
  if (votes()) vote_if_due(rack, index);
  progress_ += worker.end->pump(worker.most_bytes);
  return take_replies(rack, index);
}

// Begins pushes of chunks whose last reply is there, a few at a time, in its order.
void RacksJob::push_some(std::uint32_t rack, std::uint32_t index) {
  Worker& worker = racks_[rack].workers[index];
  const bool leads = rack == 0 && index == 0;
  std::uint32_t room = random_.between(1, 8);
  for (const std::uint32_t slot : worker.order) {
    if (room == 0) return;
    const std::uint32_t round = worker.pushed[slot];
    if (round == options_.rounds || round > worker.replied[slot]) continue;
    if (leads && !has_said_hyper(worker, round)) continue;
    const auto payload = rounds_->push({rack, index}, slot, round);
    worker.end->send_later(bytes_of(wire::immediate(slot, epoch(rack)), payload));
    ++worker.pushed[slot];
    ++progress_;
    --room;
  }
}

// Worker 0 says them while none of its pushes is outstanding.
bool RacksJob::has_said_hyper(Worker& worker, std::uint32_t round) {
  if (!changes_hyper(round) || said_ > round) return true;
  const auto is_behind = [&](std::uint32_t rounds) { return rounds != round; };
  if (std::any_of(worker.replied.begin(), worker.replied.end(), is_behind) ||
      std::any_of(worker.pushed.begin(), worker.pushed.end(), is_behind)) {
    return false;
  }
  said_ = round + 1;
  const Hyper hyper = hyper_of(round);
  worker.end->send_later(
      bytes_of(wire::immediate(wire::kHyperSlot, epoch(0)), std::as_bytes(std::span(&hyper, 1))));
  return true;
}

// When all of a round is pushed; nobody votes on the first one, of parameters.
void RacksJob::vote_if_due(std::uint32_t rack, std::uint32_t index) {
  Worker& worker = racks_[rack].workers[index];
  const std::uint32_t rounds = *std::min_element(worker.pushed.begin(), worker.pushed.end());
  if (rounds < worker.voted + 2) return;
  ++worker.voted;
  const Vote vote{.loss_scale = scale(worker.voted),
                  .overflow = overflows(rack, index, worker.voted) ? 1U : 0U};
  worker.end->send_later(
      bytes_of(wire::immediate(wire::kVoteSlot, epoch(rack)), std::as_bytes(std::span(&vote, 1))));
}

std::string RacksJob::take_replies(std::uint32_t rack, std::uint32_t index) {
  Worker& worker = racks_[rack].workers[index];
  std::vector<Frame> frames;
  progress_ += worker.end->take(std::min(worker.most_bytes, kHurriedBytes), frames);
  for (const Frame& frame : frames) {
    const std::uint32_t slot = wire::reply_slot_of(frame.immediate);
    const std::string where = "job " + std::to_string(id()) + ", rack " + std::to_string(rack) +
                              ", worker " + std::to_string(index) + ", chunk " +
                              std::to_string(slot) + ": ";
    if (!wire::same_epoch(frame.immediate, epoch(rack))) return where + "another epoch";
    if (slot >= chunks()) return where + "there is no such chunk";
    const std::uint32_t round = worker.replied[slot]++;
    if (is_spoilt()) continue;
    if (round >= worker.pushed[slot]) return where + "a reply to nothing";
    const RacksRounds::Reply& expected = rounds_->reply(slot, round);
    if (frame.payload != expected.payload) {
      return where + "round " + std::to_string(round) + " has other bits";
    }
    if (wire::was_skipped(frame.immediate) != expected.skipped) {
      return where + "round " + std::to_string(round) + ": skipped, or not";
    }
  }
  return {};
}

// ---- the end ---------------------------------------------------------------------------------

bool RacksJob::is_done() const {
  return std::all_of(racks_.begin(), racks_.end(), [&](const Rack& rack) {
    return std::all_of(rack.workers.begin(), rack.workers.end(), [&](const Worker& worker) {
      return std::all_of(worker.replied.begin(), worker.replied.end(),
                         [&](std::uint32_t rounds) { return rounds == options_.rounds; });
    });
  });
}

// A rack has said something twice. Until that is found out, if it ever is, replies are of pushes
// that were meant for other rounds.
bool RacksJob::is_spoilt() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->was_repeated(); });
}

// Nothing is kept for anybody.
bool RacksJob::is_quiet() const {
  return std::all_of(racks_.begin(), racks_.end(), [](const Rack& rack) {
    return rack.on_core->staging->in_use() == 0 && rack.on_core->arrivals.empty();
  });
}

void RacksJob::reap(bool at_once) {
  const bool is_ended = !failed_ && is_done() && (is_spoilt() || is_quiet());
  const bool is_ending =
      std::any_of(racks_.begin(), racks_.end(), [](const Rack& rack) { return rack.detached; });
  for (std::uint32_t i = 0; i < racks(); ++i) {
    Rack& rack = racks_[i];
    const bool goes = rack.lost || is_ended || (is_ending && !failed_);
    if (!rack.detached && goes && (at_once || random_.one_in(4))) detach(rack);
  }
}

void RacksJob::detach(Rack& rack) {
  if (std::exchange(rack.detached, true)) return;
  const auto index = static_cast<std::size_t>(&rack - racks_.data());
  options_.cores[index]->attachments().detach(rack.on_core.get());
  ++progress_;
}

bool RacksJob::is_over() const {
  return std::all_of(racks_.begin(), racks_.end(), [](const Rack& rack) { return rack.detached; });
}

std::uint32_t RacksJob::stale_sent() const {
  std::uint32_t sent = 0;
  for (const auto& stream : streams_) sent += stream->stale_sent();
  return sent;
}

std::string RacksJob::on_lost(const server::Core& core, const server::LossEvent& event,
                              Causes& causes) {
  const auto at = std::find(options_.cores.begin(), options_.cores.end(), &core);
  const auto index = static_cast<std::uint32_t>(at - options_.cores.begin());
  Rack& rack = racks_[index];
  const std::string who = "job " + std::to_string(id()) + ", rack " + std::to_string(index) +
                          ", seat " + std::to_string(event.worker) + ": ";
  const bool is_closed = event.reason == "its connection closed";
  failed_ = failed_ || !is_done();
  rack.lost = true;
  ++progress_;
  if (!rack.on_core->shard.stopped()) return who + "lost, and the job goes on";
  if (event.worker < options_.workers[index]) {
    const Worker& worker = rack.workers[event.worker];
    causes = worker.causes;
    return worker.dead || !causes.empty() ? "" : who + "no worker of this rack is lost";
  }
  const std::uint32_t other = rack.layout.rack.rack_at(event.worker, options_.workers[index]);
  for (const auto& stream : streams_) {
    const RackStream::Way& way = stream->way();
    const bool is_up = way.below == index && way.above == other;
    if (!is_up && (way.above != index || way.below != other)) continue;
    const auto side = is_up ? RackStream::kBelow : RackStream::kAbove;
    if (is_closed && stream->is_lost_for(side)) return {};
    if (!is_closed) causes.add(stream->causes(side));  // of either of the two
  }
  if (!causes.empty()) return {};
  return who + "nothing is wrong with rack " + std::to_string(other) + " (" +
         std::string(event.reason) + ")";
}

std::string RacksJob::state() const {
  std::string text = "job " + std::to_string(id()) + (failed_ ? ", failed" : "") +
                     (is_done() ? ", done" : "") + ", " + std::string(name_of(options_.shape)) +
                     ":";
  for (const Rack& rack : racks_) {
    text += rack.detached                   ? " away"
            : rack.lost                     ? " lost"
            : rack.on_core->shard.stopped() ? " stopped"
                                            : " alive";
    text += "(" + std::to_string(rack.on_core->staging->in_use()) + ")";
  }
  return text;
}

}  // namespace phub::simulation
