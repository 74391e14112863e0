// Members of a spread set read the source once in all, get the samples' own bytes, and go on from
// the source when another member is gone, forges or has no memory.
#include "worker/data/spread/spread_set.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

#include "tests/unit/data/spread/members.h"

namespace phub::data {
namespace {

struct Counts {
  std::uint64_t sum = 0, own = 0, peer = 0, source = 0;
};

class Members {
 public:
  Members(std::uint32_t count, std::uint64_t memory, std::uint32_t readers = 3,
          std::uint64_t damaged = ~std::uint64_t{0})
      : store(kSamples, damaged), notes(count) {
    for (std::uint32_t i = 0; i < count; ++i) others_.push_back(std::make_unique<Other>());
    for (std::uint32_t i = 0; i < count; ++i) {
      auto set =
          SpreadSet::create(std::make_unique<StoredSet>(store),
                            {.memory_bytes = memory, .readers = readers, .note = notes[i].note()});
      REQUIRE(set);
      const auto make = [&](Holder& holder, std::uint32_t largest) {
        others_[i]->holder = &holder;
        return Result<std::unique_ptr<PeerLinks>>(std::make_unique<NearLinks>(others_, largest));
      };
      const Status begun = (*set)->begin({.self = i, .members = count}, make);
      INFO(begun.message());
      REQUIRE(begun.ok());
      sets.push_back(std::move(*set));
    }
  }
  ~Members() {
    // All ask all: nobody goes before everybody has stopped.
    for (const auto& other : others_) {
      if (other->holder != nullptr) other->holder->stop();
    }
  }

  void set_manner(std::uint32_t member, NearLinks::Manner manner) {
    others_[member]->manner = manner;
  }
  int dropped(std::uint32_t member) const { return others_[member]->dropped; }

  // Each member takes its part of an epoch, by several threads.
  Counts run(std::uint64_t epoch, std::uint32_t threads = 3) {
    const SampleStream stream(kSamples, 5);
    std::mutex mutex;
    Counts all;
    std::vector<std::jthread> running;
    for (std::uint32_t member = 0; member < sets.size(); ++member) {
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        running.emplace_back([&, member, thread] {
          std::vector<std::uint8_t> buffer;
          const auto step = static_cast<std::uint64_t>(sets.size()) * threads;
          for (std::uint64_t at = member * threads + thread; at < kSamples; at += step) {
            const std::uint64_t sample = stream.at(epoch * kSamples + at);
            if (sample == store.damaged) continue;
            Receipt receipt;
            const auto bytes = sets[member]->deliver(sample, buffer, receipt);
            const std::vector<std::uint8_t> expected = bytes_of(sample);
            const std::lock_guard lock(mutex);
            is_right_ = is_right_ && bytes && std::ranges::equal(*bytes, expected);
            all.sum += receipt.hash;
            all.own += receipt.origin == Origin::kOwnMemory ? 1 : 0;
            all.peer += receipt.origin == Origin::kPeer ? 1 : 0;
            all.source += receipt.origin == Origin::kSource ? 1 : 0;
          }
        });
      }
    }
    running.clear();
    REQUIRE(is_right_);
    return all;
  }

  Store store;
  std::vector<Notes> notes;
  std::vector<std::unique_ptr<SpreadSet>> sets;

 private:
  using Other = NearLinks::Other;
  std::vector<std::unique_ptr<Other>> others_;
  bool is_right_ = true;
};

TEST_CASE("Every sample is read from the source once in all, and each epoch's sum is the same") {
  const std::uint32_t count = GENERATE(1U, 2U, 3U, 7U, 16U);
  Members members(count, kPlenty);
  const Counts first = members.run(0);
  CHECK(first.sum == whole_sum());
  CHECK(first.source == 0);
  for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
    const Counts counts = members.run(epoch);
    CHECK(counts.sum == first.sum);
    CHECK(counts.own + counts.peer == kSamples);
    CHECK(counts.source == 0);
    CHECK((count > 1) == (counts.peer > 0));
  }
  CHECK(members.store.most_reads() == 1);
  CHECK(members.store.all_reads() == kSamples);
  for (const Notes& notes : members.notes) CHECK(notes.all().empty());
}

TEST_CASE("Loaders read a member's own samples ahead, and no others") {
  Members members(3, kPlenty);
  for (const auto& set : members.sets) {
    REQUIRE(const_cast<Holder&>(set->holder()).wait_until_loaded(kLongEnough));  // NOLINT
  }
  CHECK(members.store.all_reads() == kSamples);
  CHECK(members.sets[0]->counts().read.samples == 34);
  CHECK(members.sets[2]->counts().read.samples == 33);
  std::uint64_t bytes = 0;
  for (const auto& set : members.sets) bytes += set->counts().read.bytes;
  CHECK(bytes == members.store.bytes);
  members.run(0);
  CHECK(members.store.all_reads() == kSamples);
}

TEST_CASE("A member that is gone is noted once by each other, and its samples are read") {
  Members members(3, kPlenty);
  const Counts before = members.run(0);
  members.set_manner(1, NearLinks::Manner::kDead);
  const Counts after = members.run(1);
  CHECK(after.sum == before.sum);
  CHECK(after.source > 0);
  members.run(2);
  REQUIRE(members.notes[0].all().size() == 1);
  CHECK_THAT(members.notes[0].all()[0],
             Catch::Contains("worker 1 is asked for no more samples: it has closed") &&
                 Catch::Contains("read from data.path"));
  CHECK(members.notes[1].all().empty());
  CHECK(members.notes[2].all().size() == 1);
}

