// Clipping by the norm of all gradients of a job on several servers, whose cores are driven by hand
// and whose workers pass on what these tell.
#include <random>

#include "common/exchange/norm_relay.h"
#include "tests/support/server/shard_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::NormOutcome;
using server::PushResult;

// All cores of all servers of a job; what is pushed is staged.
class ServersRig {
 public:
  using Value = RuleSpecification::Value;

  ServersRig(JobLayout layout, const std::vector<std::uint32_t>& cores)
      : layout_(std::move(layout)) {
    layout_.plan =
        std::make_shared<const Plan>(std::move(*make_plan({.key_elements = {3, 5000, 17, 2000, 1},
                                                           .wire_type = layout_.wire_type,
                                                           .chunk_bytes = 4096,
                                                           .cores_per_server = cores})));
    for (std::uint32_t server = 0; server < cores.size(); ++server) {
      layout_.server_index = server;
      const auto memory = std::move(*server::JobMemory::create(layout_));
      for (std::uint32_t core = 0; core < cores[server]; ++core) {
        One one{.chunks = &layout_.plan->core_chunks[server][core], .staging = {}, .shard = {}};
        one.staging = std::move(*server::BufferPool::create(server::staging_buffers(layout_, core),
                                                            server::staging_buffer_bytes(layout_)));
        one.shard = std::make_unique<server::Shard>(layout_, core, memory, *one.staging);
        cores_.push_back(std::move(one));
      }
    }
  }

  const JobLayout& layout() const { return layout_; }
  std::size_t cores() const { return cores_.size(); }
  server::Shard& shard(std::size_t core) { return *cores_[core].shard; }

  // Every push to one core, in a random order.
  void push(std::size_t core, std::mt19937& random, const Value& value) {
    One& one = cores_[core];
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pushes;
    for (std::uint32_t w = 0; w < layout_.workers; ++w) {
      for (std::uint32_t slot = 0; slot < one.chunks->size(); ++slot) pushes.emplace_back(w, slot);
    }
    std::shuffle(pushes.begin(), pushes.end(), random);
    for (const auto& [worker, slot] : pushes) push(one, worker, slot, value);
  }
  // The parts of all cores that ask.
  std::vector<double> questions() {
    std::vector<double> parts;
    for (One& one : cores_) {
      server::NormWords* const words = one.shard->updates.gate()->words();
      if (words == nullptr || !words->take_question()) continue;
      std::memcpy(&parts.emplace_back(), words->line().data(), sizeof(double));
    }
    return parts;
  }
  // All workers tell all cores but `left_out` the sum of the parts.
  void tell(const std::vector<double>& parts, std::size_t left_out = ~std::size_t{0}) {
    client::NormRelay relay;
    for (std::size_t i = 0; i < parts.size(); ++i) relay.add(true);
    for (std::size_t i = 0; i < parts.size(); ++i) REQUIRE(relay.hear(i, parts[i]));
    REQUIRE(relay.is_whole());
    told_ = relay.take_sum();
    for (std::size_t core = 0; core < cores_.size(); ++core) {
      if (core != left_out) tell(core);
    }
  }
  void tell(std::size_t core) {
    for (std::uint32_t worker = 0; worker < layout_.workers; ++worker) {
      const bool is_last = worker + 1 == layout_.workers;
      CHECK_FALSE(shard(core).updates.has_due());
      REQUIRE(shard(core).tell_norm(worker, told_) ==
              (is_last ? NormOutcome::kKnown : NormOutcome::kAccepted));
    }
  }
  void update_all_due() {
    for (One& one : cores_) {
      while (one.shard->updates.has_due()) one.shard->updates.update_due();
    }
  }
  void round(std::mt19937& random, const Value& value) {
    for (std::size_t core = 0; core < cores(); ++core) push(core, random, value);
    if (std::vector<double> parts = questions(); !parts.empty()) tell(parts);
    update_all_due();
  }

