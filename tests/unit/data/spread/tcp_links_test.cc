// Members over TCP connections on this host, and members that stall, forge, flood, ask for what is
// not there, or are no members.
#include "worker/data/spread/tcp_links.h"

#include <catch2/catch.hpp>
#include <thread>

#include "tests/unit/data/spread/fake_member.h"
#include "tests/unit/data/spread/tcp_members.h"

namespace phub::data {
namespace {

using Catch::Matchers::Contains;

class TcpMembers {
 public:
  TcpMembers(std::uint32_t count, bool encrypts) : store(kSamples), notes(count), sets(count) {
    std::vector<PeerListener> listeners;
    for (std::uint32_t i = 0; i < count; ++i) listeners.push_back(listen_here());
    const auto groups = groups_of(listeners, encrypts);
    std::vector<std::jthread> beginning;
    for (std::uint32_t i = 0; i < count; ++i) {
      beginning.emplace_back(
          [&, i] { sets[i] = begin_member(store, groups[i], std::move(listeners[i]), notes[i]); });
    }
  }

  // Every set that is there takes its part of the samples, by four threads.
  std::uint64_t run() {
    std::atomic<std::uint64_t> sum{0};
    std::atomic<bool> is_right{true};
    std::vector<std::jthread> running;
    for (std::uint32_t member = 0; member < sets.size(); ++member) {
      for (std::uint32_t thread = 0; thread < 4; ++thread) {
        running.emplace_back([&, member, thread] {
          std::vector<std::uint8_t> buffer;
          const auto of_thread = static_cast<std::uint64_t>(sets.size()) * 4;
          for (std::uint64_t at = member * 4 + thread; at < kSamples; at += of_thread) {
            const std::uint64_t sample = (at * 7) % kSamples;
            Receipt receipt;
            if (!sets[member]) continue;
            const auto bytes = sets[member]->deliver(sample, buffer, receipt);
            if (!bytes || !std::ranges::equal(*bytes, bytes_of(sample))) is_right = false;
            sum += receipt.hash;
          }
        });
      }
    }
    running.clear();
    REQUIRE(is_right);
    return sum;
  }

  Store store;
  std::vector<Notes> notes;
  std::vector<std::unique_ptr<SpreadSet>> sets;
};

TEST_CASE("Members over TCP read the source once in all, plain and encrypted") {
  const bool encrypts = GENERATE(false, true);
  const std::uint32_t count = GENERATE(2U, 5U);
  TcpMembers members(count, encrypts);
  for (int epoch = 0; epoch < 3; ++epoch) CHECK(members.run() == whole_sum());
  CHECK(members.store.most_reads() == 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    INFO(i);
    CHECK(members.notes[i].all().empty());
    CHECK(members.sets[i]->counts().peer > 0);
    CHECK(members.sets[i]->counts().source == 0);
  }
}

TEST_CASE("Members whose sets have other labels name each other, and read nothing") {
  std::vector<PeerListener> listeners;
  for (int i = 0; i < 2; ++i) listeners.push_back(listen_here());
  const auto groups = groups_of(listeners, false);
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < 2; ++i) stores.push_back(std::make_unique<Store>(kSamples));
  stores[1]->label = 1;
  std::vector<Notes> notes(2);
  std::vector<std::unique_ptr<SpreadSet>> sets(2);
  {
    std::vector<std::jthread> beginning;
    for (std::uint32_t i = 0; i < 2; ++i) {
      beginning.emplace_back([&, i] {
        sets[i] = begin_member(*stores[i], groups[i], std::move(listeners[i]), notes[i]);
      });
    }
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::string other = "data.spread: worker " + std::to_string(1 - i) + " (127.0.0.1 port ";
    for (int times = 0; times < 2; ++times) {
      std::vector<std::uint8_t> buffer;
      const auto bytes = sets[i]->read(1 - i, buffer);
      REQUIRE_FALSE(bytes);
      CHECK(bytes.error().code() == Code::kInvalidArgument);
      CHECK_THAT(bytes.error().message(), Contains(other) && Contains("another set than this"));
    }
    CHECK(sets[i]->counts().source == 0);
    REQUIRE(notes[1 - i].all().size() == 1);
    CHECK_THAT(notes[1 - i].all()[0], Contains("data.spread: worker " + std::to_string(i) + " (") &&
                                          Contains("another set than this worker"));
  }
}

TEST_CASE("When a member goes, the others read its samples from the source") {
  TcpMembers members(3, false);
  CHECK(members.run() == whole_sum());
  members.sets[1].reset();
  const std::uint64_t part = members.run();
  CHECK(members.run() == part);
  CHECK(members.sets[0]->counts().source + members.sets[2]->counts().source > 0);
  REQUIRE(members.notes[0].all().size() == 1);
  CHECK_THAT(members.notes[0].all()[0],
             Contains("worker 1 (127.0.0.1 port ") && Contains("is asked for no more samples"));
}

// Member 0 is real, and member 1 does what a test says.
class Pair {
 public:
  explicit Pair(std::chrono::milliseconds patience = kLongEnough,
                std::shared_future<void> gate = {})
      : store_(kSamples) {
    store_.gate = std::move(gate);
    std::vector<PeerListener> listeners;
    for (int i = 0; i < 2; ++i) listeners.push_back(listen_here());
    const auto groups = groups_of(listeners, false);
    key = groups[0].key;
    other = std::make_unique<FakeMember>(groups[1], std::move(listeners[1]));
    set = begin_member(store_, groups[0], std::move(listeners[0]), notes, patience);
  }