TEST_CASE("Bytes that do not have their CRC32C are never handed out, and their sender is dropped") {
  Members members(3, kPlenty);
  members.set_manner(2, NearLinks::Manner::kForges);
  const Counts counts = members.run(0);
  CHECK(counts.sum == whole_sum());
  CHECK(counts.source > 0);
  CHECK(members.dropped(2) > 0);
  REQUIRE(members.notes[0].all().size() == 1);
  CHECK_THAT(members.notes[0].all()[0], Catch::Contains("worker 2") && Catch::Contains("CRC32C"));
}

TEST_CASE("A member with another set ends the training, and nothing is read in its place") {
  Members members(2, kPlenty);
  members.set_manner(1, NearLinks::Manner::kHasOtherSet);
  std::vector<std::uint8_t> buffer;
  const auto bytes = members.sets[0]->read(1, buffer);
  REQUIRE_FALSE(bytes);
  CHECK(bytes.error().code() == Code::kInvalidArgument);
  CHECK_THAT(bytes.error().message(),
             Catch::StartsWith("data.spread: worker 1 has another set than this worker") &&
                 Catch::Contains("give all workers of the job the same set"));
  CHECK(members.sets[0]->counts().source == 0);
}

TEST_CASE("A member that holds nothing is noted once") {
  Members members(2, kPlenty);
  members.set_manner(0, NearLinks::Manner::kRefuses);
  CHECK(members.run(0).sum == whole_sum());
  CHECK(members.run(1).sum == whole_sum());
  REQUIRE(members.notes[1].all().size() == 1);
  CHECK_THAT(members.notes[1].all()[0], Catch::Contains("worker 0 has not all of its samples") &&
                                            Catch::Contains("memory_mib"));
}

// 51 samples of about 140 bytes and their index take 8 KB. Of the memory 4.8 KB are for samples,
// and none is a sixteenth of it: a large sample that does not fit has a note of its own.
TEST_CASE("What does not fit into the memory is read from the source each time, and counted") {
  constexpr std::uint64_t kMemory = 6500;
  Members members(2, kMemory, 1);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const Counts counts = members.run(epoch);
    CHECK(counts.sum == whole_sum());
    CHECK(counts.source > 0);
    CHECK(counts.own > 0);
    CHECK(counts.peer > 0);
  }
  for (std::uint32_t member = 0; member < 2; ++member) {
    const SpreadSet& set = *members.sets[member];
    CHECK(set.holder().held_bytes() > 0);
    CHECK(set.holder().held_bytes() + 51 * Holder::kIndexBytes <= kMemory);
    const auto notes = members.notes[member].all();
    const auto is_own = [](const std::string& text) {
      return text.find("bytes are left for samples") != std::string::npos;
    };
    CHECK(std::ranges::count_if(notes, is_own) == 1);
    CHECK(notes.size() <= 3);
  }
}

TEST_CASE("A damaged sample is the source's error at every member, and nobody waits for it") {
  Members members(3, kPlenty, 3, 4);
  members.run(0);
  std::vector<std::uint8_t> buffer;
  for (const auto& set : members.sets) {
    const auto bytes = set->read(4, buffer);
    REQUIRE_FALSE(bytes);
    CHECK(bytes.error().code() == Code::kDataLoss);
    CHECK(bytes.error().message() == "it is damaged");
  }
}

TEST_CASE("Memory that links to all members would take is refused before the job is joined") {
  Store store(kSamples);
  SpreadOptions options{.memory_bytes = 1U << 20U, .members = 900, .readers = 8};
  CHECK(SpreadSet::create(std::make_unique<StoredSet>(store), options));
  options.link_bytes = link_bytes(8, false);
  const auto refused = SpreadSet::create(std::make_unique<StoredSet>(store), options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kInvalidArgument);
  CHECK_THAT(refused.error().message(), Catch::StartsWith("data.spread.memory_mib: 1 leaves") &&
                                            Catch::Contains("links to 899 workers"));
  // Nobody knows how many they are.
  options.members = 0;
  CHECK(SpreadSet::create(std::make_unique<StoredSet>(store), options));
}

TEST_CASE("Memory is shared out with figures, and too little is refused with a cure that holds") {
  const std::uint32_t members = GENERATE(1U, 2U, 16U);
  MemoryNeeds needs{.bytes = 1U << 20U,
                    .samples = 4'000'000,
                    .members = members,
                    .readers = 4,
                    .link_bytes = 300'000};
  const auto refused = share_memory(needs);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kInvalidArgument);
  const std::string& message = refused.error().message();
  CHECK_THAT(message, Catch::StartsWith("data.spread.memory_mib: 1 leaves nothing"));
  const auto least = std::stoull(message.substr(message.rfind(' ')));
  needs.bytes = least << 20U;
  const auto share = share_memory(needs);
  REQUIRE(share);
  const std::uint64_t index = most_own_samples(needs.samples, members) * Holder::kIndexBytes;
  const std::uint64_t window = std::uint64_t{share->largest_bytes} * needs.readers;
  CHECK(share->held_bytes + index + window + (members - 1) * needs.link_bytes <= needs.bytes);
  CHECK((members == 1) == (share->largest_bytes == 0));
  needs.bytes = (least - 1) << 20U;
  CHECK_FALSE(share_memory(needs));
}

}  // namespace
}  // namespace phub::data
