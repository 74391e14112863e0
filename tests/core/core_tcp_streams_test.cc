// Workers with several tcp streams to a core: each chunk has its own, none is a way around what
// holds for a worker, and the loss of one is the loss of the worker.
#include <catch2/catch.hpp>
#include <cerrno>
#include <random>

#include "tests/support/server/slow_clock.h"
#include "tests/support/server/streams_rig.h"

namespace phub::testing {
namespace {

constexpr std::uint32_t kStreams = 4;
constexpr std::uint32_t kSlots = 10;

// Below `end`.
std::uint32_t pick(std::mt19937& random, std::size_t end) {
  return static_cast<std::uint32_t>(random() % end);
}

StreamsJobOptions spread(std::uint32_t workers = 2) {
  return {.workers = workers, .chunks = kSlots, .tcp_streams = kStreams};
}

void push_all(StreamsJob& job, std::uint32_t worker, float value = 1.0F) {
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    job.push(job.stream(worker, slot), slot, value);
  }
}

std::vector<StreamsJob::Reply> replies_of(StreamsJob& job, std::uint32_t worker) {
  std::vector<StreamsJob::Reply> all;
  for (std::uint32_t i = 0; i < job.layout.tcp_streams; ++i) {
    for (const auto& reply : job.take_replies(job.stream(worker, i))) {
      CHECK(reply.slot % job.layout.tcp_streams == i);
      CHECK(reply.is_even);
      all.push_back(reply);
    }
  }
  return all;
}

// The core has closed its end.
bool is_closed(const StreamsJob& job, std::uint32_t socket) {
  std::byte byte{};
  const ssize_t got = ::recv(job.sockets[socket].get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno == ECONNRESET);  // what it had not read was reset
}

bool all_closed(const StreamsJob& job, std::uint32_t worker) {
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    const std::uint32_t socket = job.stream(worker, i);
    if (job.sockets[socket] && !is_closed(job, socket)) return false;
  }
  return true;
}

std::vector<std::byte> hyper_frame(const StreamsJob& job, const Hyper& hyper) {
  return StreamsJob::frame_of(wire::immediate(wire::kHyperSlot, job.layout.epoch),
                              std::as_bytes(std::span(&hyper, 1)));
}

TEST_CASE("every chunk comes and is replied to on its own stream") {
  StreamsRig rig;
  StreamsJob& job = rig.add(spread());
  CHECK(rig.core->counters().connections == 2 * kStreams);
  for (float round = 1.0F; round < 5.0F; ++round) {
    push_all(job, 0, round);
    push_all(job, 1, 10.0F * round);
    REQUIRE(rig.run());
    for (const std::uint32_t worker : {0U, 1U}) {
      const auto replies = replies_of(job, worker);
      CHECK(replies.size() == kSlots);
      for (const auto& reply : replies) CHECK(reply.value == 11.0F * round);
    }
  }
  CHECK(job.on_core->worker_counters[1].pushes.value() == 4 * kSlots);
  CHECK_FALSE(rig.core->next_event());
  CHECK(job.on_core->staging->in_use() == 0);
}

TEST_CASE("a job with more streams than chunks exchanges what it has") {
  StreamsRig rig;
  StreamsJob& job = rig.add({.workers = 2, .chunks = 3, .tcp_streams = 16});
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    for (const std::uint32_t worker : {0U, 1U}) job.push(job.stream(worker, slot), slot);
  }
  REQUIRE(rig.run());
  for (const std::uint32_t worker : {0U, 1U}) CHECK(replies_of(job, worker).size() == 3);
}

TEST_CASE("each stream says the hyper-parameters of the pushes that follow on it") {
  for (const std::uint32_t streams : {1U, kStreams}) {
    StreamsRig rig;
    StreamsJob& job = rig.add({.workers = 1,
                               .chunks = kSlots,
                               .rule = RuleKind::kSgd,
                               .hyper = {.learning_rate = 0.5F, .gradient_scale = 1.0F},
                               .weight_decay = 0.0F,
                               .tcp_streams = streams});
    const auto round = [&](float value) {
      push_all(job, 0, value);
      REQUIRE(rig.run());
      return replies_of(job, 0);
    };
    CHECK(round(100.0F).size() == kSlots);
    for (std::uint32_t i = 0; i < streams; ++i) {
      const auto frame = hyper_frame(job, {.learning_rate = 0.25F, .gradient_scale = 2.0F});
      REQUIRE(job.send(i, frame) == frame.size());
    }
    const auto replies = round(8.0F);
    CHECK(replies.size() == kSlots);
    for (const auto& reply : replies) CHECK(reply.value == 96.0F);
  }
}