  // A sample of member 1, which comes right in any case; from where?
  Origin read(std::uint64_t sample = 1) {
    std::vector<std::uint8_t> buffer;
    Receipt receipt;
    const auto bytes = set->deliver(sample, buffer, receipt);
    PHUB_CHECK(bytes && std::ranges::equal(*bytes, bytes_of(sample)), "the sample's bytes");
    return receipt.origin;
  }
  // The same, while member 1 answers the request as `answer` does.
  Origin read(const std::function<void(RawStream&, std::uint32_t number)>& answer) {
    auto reading = std::async(std::launch::async, [this] { return read(); });
    RawStream& stream = other->asked_by_other();
    const auto request = stream.receive_frame();
    CHECK(request.bytes.size() == sizeof(PeerRequest));
    answer(stream, request.header.immediate);
    return reading.get();
  }
  std::string only_note() {
    REQUIRE(notes.all().size() == 1);
    return notes.all()[0];
  }

 private:
  Store store_;

 public:
  Notes notes;
  client::Secret key{};
  std::unique_ptr<FakeMember> other;
  std::unique_ptr<SpreadSet> set;
};

TEST_CASE("An honest answer is handed out") {
  Pair pair;
  CHECK(pair.read([](RawStream& stream, std::uint32_t number) {
    const auto bytes = bytes_of(1);
    stream.send_checked(number, bytes, crc32c(std::as_bytes(std::span(bytes))));
  }) == Origin::kPeer);
  CHECK(pair.read([](RawStream& stream, std::uint32_t number) {
    stream.send_plain(number, std::vector<std::uint8_t>{1});
  }) == Origin::kSource);
  CHECK_THAT(pair.only_note(), Contains("has not all of its samples in memory"));
  // It is asked again.
  CHECK(pair.read([](RawStream& stream, std::uint32_t number) {
    stream.send_plain(number, std::vector<std::uint8_t>{2});
  }) == Origin::kSource);
  CHECK_THAT(pair.notes.all().back(), Contains("samples of more than"));
}

TEST_CASE("A member whose source stalls is asked again, and each request says how long it waits") {
  Pair pair;
  CHECK(pair.read([](RawStream& stream, std::uint32_t number) {
    stream.send_plain(number, std::vector<std::uint8_t>{4});
  }) == Origin::kSource);
  CHECK_THAT(pair.only_note(),
             Contains("worker 1 (127.0.0.1 port ") && Contains("has not read samples in time"));
  auto reading = std::async(std::launch::async, [&] { return pair.read(); });
  RawStream& stream = pair.other->asked_by_other();
  const auto frame = stream.receive_frame();
  PeerRequest request;
  REQUIRE(frame.bytes.size() == sizeof(request));
  std::memcpy(&request, frame.bytes.data(), sizeof(request));
  CHECK(request.wait_ms == kLongEnough.count() / 2);
  const auto bytes = bytes_of(1);
  stream.send_checked(frame.header.immediate, bytes, crc32c(std::as_bytes(std::span(bytes))));
  CHECK(reading.get() == Origin::kPeer);
  CHECK(pair.notes.all().size() == 1);
}

TEST_CASE("While its own source stalls, a member refuses others in time, and stays a member") {
  std::promise<void> gate;
  Pair pair(kLongEnough, gate.get_future().share());
  auto called = pair.other->call(0, 3, pair.key);
  REQUIRE(called);
  RawStream stream(std::move(*called));
  const std::vector<std::uint8_t> late = {4};
  stream.ask(0, 40, 1000, content_here(), std::chrono::milliseconds(1));
  CHECK(stream.receive_frame().bytes == late);
  stream.ask(1, 42);  // nobody waits a second time
  CHECK(stream.receive_frame().bytes == late);
  gate.set_value();
  REQUIRE(const_cast<Holder&>(pair.set->holder()).wait_until_loaded(kLongEnough));  // NOLINT
  stream.ask(2, 40);
  CHECK(stream.receive_frame().bytes == bytes_of(40));
  CHECK(pair.notes.all().empty());
}

TEST_CASE("A member that stalls is asked once, within the deadline") {
  Pair pair(std::chrono::milliseconds(20));
  CHECK(pair.read() == Origin::kSource);
  CHECK(pair.read(3) == Origin::kSource);
  CHECK(pair.read(5) == Origin::kSource);
  CHECK_THAT(pair.only_note(), Contains("it has not answered in 20 ms"));
  // The request and its connection have ended.
  RawStream& stream = pair.other->asked_by_other();
  CHECK(stream.receive_frame().bytes.size() == sizeof(PeerRequest));
  CHECK(stream.is_closed());
}

TEST_CASE("A member that stalls within an answer is given up too") {
  Pair pair(std::chrono::milliseconds(200));
  CHECK(pair.read([](RawStream& stream, std::uint32_t number) {
    const std::uint32_t check = transport::checked_frame_check(number, 100, 5);
    const transport::FrameHeader header{
        .magic = 5, .immediate = number, .bytes = 100, .check = check};
    stream.send(&header, sizeof(header));
  }) == Origin::kSource);
  CHECK_THAT(pair.only_note(), Contains("it has not answered in 200 ms"));
}

TEST_CASE("A member whose bytes are not those of its CRC32C is asked no more") {
  Pair pair;
  CHECK(pair.read([](RawStream& stream, std::uint32_t number) {
    const auto bytes = bytes_of(1);
    stream.send_checked(number, bytes, crc32c(std::as_bytes(std::span(bytes))) + 1);
  }) == Origin::kSource);
  CHECK_THAT(pair.only_note(), Contains("it sent sample 1 with CRC32C"));
  CHECK(pair.read() == Origin::kSource);
}

TEST_CASE("A member that sends what nobody asked for is asked no more") {
  using Answer = void (*)(RawStream&, std::uint32_t);
  const Answer answer = GENERATE(Answer([](RawStream& stream, std::uint32_t number) {
                                   stream.send_checked(number + 1, bytes_of(1), 0);
                                 }),
                                 Answer([](RawStream& stream, std::uint32_t number) {
                                   stream.send_plain(number, bytes_of(1));
                                 }),
                                 Answer([](RawStream& stream, std::uint32_t number) {
                                   stream.send_checked(number, std::vector<std::uint8_t>(1001), 0);
                                 }),
                                 Answer([](RawStream& stream, std::uint32_t) {
                                   const auto bytes = bytes_of(1);
                                   stream.send(bytes.data(), bytes.size());
                                 }));
  Pair pair;
  CHECK(pair.read(answer) == Origin::kSource);
  CHECK_THAT(pair.only_note(), Contains("it sent what this worker has not asked for"));
  CHECK(pair.other->asked_by_other().is_closed());
}

TEST_CASE("A member that refuses and answers one request at once is asked no more") {
  Pair pair;
  CHECK(pair.read([](RawStream& stream, std::uint32_t number) {
    stream.send_refused_and_begun(number, 1000);
  }) == Origin::kSource);
  CHECK(pair.other->asked_by_other().is_closed());
  CHECK(pair.read(3) == Origin::kSource);
  CHECK_THAT(pair.notes.all().back(), Contains("it sent what this worker has not asked for"));
}

TEST_CASE("Answers that nobody waits for end the connection") {
  Pair pair;
  RawStream& stream = pair.other->asked_by_other();
  for (std::uint32_t number = 0; number < 100; ++number) {
    stream.send_checked(number, bytes_of(1), 0);
  }
  CHECK(stream.is_closed());
  CHECK(pair.read() == Origin::kSource);
}

TEST_CASE("A member gets the samples that are held here, with their CRC32C") {
  Pair pair;
  auto called = pair.other->call(0, 3, pair.key);
  REQUIRE(called);
  RawStream stream(std::move(*called));
  for (std::uint32_t number = 0; number < 3; ++number) stream.ask(number, 2 * number);
  for (int i = 0; i < 3; ++i) {
    const auto frame = stream.receive_frame();
    const auto expected = bytes_of(2 * frame.header.immediate);
    CHECK(frame.bytes == expected);
    CHECK(frame.header.magic == crc32c(std::as_bytes(std::span(expected))));
  }
  stream.ask(77, 4, 10);
  CHECK(stream.receive_frame().bytes == std::vector<std::uint8_t>{2});
  // Where the sets differ, the sample's number means nothing.
  stream.ask(78, 1'000'000, 1000, content_here() + 1);
  CHECK(stream.receive_frame().bytes == std::vector<std::uint8_t>{3});
  CHECK_THAT(pair.only_note(), Contains("another set than this worker"));
  // Nobody else may be this member.
  CHECK_FALSE(pair.other->call(0, 3, pair.key, kShort));
  CHECK(pair.notes.all().size() == 1);
}

TEST_CASE("A member that asks for nonsense is closed, and named with the reason") {
  struct Case {
    std::string why;
    std::function<void(RawStream&)> ask;
  };
  const Case each = GENERATE(
      Case{"it asked for sample 1 of 101", [](RawStream& stream) { stream.ask(0, 1); }},
      Case{"it asked for sample 102 of 101", [](RawStream& stream) { stream.ask(0, 102); }},
      Case{"more than the 3 requests under way",
           [](RawStream& stream) { stream.ask_at_once(20, 4); }},
      Case{"a request of 5 bytes",
           [](RawStream& stream) { stream.send_plain(0, std::vector<std::uint8_t>(5)); }},
      Case{"it sent what this worker has not asked for",
           [](RawStream& stream) { stream.send_checked(0, bytes_of(1), 0); }});
  Pair pair;
  auto called = pair.other->call(0, 3, pair.key);
  REQUIRE(called);
  RawStream stream(std::move(*called));
  each.ask(stream);
  CHECK(stream.is_closed());
  CHECK_THAT(pair.only_note(), Contains("worker 1 (127.0.0.1 port ") &&
                                   Contains("gets no more samples") && Contains(each.why));
}

TEST_CASE("Who does not know the key is closed before it is answered, and keeps nobody out") {
  std::vector<PeerListener> listeners;
  for (int i = 0; i < 2; ++i) listeners.push_back(listen_here());
  const auto groups = groups_of(listeners, false);
  std::vector<UniqueFd> silent;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(listeners[0].port());
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)) == 0);
  }
  Store store(kSamples);
  Notes notes;
  FakeMember other(groups[1], std::move(listeners[1]));
  const auto set = begin_member(store, groups[0], std::move(listeners[0]), notes);
  client::Secret wrong = groups[0].key;
  wrong[0] ^= 1U;
  CHECK_FALSE(other.call(0, 3, wrong, kShort));
  CHECK_FALSE(other.call(0, 0, groups[0].key, kShort));
  CHECK_FALSE(other.call(0, kRequestsMax + 1, groups[0].key, kShort));
  CHECK(other.call(0, 3, groups[0].key));
}

}  // namespace
}  // namespace phub::data
