#include "worker/train/checkpoints/kept_checkpoints.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "worker/train/checkpoints/checkpoint.h"

namespace phub::train {
namespace {

namespace fs = std::filesystem;

fs::path named(const fs::path& checkpoint, const std::string& what) {
  fs::path path = checkpoint;
  return path.replace_filename(checkpoint.stem().string() + "." + what +
                               checkpoint.extension().string());
}

// A second name for the file, where the disk has that, else a copy.
Status link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::remove(to, error);
  fs::create_hard_link(from, to, error);
  if (!error) return {};
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (!error) return {};
  return {Code::kInternal,
          "train.checkpoint_last: cannot keep " + to.string() + ": " + error.message()};
}

// Steps in the names of "model.step-*.safetensors", but for those of momentum.
std::vector<std::uint64_t> steps_there(const fs::path& checkpoint) {
  const std::string begin = checkpoint.stem().string() + ".step-";
  const std::string end = checkpoint.extension().string();
  std::vector<std::uint64_t> steps;
  std::error_code error;
  const fs::path folder = checkpoint.has_parent_path() ? checkpoint.parent_path() : ".";
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(end)) continue;
    if (name.size() <= begin.size() + end.size()) continue;
    const char* const last = name.data() + name.size() - end.size();
    std::uint64_t step = 0;
    const auto parsed = std::from_chars(name.data() + begin.size(), last, step);
    if (parsed.ec == std::errc() && parsed.ptr == last) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

fs::path step_path(const fs::path& checkpoint, std::uint64_t next_step) {
  return named(checkpoint, "step-" + std::to_string(next_step));
}

fs::path best_path(const fs::path& checkpoint) { return named(checkpoint, "best"); }

std::vector<fs::path> checkpoints_there(const fs::path& checkpoint) {
  std::vector<fs::path> paths;
  std::error_code error;
  if (fs::exists(checkpoint, error)) paths.push_back(checkpoint);
  const std::vector<std::uint64_t> steps = steps_there(checkpoint);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    paths.push_back(step_path(checkpoint, *step));
  }
  return paths;
}

LastCheckpoints::LastCheckpoints(fs::path checkpoint, std::uint32_t count, std::uint64_t first_step)
    : checkpoint_(std::move(checkpoint)), count_(count) {
  if (count_ == 0 || first_step == 0) return;
  for (const std::uint64_t step : steps_there(checkpoint_)) {
    if (step <= first_step) steps_.push_back(step);
  }
}

Status LastCheckpoints::keep(std::uint64_t next_step) {
  if (count_ == 0) return {};
  const fs::path kept = step_path(checkpoint_, next_step);
  const fs::path momentum = optimizer_path(checkpoint_, next_step);
  std::error_code error;
  if (fs::exists(momentum, error)) {
    PHUB_RETURN_IF_ERROR(link_or_copy(momentum, optimizer_path(kept, next_step)));
  }
  PHUB_RETURN_IF_ERROR(link_or_copy(checkpoint_, kept));
  if (steps_.empty() || steps_.back() != next_step) steps_.push_back(next_step);
  for (; steps_.size() > count_; steps_.pop_front()) {
    const fs::path oldest = step_path(checkpoint_, steps_.front());
    fs::remove(oldest, error);
    fs::remove(optimizer_path(oldest, steps_.front()), error);
  }
  return {};
}

double accuracy_of_best(const fs::path& checkpoint, std::uint64_t first_step) {
  if (first_step == 0) return -1.0;
  const auto best = read_position(best_path(checkpoint));
  return best && best->next_step <= first_step ? best->test_accuracy : -1.0;
}

}  // namespace phub::train