  // Element by element, key by key.
  std::vector<float> parameters() const {
    std::vector<float> all(layout_.plan->arena_elements);
    for (const One& one : cores_) {
      for (std::uint32_t slot = 0; slot < one.chunks->size(); ++slot) {
        const auto reply = one.shard->updates.replies.whole(slot);
        const Chunk& chunk = layout_.plan->chunks[(*one.chunks)[slot]];
        std::memcpy(all.data() + chunk.arena_offset, reply.data(), reply.size());
      }
    }
    std::vector<float> values;
    for (const Segment& segment : layout_.plan->segments) {
      const auto first =
          all.begin() +
          static_cast<std::ptrdiff_t>(layout_.plan->key_offset[segment.key] + segment.key_offset);
      values.insert(values.end(), first, first + segment.elements);
    }
    return values;
  }

 private:
  struct One {
    const std::vector<std::uint32_t>* chunks;
    std::unique_ptr<server::BufferPool> staging;
    std::unique_ptr<server::Shard> shard;
  };

  void push(One& one, std::uint32_t worker, std::uint32_t slot, const Value& value) {
    const Plan& plan = *layout_.plan;
    const Chunk& chunk = plan.chunks[(*one.chunks)[slot]];
    auto* place = one.staging->take_for_push();
    REQUIRE(place != nullptr);
    for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
      const Segment& segment = plan.segments[chunk.first_segment + s];
      for (std::uint64_t i = 0; i < segment.elements; ++i) {
        reinterpret_cast<float*>(place)[segment.chunk_offset + i] =
            value(worker, segment.key, segment.key_offset + i);
      }
    }
    const PushResult result = one.shard->on_push({.worker = worker,
                                                  .slot = slot,
                                                  .data = place,
                                                  .bytes = one.shard->push_bytes(slot),
                                                  .staged = true,
                                                  .hyper = &layout_.hyper});
    REQUIRE(result <= PushResult::kUpdatesDue);
  }

  JobLayout layout_;
  std::vector<One> cores_;
  double told_ = 0.0;
};

JobLayout clipping_layout(RuleKind rule) {
  JobLayout layout = deferred_layout(rule, 3, DataType::kFloat32);
  layout.clip_norm = 0.5F;
  return layout;
}

// Sums of squares of these are exact in double, whatever their order.
RuleSpecification::Value eighths(std::uint32_t round) {
  return [noise = noise(round)](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
    return std::round(8.0F * noise(worker, key, i)) / 8.0F;
  };
}

const std::vector<std::vector<std::uint32_t>> kServers = {{1, 1}, {2, 2}, {1, 3, 2}};

}  // namespace

TEST_CASE("with a norm that is exact, two servers have the bits of one") {
  std::mt19937 random(61);
  for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kAdamW}) {
    for (const auto& cores : kServers) {
      CAPTURE(name_of(rule), cores);
      ServersRig several(clipping_layout(rule), cores);
      ServersRig one(clipping_layout(rule), {1});
      for (std::uint32_t round = 0; round < 5; ++round) {
        several.round(random, eighths(round));
        one.round(random, eighths(round));
        REQUIRE(several.parameters() == one.parameters());
      }
    }
  }
}

TEST_CASE("the norm over several servers has the specification's bits, core by core") {
  std::mt19937 random(62);
  for (const auto& cores : kServers) {
    CAPTURE(cores);
    ServersRig several(clipping_layout(RuleKind::kMomentum), cores);
    ServersRig one(clipping_layout(RuleKind::kMomentum), {1});
    RuleSpecification specification(several.layout());
    specification.initialise(noise(0));
    several.round(random, noise(0));
    one.round(random, noise(0));
    for (std::uint32_t round = 1; round < 5; ++round) {
      several.round(random, noise(round));
      one.round(random, noise(round));
      specification.round(several.layout().hyper, 1.0F, noise(round));
      const std::vector<float> ours = several.parameters();
      const std::vector<float> single = one.parameters();
      std::size_t at = 0;
      for (const Segment& segment : several.layout().plan->segments) {
        for (std::uint64_t i = 0; i < segment.elements; ++i, ++at) {
          REQUIRE(ours[at] == specification.parameter(segment.key, segment.key_offset + i));
          REQUIRE(ours[at] == Approx(single[at]).epsilon(1e-6).margin(1e-6));
        }
      }
    }
  }
}