TEST_CASE("a chunk on another one's stream ends its worker, and takes no buffer") {
  StreamsRig rig;
  StreamsJob& job = rig.add(spread());
  job.push(job.stream(0, 1), 1);
  job.push(job.stream(0, 2), 1);  // is on the way of 2, 6, ...
  REQUIRE(rig.run());
  const auto event = rig.core->next_event();
  REQUIRE(event);
  CHECK(event->worker == 0);
  CHECK(event->reason == "its connection broke the protocol");
  CHECK_FALSE(rig.core->next_event());
  CHECK(all_closed(job, 0));
  CHECK_FALSE(is_closed(job, job.stream(1, 0)));  // the control plane ends the job
  CHECK(job.on_core->staging->in_use() <= 1);
  CHECK(rig.core->counters().connections == kStreams);
}

TEST_CASE("the loss of one stream in a round is the loss of its worker, told once") {
  for (std::uint32_t lost = 0; lost < kStreams; ++lost) {
    StreamsRig rig;
    StreamsJob& job = rig.add(spread());
    push_all(job, 0);
    const auto half = job.frame((lost + 1) % kStreams, 1.0F);
    job.send(job.stream(1, (lost + 1) % kStreams), std::span(half).first(100));
    REQUIRE(rig.run());
    job.sockets[job.stream(1, lost)].reset();
    REQUIRE(rig.run());
    const auto event = rig.core->next_event();
    REQUIRE(event);
    CHECK(event->worker == 1);
    CHECK(event->reason == "one of its tcp streams closed");
    CHECK_FALSE(rig.core->next_event());
    CHECK(all_closed(job, 1));
    CHECK(rig.core->counters().connections == kStreams);
    rig.remove(job);
    CHECK(rig.core->counters().connections == 0);
  }
}

TEST_CASE("all streams of a worker that dies are one loss") {
  StreamsRig rig;
  StreamsJob& job = rig.add(spread());
  push_all(job, 0);
  for (std::uint32_t i = 0; i < kStreams; ++i) job.sockets[job.stream(0, i)].reset();
  REQUIRE(rig.run());
  CHECK(rig.core->next_event());
  CHECK_FALSE(rig.core->next_event());
  rig.remove(job);
  CHECK(rig.core->counters().connections == 0);
}

TEST_CASE("several streams are no way to more pushes than a worker can have on their way") {
  StreamsRig rig;
  StreamsJob& job = rig.add({.workers = 2, .chunks = 4, .chunk_bytes = 64, .tcp_streams = 2});
  for (const std::uint32_t worker : {0U, 1U}) {
    for (std::uint32_t slot = 0; slot < 2; ++slot) {
      const auto push = job.frame(slot, 1.0F);
      const std::uint32_t socket = job.stream(worker, slot);
      for (int times = 0; times < 40; ++times) REQUIRE(job.send(socket, push) == push.size());
    }
  }
  REQUIRE(rig.run());
  CHECK(rig.core->drops().value(server::Drop::kDuplicatePush) > 0);
  CHECK(job.on_core->staging->in_use() == 0);
}

TEST_CASE("a core has room for all streams of a worker, or takes none of them") {
  StreamsRig rig(kStreams + 3);
  auto job = std::make_unique<StreamsJob>(spread());
  REQUIRE(rig.try_to_connect(*job, 0).ok());
  const Status refused = rig.try_to_connect(*job, 1);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Catch::Contains("connections_per_core"));
  CHECK(rig.core->counters().connections == kStreams);
  CHECK(all_closed(*job, 1));
  REQUIRE(rig.run());
  CHECK_FALSE(rig.core->next_event());
  StreamsJob& other = rig.add({.workers = 3});  // takes the places that were given back
  for (const std::uint32_t worker : {0U, 1U, 2U}) other.push(worker, 0);
  REQUIRE(rig.run());
  CHECK(other.replies(2) == 1);
  CHECK(rig.try_to_connect(*job, 0).code() == Code::kAlreadyExists);
  rig.core->attachments().detach(job->on_core.get());
}

