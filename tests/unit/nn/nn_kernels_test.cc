// How the CPU backend chooses kernels: the race, what is remembered of it, and what the rules say.
#include <catch2/catch.hpp>
#include <sstream>

#include "tests/support/temporary_directory.h"
#include "worker/nn/onednn/choice/kernel_book.h"
#include "worker/nn/onednn/choice/processor.h"

namespace phub::nn::onednn {
namespace {

// Runs that take what a list says, turn by turn, its last again and again.
class MadeUp {
 public:
  explicit MadeUp(std::vector<double> seconds) : seconds_(std::move(seconds)) {}

  Racer racer(const std::string& name) {
    return {name, [this](std::size_t times) -> Result<double> {
              const double each = seconds_[std::min(calls_++, seconds_.size() - 1)];
              runs_ += times;
              if (each < 0.0) return Status(Code::kInternal, "it failed");
              return each * static_cast<double>(times);
            }};
  }
  std::size_t calls() const { return calls_; }
  std::size_t runs() const { return runs_; }

 private:
  std::vector<double> seconds_;
  std::size_t calls_ = 0;
  std::size_t runs_ = 0;
};

std::size_t winner_of(std::vector<MadeUp>& all) {
  std::vector<Racer> racers;
  for (MadeUp& each : all) racers.push_back(each.racer(std::to_string(racers.size())));
  const auto result = race(racers);
  REQUIRE(result);
  REQUIRE(result->times.size() == all.size());
  return result->winner;
}

TEST_CASE("A kernel takes the favourite's place if it is 3 % faster, and not if it is 2 %") {
  std::vector<MadeUp> by_two = {MadeUp({1e-3}), MadeUp({0.98e-3})};
  CHECK(winner_of(by_two) == 0);
  std::vector<MadeUp> by_four = {MadeUp({1e-3}), MadeUp({0.96e-3})};
  CHECK(winner_of(by_four) == 1);
  std::vector<MadeUp> best_of_three = {MadeUp({1e-3}), MadeUp({0.9e-3}), MadeUp({0.7e-3})};
  CHECK(winner_of(best_of_three) == 2);
  // A third that is about as fast as the second does not push it out.
  std::vector<MadeUp> alike = {MadeUp({1e-3}), MadeUp({0.7e-3}), MadeUp({0.69e-3})};
  CHECK(winner_of(alike) == 1);
}

TEST_CASE("Noise does not choose: faster in the median is not enough where rounds disagree") {
  // Of every five rounds three are clearly below, and two are clearly above.
  std::vector<double> noisy;
  for (int i = 0; i < 40; ++i) noisy.push_back(i % 5 < 3 ? 0.9e-3 : 1.1e-3);
  std::vector<MadeUp> all = {MadeUp({1e-3}), MadeUp(noisy)};
  CHECK(winner_of(all) == 0);
  CHECK_FALSE(is_clearly_faster(std::vector{0.9, 0.9, 1.1, 1.1}, std::vector{1.0, 1.0, 1.0, 1.0}));
  CHECK(is_clearly_faster(std::vector{0.9, 0.9, 0.9, 1.1}, std::vector{1.0, 1.0, 1.0, 1.0}));
}

TEST_CASE("A machine that grows slower while it measures slows all kernels alike") {
  std::vector<double> favourite, other;
  for (int i = 0; i < 40; ++i) {
    favourite.push_back(1e-3 * (1 + 0.1 * i));
    other.push_back(0.9e-3 * (1 + 0.1 * i));
  }
  std::vector<MadeUp> all = {MadeUp(favourite), MadeUp(other)};
  CHECK(winner_of(all) == 1);
}

TEST_CASE("What is hopeless is tried and not raced, and what is quick is run many times a turn") {
  std::vector<MadeUp> all = {MadeUp({1e-5}), MadeUp({1e-3}), MadeUp({0.9e-5})};
  CHECK(winner_of(all) == 2);
  CHECK(all[1].calls() == 1 + RaceOptions{}.trials);
  CHECK(all[0].runs() > 10 * all[0].calls());
}

TEST_CASE("What was interrupted once in its trial is raced all the same") {
  std::vector<MadeUp> all = {MadeUp({1e-3}), MadeUp({0.8e-3, 12e-3, 0.8e-3})};
  CHECK(winner_of(all) == 1);
}

TEST_CASE("A race ends: after its rounds, or when its time is over") {
  std::vector<MadeUp> quick = {MadeUp({1e-3}), MadeUp({1e-3})};
  CHECK(winner_of(quick) == 0);
  CHECK(quick[0].calls() == 1 + RaceOptions{}.trials + RaceOptions{}.rounds_max);
  std::vector<MadeUp> slow = {MadeUp({1.0}), MadeUp({1.0})};
  CHECK(winner_of(slow) == 0);
  CHECK(slow[0].calls() == 2 + RaceOptions{}.rounds_min);
}

TEST_CASE("Kernels that fail are left out, and a race of none says why") {
  std::vector<MadeUp> at_once = {MadeUp({-1.0}), MadeUp({1e-3})};
  CHECK(winner_of(at_once) == 1);
  std::vector<MadeUp> later = {MadeUp({1e-3, 1e-3, 1e-3, -1.0}), MadeUp({1.5e-3})};
  CHECK(winner_of(later) == 1);
  MadeUp none({-1.0});
  const std::vector<Racer> racers = {none.racer("only")};
  const auto result = race(racers);
  REQUIRE_FALSE(result);
  CHECK(result.error().message() == "it failed");
}

const KernelScope kScope{.processor = "a", .isa = "avx2", .onednn = "2.6.3", .threads = 2};
const KernelChoice kChoice{.operation = "forward",
                           .kernel = "own",
                           .is_known = true,
                           .times = {{"nhwc jit", 2.5}, {"own", 1.5}}};

struct Notes {
  std::vector<std::string> all;
  KernelCache::Note note() {
    return [this](std::string_view text) { all.emplace_back(text); };
  }
};

TEST_CASE("A choice is read back, for the same processor, instruction set, version and threads") {
  const TemporaryDirectory folder;
  const auto file = folder.path / "kernels.jsonl";
  Notes notes;
  KernelCache(file, kScope, notes.note()).add(kChoice);
  CHECK(KernelCache(file, kScope, notes.note()).find("forward") == kChoice);
  CHECK_FALSE(KernelCache(file, kScope, notes.note()).find("backward"));
  std::vector<KernelScope> others(4, kScope);
  others[0].processor = "b";
  others[1].isa = "avx512_core";
  others[2].onednn = "2.7.0";
  others[3].threads = 1;
  for (const KernelScope& other : others) {
    CHECK_FALSE(KernelCache(file, other, notes.note()).find("forward"));
    KernelChoice another = kChoice;
    another.kernel = "nhwc jit";
    KernelCache(file, other, notes.note()).add(another);
  }
  CHECK(KernelCache(file, kScope, notes.note()).find("forward") == kChoice);
  CHECK(notes.all.empty());
}

TEST_CASE("Of runs that measure the same at the same time the first one's choice counts for all") {
  const TemporaryDirectory folder;
  const auto file = folder.path / "kernels.jsonl";
  Notes notes;
  KernelCache one(file, kScope, notes.note()), other(file, kScope, notes.note());
  one.add(kChoice);
  KernelChoice later = kChoice;
  later.kernel = "nhwc jit";
  CHECK(other.add(later).kernel == "own");
  KernelChoice more = kChoice;
  more.operation = "backward";
  other.add(more);
  const KernelCache both(file, kScope, notes.note());
  CHECK(both.find("forward"));
  CHECK(both.find("backward"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("Runs measure in turn: a lock is held by one, and what it wrote is known to the next") {
  const TemporaryDirectory folder;
  const auto file = folder.path / "kernels.jsonl";
  Notes notes;
  KernelCache one(file, kScope, notes.note()), other(file, kScope, notes.note());
  {
    const UniqueFd held = one.lock();
    REQUIRE(held);
    one.add(kChoice);
  }
  CHECK_FALSE(other.find("forward"));
  const UniqueFd held = other.lock();
  REQUIRE(held);
  CHECK(other.find("forward") == kChoice);
}

TEST_CASE("Damaged lines are ignored with one note, and the others count") {
  const TemporaryDirectory folder;
  const auto file = folder.path / "kernels.jsonl";
  Notes notes;
  KernelCache(file, kScope, notes.note()).add(kChoice);
  const std::string good = folder.read("kernels.jsonl");
  const std::string entry = good.substr(good.find('\n') + 1);
  // Cut short, of other types, of nothing.
  folder.write("kernels.jsonl",
               good + entry.substr(0, entry.size() / 2) + "\n[]\nnull\n{}\n\x01\xff\n");
  KernelCache damaged(file, kScope, notes.note());
  CHECK(damaged.find("forward") == kChoice);
  REQUIRE(notes.all.size() == 1);
  CHECK(notes.all[0] == file.string() + ":3: 5 lines are damaged and ignored");
  KernelChoice more = kChoice;
  more.operation = "backward";
  damaged.add(more);
  CHECK(notes.all.size() == 1);
  KernelCache mended(file, kScope, notes.note());
  CHECK(mended.find("forward"));
  CHECK(mended.find("backward"));
  CHECK(notes.all.size() == 1);
}

TEST_CASE("A file that is somebody else's is left alone, with a note that says what to do") {
  const TemporaryDirectory folder;
  const auto file = folder.path / "kernels.jsonl";
  for (const char* text : {"a letter\n", "{\"phub_kernels\": 2}\n", "{\"cudnn\": 91900}\n"}) {
    folder.write("kernels.jsonl", text);
    Notes notes;
    KernelCache cache(file, kScope, notes.note());
    CHECK_FALSE(cache.find("forward"));
    CHECK(cache.add(kChoice) == kChoice);
    CHECK(cache.find("forward") == kChoice);
    CHECK(folder.read("kernels.jsonl") == text);
    REQUIRE(notes.all.size() == 1);
    CHECK(notes.all[0].find("is no cache of measured kernels") != std::string::npos);
    CHECK(notes.all[0].find("give another file") != std::string::npos);
  }
  Notes notes;
  KernelCache at_a_folder(folder.path, kScope, notes.note());
  CHECK(notes.all.size() == 1);
}

TEST_CASE("Where nothing can be written the choice is good for the run, with a note") {
  Notes notes;
  KernelCache cache("/proc/no such folder/kernels.jsonl", kScope, notes.note());
  CHECK_FALSE(cache.lock());
  CHECK(cache.add(kChoice) == kChoice);
  CHECK(cache.find("forward") == kChoice);
  REQUIRE(notes.all.size() == 1);
  CHECK(notes.all[0].find("lost with this run") != std::string::npos);
}

// Three kernels: the library's two and ours. Counts what is prepared.
struct Kernels {
  std::vector<MadeUp> times = {MadeUp({1e-3}), MadeUp({0.5e-3}), MadeUp({0.8e-3})};
  std::size_t prepared = 0;

  std::vector<OfferedKernel> all() {
    std::vector<OfferedKernel> kernels(3);
    kernels[0].name = "nhwc jit";
    kernels[1] = {.name = "any jit", .is_blocked = true, .prepare = {}};
    kernels[2] = {.name = "own", .is_own = true, .prepare = {}};
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      kernels[i].prepare = [this, i] {
        ++prepared;
        return times[i].racer("").seconds;
      };
    }
    return kernels;
  }
};

KernelOptions options_of(KernelRule rule, const std::filesystem::path& cache, Notes& notes,
                         std::vector<KernelChoice>& chosen) {
  return {.rule = rule,
          .cache = cache,
          .note = notes.note(),
          .chosen = [&](const KernelChoice& choice) { chosen.push_back(choice); }};
}

TEST_CASE("Rules force a kernel without a measurement") {
  const std::pair<KernelRule, std::size_t> expected[] = {
      {KernelRule::kOwn, 2}, {KernelRule::kLibrary, 0}, {KernelRule::kBlocked, 1}};
  for (const auto& [rule, index] : expected) {
    Notes notes;
    std::vector<KernelChoice> chosen;
    Kernels kernels;
    KernelBook book(options_of(rule, {}, notes, chosen), 1);
    CHECK(*book.choose("forward", kernels.all()) == index);
    CHECK(kernels.prepared == 0);
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].is_known);
    // Ours first, then the layout that is preferred, then the library's first.
    std::vector<OfferedKernel> without_ours = kernels.all();
    without_ours.pop_back();
    if (rule == KernelRule::kOwn) CHECK(*book.choose("other", without_ours) == 0U);
    without_ours[1].is_preferred = true;
    if (rule == KernelRule::kOwn) CHECK(*book.choose("third", without_ours) == 1U);
  }
  CHECK(parse_kernel_rule("measured") == KernelRule::kMeasured);
  CHECK_FALSE(parse_kernel_rule("fastest"));
}

TEST_CASE("An operation is measured once: for all its layers, and for later runs") {
  const TemporaryDirectory folder;
  const auto file = folder.path / "kernels.jsonl";
  Notes notes;
  std::vector<KernelChoice> chosen;
  Kernels kernels;
  {
    KernelBook book(options_of(KernelRule::kMeasured, file, notes, chosen), 1);
    CHECK(*book.choose("forward", kernels.all()) == 1U);
    CHECK(*book.choose("forward", kernels.all()) == 1U);
  }
  CHECK(kernels.prepared == 3);
  REQUIRE(chosen.size() == 1);
  CHECK_FALSE(chosen[0].is_known);
  CHECK(chosen[0].times.size() == 3);
  REQUIRE(notes.all.size() == 1);  // that it measures, and where that is kept
  CHECK(notes.all[0].find(file.string()) != std::string::npos);
  KernelBook later(options_of(KernelRule::kMeasured, file, notes, chosen), 1);
  CHECK(*later.choose("forward", kernels.all()) == 1U);
  CHECK(kernels.prepared == 3);
  CHECK(chosen.back().is_known);
  KernelBook on_two(options_of(KernelRule::kMeasured, file, notes, chosen), 2);
  CHECK(*on_two.choose("forward", kernels.all()) == 1U);
  CHECK(kernels.prepared == 6);
}

TEST_CASE("A kernel of the cache that there is no more is measured again, with a note") {
  const TemporaryDirectory folder;
  const auto file = folder.path / "kernels.jsonl";
  Notes notes;
  std::vector<KernelChoice> chosen;
  Kernels kernels;
  const KernelOptions options = options_of(KernelRule::kMeasured, file, notes, chosen);
  KernelBook(options, 1).choose("forward", kernels.all()).value();
  std::string text = folder.read("kernels.jsonl");
  const std::string good = R"("kernel":"any jit")";
  REQUIRE(text.find(good) != std::string::npos);
  folder.write("kernels.jsonl", text.replace(text.find(good), good.size(), R"("kernel":"amx")"));
  notes.all.clear();
  CHECK(*KernelBook(options, 1).choose("forward", kernels.all()) == 1U);
  CHECK(kernels.prepared == 6);
  REQUIRE(notes.all.size() == 2);
  CHECK(notes.all[0].find("\"amx\"") != std::string::npos);
  CHECK(folder.read("kernels.jsonl").find(good) != std::string::npos);
}

TEST_CASE("Without a file nothing is measured, so that a run can be repeated") {
  Notes notes;
  std::vector<KernelChoice> chosen;
  Kernels kernels;
  KernelBook book(options_of(KernelRule::kMeasured, {}, notes, chosen), 1);
  CHECK(*book.choose("forward", kernels.all()) == 2U);
  CHECK(kernels.prepared == 0);
  CHECK(notes.all.size() == 1);
}

TEST_CASE("A processor is its maker, family, model and stepping") {
  std::istringstream intel(
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n"
      "model name\t: Intel(R) Xeon(R) Processor\nstepping\t: 2\ncpu MHz\t\t: 2300.000\n\n"
      "processor\t: 1\nvendor_id\t: Another\n");
  CHECK(processor_of(intel) ==
        "vendor_id GenuineIntel, cpu family 6, model 207, stepping 2, model name Intel(R) Xeon(R) "
        "Processor");
  std::istringstream arm(
      "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n"
      "CPU architecture: 8\nCPU part\t: 0xd0c\nCPU revision\t: 1\n");
  CHECK(processor_of(arm) ==
        "CPU implementer 0x41, CPU architecture 8, CPU part 0xd0c, CPU revision 1");
  std::istringstream nothing("");
  CHECK(processor_of(nothing) == "unknown");
  CHECK(processor_name() != "unknown");
  CHECK(instruction_set().find("isa ") == std::string::npos);
}

}  // namespace
}  // namespace phub::nn::onednn