TEST_CASE("a core that is not told the norm waits, and others go on without it") {
  std::mt19937 random(63);
  ServersRig rig(clipping_layout(RuleKind::kMomentum), {1, 2});
  rig.round(random, noise(0));
  for (std::size_t core = 0; core < rig.cores(); ++core) {
    CHECK_FALSE(rig.shard(core).updates.gate()->words()->take_question());
    rig.push(core, random, noise(1));
  }
  rig.tell(rig.questions(), 1);
  rig.update_all_due();
  CHECK_FALSE(rig.shard(0).updates.awaits());
  CHECK(rig.shard(1).updates.awaits());
  CHECK_FALSE(rig.shard(2).updates.awaits());
  // Those may begin the next round, which nobody knows the norm of.
  rig.push(0, random, noise(2));
  rig.push(2, random, noise(2));
  CHECK(rig.shard(0).tell_norm(0, -1.0) == NormOutcome::kMalformed);
  CHECK(rig.shard(1).tell_norm(0, -1.0) == NormOutcome::kMalformed);
  rig.tell(1);
  rig.update_all_due();
  CHECK_FALSE(rig.shard(1).updates.awaits());
  CHECK(rig.shard(0).updates.awaits());
  CHECK_FALSE(rig.shard(0).updates.has_due());
  CHECK(rig.shard(1).tell_norm(0, 1e9) == NormOutcome::kUnasked);
  rig.push(1, random, noise(2));
  rig.tell(rig.questions());
  rig.update_all_due();
  for (std::size_t core = 0; core < rig.cores(); ++core) {
    CHECK_FALSE(rig.shard(core).updates.awaits());
  }
}

TEST_CASE("whose word of a norm is the odd one") {
  const auto odd_one = [](const std::vector<double>& words) {
    double line = 0.0;
    server::NormWords norm(static_cast<std::uint32_t>(words.size()), 1,
                           reinterpret_cast<std::byte*>(&line), 0);
    norm.set(0, 1.0);
    norm.ask();
    CHECK(line == 1.0);
    NormOutcome last = NormOutcome::kStopped;
    for (std::uint32_t worker = 0; worker < words.size(); ++worker) {
      last = norm.add(worker, words[worker]);
    }
    CHECK((last == NormOutcome::kKnown) == (norm.odd_one() == words.size()));
    return norm.odd_one();
  };
  CHECK(odd_one({5}) == 1);
  CHECK(odd_one({5, 5, 5}) == 3);
  CHECK(odd_one({5, 5, 7}) == 2);
  CHECK(odd_one({7, 5, 5}) == 0);
  CHECK(odd_one({7, 5, 7, 5, 5}) == 0);
  CHECK(odd_one({5, 7}) == 1);  // nobody is most: not worker 0's
  CHECK(odd_one({5, 6, 7, 8}) == 1);
  CHECK(odd_one({5, 5, 7, 7}) == 2);
}

TEST_CASE("a relay takes one sum of squares of each core with chunks") {
  client::NormRelay relay;
  for (const bool tells : {true, false, true}) relay.add(tells);
  CHECK_FALSE(relay.hear(1, 1.0));
  for (const double wrong : {-1.0, -2.0, std::nan("")}) CHECK_FALSE(relay.hear(0, wrong));
  for (const double part : {1.0, 3.0}) {
    CHECK(relay.hear(2, part));
    CHECK_FALSE(relay.hear(2, part));
    CHECK_FALSE(relay.is_whole());
    CHECK(relay.hear(0, 0.0));
    CHECK(relay.is_whole());
    CHECK(relay.take_sum() == part);
    CHECK_FALSE(relay.is_whole());
  }
}

}  // namespace phub::testing