TEST_CASE("a job with a quorum goes on without a worker that lost a stream") {
  StreamsRig rig;
  StreamsJobOptions options = spread(3);
  options.rounds = {.quorum = 2};
  StreamsJob& job = rig.add(options);
  push_all(job, 0, 1.0F);
  REQUIRE(rig.run());
  job.sockets[job.stream(1, 3)].reset();
  REQUIRE(rig.run());
  const auto event = rig.core->next_event();
  REQUIRE(event);
  CHECK(event->worker == 1);
  CHECK(event->goes_on);
  CHECK(all_closed(job, 1));
  push_all(job, 2, 4.0F);
  REQUIRE(rig.run());
  for (const std::uint32_t worker : {0U, 2U}) {
    const auto replies = replies_of(job, worker);
    CHECK(replies.size() == kSlots);
    for (const auto& reply : replies) CHECK(reply.value == 5.0F);
  }
}

// Sends what there is in random pieces, in a random order of streams, until all has gone.
void pump_in_pieces(StreamsRig& rig, StreamsJob& job, std::mt19937& random) {
  bool any = true;
  while (any) {
    any = false;
    for (std::size_t i = 0; i < 2 * job.sockets.size(); ++i) {
      const auto socket = pick(random, job.sockets.size());
      if (!job.sockets[socket]) continue;
      any = job.pump(socket, 1 + random() % 700) > 0 || any;
      if (random() % 3 == 0) rig.core->run_once();
    }
    for (std::uint32_t i = 0; i < job.sockets.size(); ++i)
      any = any || !job.unsent[i].bytes.empty();
  }
}

TEST_CASE("whatever the streams' speeds, sums are whole and nobody is dropped") {
  SlowClock clock(10'000);
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    StreamsRig rig(256, &clock);
    StreamsJobOptions options = spread(1 + pick(random, 4));
    options.tcp_streams = 1 + pick(random, 5);
    options.tenant = 1;
    StreamsJob& job = rig.add(options);
    StreamsJob& other = rig.add({.workers = 2, .chunks = kSlots, .tenant = 2});
    for (int round = 1; round <= 3; ++round) {
      std::vector<std::uint32_t> order;
      for (std::uint32_t i = 0; i < kSlots * options.workers; ++i) order.push_back(i);
      std::shuffle(order.begin(), order.end(), random);
      for (const std::uint32_t i : order) {
        const std::uint32_t slot = i % kSlots;
        job.push_later(job.stream(i / kSlots, slot), slot, static_cast<float>(round));
      }
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
        for (const std::uint32_t worker : {0U, 1U}) other.push(worker, slot);
      }
      pump_in_pieces(rig, job, random);
      REQUIRE(rig.run());
      for (std::uint32_t worker = 0; worker < options.workers; ++worker) {
        const auto replies = replies_of(job, worker);
        CHECK(replies.size() == kSlots);
        for (const auto& reply : replies) {
          CHECK(reply.value == static_cast<float>(round) * static_cast<float>(options.workers));
        }
      }
      for (const std::uint32_t worker : {0U, 1U}) CHECK(other.replies(worker) == kSlots);
    }
    CHECK_FALSE(rig.core->next_event());
    CHECK(job.on_core->staging->in_use() == 0);
  }
}

TEST_CASE("a stream that closes at any moment leaves nothing behind, and other jobs go on") {
  SlowClock clock(10'000);
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    StreamsRig rig(3 * kStreams, &clock);
    StreamsJobOptions options = spread(2);
    options.tenant = 1;
    StreamsJob& job = rig.add(options);
    StreamsJob& other = rig.add({.workers = 2, .chunks = kSlots, .tenant = 2});
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      for (const std::uint32_t worker : {0U, 1U}) {
        const std::uint32_t socket = job.stream(worker, slot);
        const auto bytes = job.frame(slot, 1.0F);
        if (random() % 2 == 0)
          job.send(socket, std::span(bytes).first(1 + random() % bytes.size()));
        other.push(worker, slot);
      }
      if (random() % 2 == 0) rig.core->run_once();
    }
    job.sockets[random() % job.sockets.size()].reset();
    for (std::uint32_t i = pick(random, 4); i > 0; --i) rig.core->run_once();
    if (random() % 2 == 0) rig.remove(job);  // whether the core has noticed or not
    REQUIRE(rig.run());
    for (const std::uint32_t worker : {0U, 1U}) CHECK(other.replies(worker) == kSlots);
    StreamsJobOptions next_options = spread(1);
    next_options.tenant = 3;
    StreamsJob& next = rig.add(next_options);  // on ids that were used
    push_all(next, 0, 2.0F);
    REQUIRE(rig.run());
    CHECK(replies_of(next, 0).size() == kSlots);
    CHECK(next.on_core->staging->in_use() == 0);
  }
}

}  // namespace
}  // namespace phub::testing
