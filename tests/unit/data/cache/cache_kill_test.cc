// A process that ends anywhere leaves whole contents, or none.
#include "tests/support/killed_process.h"
#include "tests/unit/data/cache/kept.h"

namespace phub::data::cache::test {
namespace {

using phub::testing::Killed;
using phub::testing::run_and_kill;

constexpr std::uint64_t kSamples = 6;

TEST_CASE("a process that is killed at any call leaves a store that others open and fill") {
  const TemporaryDirectory directory;
  bool has_ended = false;
  for (unsigned call = 0; !has_ended; ++call) {
    const auto folder = directory.path / std::to_string(call);
    std::filesystem::create_directory(folder);
    // A killed process comes twice to the same folder: to an empty one, and to what one left.
    for (int again = 0; again < 2; ++again) {
      const Killed killed = run_and_kill(call, [&] {
        const auto store = SampleStore::open(subject(7, kSamples), place(folder), {});
        if (!store) return;
        for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
          if (!(*store)->find(sample)) (*store)->keep(sample, content_of(sample));
        }
      });
      if (killed == Killed::kCannot) {
        WARN("this system does not let a process be stopped at its calls");
        return;
      }
      if (again == 0) has_ended = killed == Killed::kNever;
    }
    CAPTURE(call);
    const auto store = opened(subject(7, kSamples), place(folder));
    const std::uint64_t kept = count_right(*store, kSamples);
    for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
      if (!store->find(sample)) store->keep(sample, content_of(sample));
    }
    CHECK(count_right(*store, kSamples) == kSamples);
    if (has_ended) CHECK(kept == kSamples);
    CHECK(stores_in(folder).size() == 1);
  }
}

TEST_CASE("a process that is killed while it removes a store leaves none of it behind") {
  const TemporaryDirectory directory;
  bool has_ended = false;
  for (unsigned call = 0; !has_ended; ++call) {
    const auto folder = directory.path / std::to_string(call);
    std::filesystem::create_directory(folder);
    opened(subject(7, kSamples), place(folder))->keep(1, content_of(1));
    const auto path = stores_in(folder).at(0);
    const Killed killed = run_and_kill(call, [&] { (void)removed(path); });
    if (killed == Killed::kCannot) return;
    has_ended = killed == Killed::kNever;
    CAPTURE(call);
    std::vector<std::string> notes;
    const auto store = opened(subject(7, kSamples), place(folder), &notes);
    CHECK(notes.empty());
    store->keep(2, content_of(2));
    CHECK(has(*store, 2, content_of(2)));
    // The store and the folder's lock.
    CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
  }
}

}  // namespace
}  // namespace phub::data::cache::test
