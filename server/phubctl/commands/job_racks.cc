// What `job inspect` and `job plan` show of a job that spans racks.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/plan/rack_trees.h"
#include "common/text/message_json.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/explain/racks.h"

namespace phub::phubctl {
namespace {

// Larger trees are no help to the eye.
constexpr int kRacksDrawn = 16;
constexpr std::size_t kTreesDrawn = 4;

// The racks of a tree, each below the one that its sums go to.
class Drawing {
 public:
  Drawing(const control::JobInfo& job, const RackTree& tree) : job_(job), tree_(tree) {}

  std::string text() {
    const auto root = std::find(tree_.parent.begin(), tree_.parent.end(), RackTree::kNone);
    draw(static_cast<std::uint32_t>(root - tree_.parent.begin()), "  ", "  ");
    return text_;
  }

 private:
  void draw(std::uint32_t rack, const std::string& line, const std::string& below) {
    const std::string& name = job_.spec().racks(static_cast<int>(rack)).name();
    text_ += fmt::format("{}{}{}\n", line, name, name == job_.rack() ? " (here)" : "");
    std::vector<std::uint32_t> children;
    for (std::uint32_t other = 0; other < tree_.parent.size(); ++other) {
      if (tree_.is_below(other, rack)) children.push_back(other);
    }
    for (const std::uint32_t child : children) {
      const bool is_last = child == children.back();
      draw(child, below + (is_last ? "`- " : "|- "), below + (is_last ? "   " : "|  "));
    }
  }

  const control::JobInfo& job_;
  const RackTree& tree_;
  std::string text_;
};

std::string group_text(const control::JobInfo& job, const std::vector<RackTree>& trees,
                       std::size_t drawn) {
  std::string text;
  for (std::size_t i = 0; i < std::min(trees.size(), drawn); ++i) {
    text += fmt::format("tree {} of {}\n{}", i + 1, trees.size(), Drawing(job, trees[i]).text());
  }
  if (trees.size() > drawn) {
    text += fmt::format("and {} more, each with another root\n", trees.size() - drawn);
  }
  return text;
}

std::string trees_text(const control::JobInfo& job) {
  const int racks = job.spec().racks_size();
  const auto shape = rack_shape_of(enum_word(job.spec().rack_shape()));
  if (!shape || racks > kRacksDrawn) return "";
  std::vector<std::string> names;
  for (const control::JobRack& rack : job.spec().racks()) names.push_back(rack.name());
  const std::vector<RackTree> trees = make_rack_trees(names, *shape);
  const std::string text =
      "\nsums go up to a tree's root, which makes the update; replies go down\n";
  const std::uint32_t small = small_key_trees(static_cast<std::uint32_t>(racks), *shape);
  if (small == 0) return text + group_text(job, trees, kTreesDrawn);
  return text + "keys that are small:\n" +
         group_text(job, {trees.begin(), trees.begin() + small}, kTreesDrawn / 2) + "others:\n" +
         group_text(job, {trees.begin() + small, trees.end()}, kTreesDrawn / 2);
}

std::string rate_text(double bytes, const control::JobTiming& timing) {
  if (timing.round_seconds() <= 0.0) return "-";
  return human_bytes(static_cast<std::uint64_t>(bytes / timing.round_seconds())) + "/s";
}

std::string links_table(const control::JobInfo& job) {
  Table table(
      "LINK TO RACK|>WORKERS|>SUMS UP|>THEIR REPLIES|>SUMS FROM BELOW|>THEIR "
      "REPLIES|>OUT|>IN|>LATE|"
      ">ALL WITHIN|>LAST IN");
  const control::JobTiming& timing = job.timing();
  for (const control::RackLink& link : job.rack_links()) {
    const auto found = std::find_if(timing.racks().begin(), timing.racks().end(),
                                    [&](const auto& rack) { return rack.rack() == link.rack(); });
    const control::RackTiming* const rack = found == timing.racks().end() ? nullptr : &*found;
    const auto round = round_of(link, job);
    table.add({link.rack(), human_count(link.workers()), human_bytes(link.bytes_up_sent()),
               human_bytes(link.bytes_up_received()), human_bytes(link.bytes_down_received()),
               human_bytes(link.bytes_down_sent()),
               round ? rate_text(round->bytes_sent, timing) : "-",
               round ? rate_text(round->bytes_received, timing) : "-",
               rack == nullptr ? "-" : human_time(rack->late_seconds()),
               rack == nullptr ? "-" : human_time(rack->arrival_seconds()),
               rack == nullptr ? "-" : human_share(rack->last_share())});
  }
  return table.to_string();
}

// Which of them bounds the job.
std::string bound_text(const control::JobInfo& job) {
  const control::JobTiming& timing = job.timing();
  const control::RackTiming* const last = last_rack(timing);
  if (last == nullptr) return "";
  return fmt::format(
      "a round waits {} ({}) for other racks, most often for {}; `phubctl job explain` says more\n",
      human_time(timing.racks_seconds()),
      human_share(timing.racks_seconds() / timing.round_seconds()), last->rack());
}

}  // namespace

std::string racks_text(const control::JobInfo& job) {
  if (job.rack_links().empty()) return "";
  return trees_text(job) + "\n" + links_table(job) + bound_text(job);
}

std::string roots_text(const control::PlanReply& plan) {
  if (plan.racks().empty()) return "";
  std::uint64_t all = 0;
  for (const control::RackRoots& rack : plan.racks()) all += rack.bytes();
  Table table("ROOT IN RACK|>CHUNKS|>BYTES|>SHARE");
  for (const control::RackRoots& rack : plan.racks()) {
    const double share =
        all == 0 ? 0.0 : static_cast<double>(rack.bytes()) / static_cast<double>(all);
    table.add(
        {rack.rack(), human_count(rack.chunks()), human_bytes(rack.bytes()), human_share(share)});
  }
  return "\n" + table.to_string();
}

}  // namespace phub::phubctl
