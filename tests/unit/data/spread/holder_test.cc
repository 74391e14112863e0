// A holder goes on when the source has passing faults, and when a sample does not fit.
#include "worker/data/spread/holder.h"

#include <catch2/catch.hpp>

#include "tests/unit/data/spread/members.h"

namespace phub::data {
namespace {

using Catch::Matchers::Contains;

constexpr std::chrono::milliseconds kNoPause{1};
constexpr std::chrono::milliseconds kEndlessPause{600'000};

bool is_held(Holder& holder, std::uint64_t sample) {
  const auto promise = std::make_shared<std::promise<bool>>();
  auto future = promise->get_future();
  holder.want(sample, Holder::Clock::time_point::max(),
              [promise](const auto& reply) { promise->set_value(reply.held.has_value()); });
  REQUIRE(future.wait_for(kLongEnough) == std::future_status::ready);
  return future.get();
}

TEST_CASE("A sample that could not be read once is read again, and then held") {
  Store store(kSamples);
  const StoredSet set(store);
  store.is_closed = true;
  // Nobody reads ahead.
  Holder holder(set, {.bytes = kPlenty, .loaders = 0});
  std::vector<std::uint8_t> buffer;
  const auto refused = holder.take(7, buffer);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message() == "it is closed");
  store.is_closed = false;
  REQUIRE(holder.take(7, buffer));
  CHECK(is_held(holder, 7));
}

TEST_CASE("A sample that could not be read twice is not held any more") {
  Store store(kSamples);
  const StoredSet set(store);
  store.is_closed = true;
  Holder holder(set, {.bytes = kPlenty, .loaders = 0});
  std::vector<std::uint8_t> buffer;
  for (int times = 0; times < 2; ++times) CHECK_FALSE(holder.take(7, buffer));
  store.is_closed = false;
  const auto taken = holder.take(7, buffer);
  REQUIRE(taken);
  CHECK_FALSE(taken->is_held);
  CHECK_FALSE(is_held(holder, 7));
}

TEST_CASE("When the source has a fault, the loaders pause after one sample each") {
  Store store(kSamples);
  const StoredSet set(store);
  store.is_closed = true;
  Notes notes;
  Holder holder(set,
                {.bytes = kPlenty, .loaders = 3, .note = notes.note(), .pause = kEndlessPause});
  // What others wait for is read meanwhile.
  CHECK_FALSE(is_held(holder, 90));
  CHECK_FALSE(is_held(holder, 90));
  store.is_closed = false;
  CHECK(is_held(holder, 91));
  CHECK_FALSE(is_held(holder, 90));
  holder.stop();
  CHECK(store.all_reads() <= 3 + 3);
  REQUIRE(notes.all().size() == 1);
  CHECK_THAT(notes.all()[0], Contains("data.spread: ") && Contains("it is closed") &&
                                 Contains("is tried once more"));
}

TEST_CASE("Bytes that are replaced stay for their readers, and others get the new ones") {
  Store store(kSamples);
  const StoredSet set(store);
  store.is_short = true;
  Holder holder(set, {.bytes = kPlenty, .loaders = 0});
  std::vector<std::uint8_t> buffer;
  const auto before = holder.take(7, buffer);
  REQUIRE(before);
  std::vector<std::uint8_t> half = bytes_of(7);
  half.resize(half.size() / 2);
  store.is_short = false;
  std::vector<std::uint8_t> anew;
  const auto read = holder.read_source_anew(7, anew);
  REQUIRE(read);
  holder.replace(7, *read);
  CHECK(std::ranges::equal(before->bytes, half));
  const auto after = holder.take(7, buffer);
  REQUIRE(after);
  CHECK(after->is_held);
  CHECK(std::ranges::equal(after->bytes, bytes_of(7)));
  CHECK(holder.counts().samples == 2);
  // What is not held is not taken in so.
  holder.replace(8, bytes_of(8));
  CHECK(holder.held_bytes() < 1000);
}

TEST_CASE("Without memory for new bytes a sample is not held any more") {
  Store store(kSamples);
  const StoredSet set(store);
  Holder holder(set, {.bytes = 400, .loaders = 0});
  std::vector<std::uint8_t> buffer;
  REQUIRE(holder.take(7, buffer));
  holder.replace(7, std::vector<std::uint8_t>(380));
  const auto after = holder.take(7, buffer);
  REQUIRE(after);
  CHECK_FALSE(after->is_held);
  CHECK(std::ranges::equal(after->bytes, bytes_of(7)));
}

// The other samples take about 15,000 bytes.
TEST_CASE("A large sample that does not fit keeps no others out of memory") {
  Store store(kSamples);
  store.large = 10;
  const StoredSet set(store);
  Notes notes;
  Holder holder(set, {.bytes = 20'000, .loaders = 2, .note = notes.note()});
  REQUIRE(holder.wait_until_loaded(kLongEnough));
  std::vector<std::uint8_t> buffer;
  std::uint64_t held = 0;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const auto taken = holder.take(sample, buffer);
    REQUIRE(taken);
    if (taken->is_held) ++held;
  }
  CHECK(held == kSamples - 2);
  CHECK(holder.held_bytes() <= 20'000);
  REQUIRE(notes.all().size() == 1);
  CHECK_THAT(notes.all()[0], Contains("data.spread.memory_mib: 20000 bytes") &&
                                 Contains("a sample of 20000 bytes does not fit"));
}

TEST_CASE(
    "Other members do not wait for a source that stalls, and get its samples when it goes on") {
  using Clock = Holder::Clock;
  std::promise<void> gate;
  Store store(kSamples);
  store.gate = gate.get_future().share();
  const StoredSet set(store);
  Holder holder(set, {.bytes = kPlenty, .loaders = 1});
  std::vector<std::string> replies;
  const auto want = [&](std::uint64_t sample, Clock::time_point deadline) {
    holder.want(sample, deadline, [&](const Holder::Reply& reply) {
      replies.emplace_back(reply.is_late ? "late" : reply.held ? "held" : "not held");
    });
  };
  const Clock::time_point now = Clock::now();
  want(3, now + 2 * kLongEnough);
  want(90, now + kLongEnough);
  want(91, now + 2 * kLongEnough);
  CHECK(holder.refuse_late(now) == now + kLongEnough);
  CHECK(replies.empty());
  CHECK(holder.refuse_late(now + kLongEnough) == now + 2 * kLongEnough);
  CHECK(replies == std::vector<std::string>{"late"});
  CHECK(holder.refuse_late(now + 2 * kLongEnough) == Clock::time_point::max());
  CHECK(replies.size() == 3);
  want(92, Clock::time_point::max());
  CHECK(replies == std::vector<std::string>(4, "late"));
  gate.set_value();
  REQUIRE(holder.wait_until_loaded(kLongEnough));
  want(90, now);
  CHECK(replies.back() == "held");
  CHECK(store.most_reads() == 1);
}

TEST_CASE("Nobody waits for the holder while it notes that its memory is full") {
  Store store(kSamples);
  const StoredSet set(store);
  Holder* holder = nullptr;
  std::future<std::uint64_t> held;
  bool has_answered = false;
  const auto note = [&](std::string_view) {
    held = std::async(std::launch::async, [&] { return holder->held_bytes(); });
    has_answered = held.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  };
  Holder full(set, {.bytes = 1000, .loaders = 0, .note = note});
  holder = &full;
  std::vector<std::uint8_t> buffer;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) REQUIRE(full.take(sample, buffer));
  CHECK(has_answered);
}

TEST_CASE(
    "The loaders come back to the samples that could not be read, and pass over damaged ones") {
  Store store(kSamples, 4);
  const StoredSet set(store);
  Holder holder(set, {.bytes = kPlenty, .loaders = 3, .pause = kNoPause});
  REQUIRE(holder.wait_until_loaded(kLongEnough));
  CHECK(store.reads[4] == 2);
  CHECK(store.all_reads() == static_cast<int>(kSamples) + 1);
  CHECK_FALSE(is_held(holder, 4));
  CHECK(is_held(holder, 5));
  CHECK(is_held(holder, kSamples - 1));
}

}  // namespace
}  // namespace phub::data
