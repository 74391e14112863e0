#include "server/snapshot/file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "common/job/text.h"
#include "server/snapshot/digest.h"

namespace phub::server {
namespace {

constexpr const char* kFormat = "phub-snapshot";
constexpr const char* kSamples = "samples";
constexpr const char* kSamplesSeed = "samples_seed";
constexpr const char* kSamplesUsed = "samples_used";
constexpr const char* kRackRest = ".rack_rest";
constexpr std::uint64_t kNumberMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kElementsAtOnce = std::size_t{1} << 18;  // 1 MiB

// A run of elements of one key, contiguous in the arena.
struct FileRun {
  std::uint32_t key = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

std::vector<FileRun> runs_of(const Plan& plan, std::uint32_t server) {
  std::vector<FileRun> runs;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.server != server) continue;
    for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
      const Segment& segment = plan.segments[chunk.first_segment + i];
      const std::uint64_t end = segment.key_offset + segment.elements;
      const bool goes_on =
          !runs.empty() && runs.back().key == segment.key && runs.back().to == segment.key_offset;
      if (goes_on) {
        runs.back().to = end;
      } else {
        runs.push_back({segment.key, segment.key_offset, end});
      }
    }
  }
  return runs;
}

std::string name_of(const FileRun& run, const JobSpec& spec) {
  const KeySpec& key = spec.keys[run.key];
  const bool is_whole = run.from == 0 && run.to == key.elements;
  return is_whole ? key.name : fmt::format("{}[{}:{}]", key.name, run.from, run.to);
}

bool has_rack_rest(const JobSpec& spec) {
  return keeps_rack_rest(!spec.racks.empty(), spec.rack_compress, spec.rack_wire_type);
}

unsigned arrays_of(const JobSpec& spec) {
  return state_arrays(spec.rule, spec.ema_decay, spec.rack_local.is_on(), has_rack_rest(spec));
}

std::string state_name_of(const FileRun& run, const JobSpec& spec, unsigned array) {
  const std::string name = name_of(run, spec);
  const unsigned with_average = state_arrays(spec.rule, spec.ema_decay);
  if (array >= with_average) {
    if (!spec.rack_local.is_on() || array >= with_average + 2) return name + kRackRest;
    return name + (array == with_average ? ".racks_together" : ".outer_momentum");
  }
  if (array >= state_arrays(spec.rule)) return name + ".ema";
  if (state_arrays(spec.rule) == 1) return name + ".state";
  return fmt::format("{}.{}", name, state_name(spec.rule, array));
}

// Of tensors of one name a file could hold only one.
Status check_names(const std::vector<TensorView>& tensors) {
  std::unordered_set<std::string_view> names{"__metadata__"};
  for (const TensorView& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    return {Code::kFailedPrecondition,
            fmt::format("its keys cannot be told apart in a file: two tensors would have the name "
                        "\"{}\"; rename a key",
                        tensor.name)};
  }
  return {};
}

// `copy` null: as large, but without values and a checksum.
Result<SnapshotParts> parts_of(const SnapshotHead& head, const JobCopy* copy, const Plan& plan,
                               std::uint32_t server_index) {
  SnapshotParts parts;
  for (const FileRun& run : runs_of(plan, server_index)) {
    const std::uint64_t element = plan.key_offset[run.key] + run.from;
    const std::uint64_t count = run.to - run.from;
    const auto add = [&](std::string title, const float* values) {
      parts.tensors.push_back(
          {.name = std::move(title), .shape = {count}, .values = values, .elements = count});
    };
    add(name_of(run, head.spec), copy == nullptr ? nullptr : copy->parameters_at(element));
    for (unsigned array = 0; array < arrays_of(head.spec); ++array) {
      add(state_name_of(run, head.spec, array),
          copy == nullptr ? nullptr : copy->state_at(element, array));
    }
  }
  PHUB_RETURN_IF_ERROR(check_names(parts.tensors));
  parts.metadata = {{"format", kFormat},
                    {"version", std::to_string(kSnapshotVersion)},
                    {"job", text_of(head.spec)},
                    {"tenant", head.tenant},
                    {"round", std::to_string(head.round)},
                    {"created", head.created}};
  if (plan.core_chunks.size() > 1) {
    parts.metadata["core_load_bytes"] = fmt::format("{}", fmt::join(head.core_load_bytes, ","));
  }
  const std::uint64_t rounds = head.round - 1;  // of gradients
  if (head.samples.knows(rounds)) {
    parts.metadata[kSamples] = std::to_string(head.samples.samples);
    parts.metadata[kSamplesSeed] = std::to_string(head.samples.seed);
    parts.metadata[kSamplesUsed] = std::to_string(head.samples.used_after(rounds));
  }
  const std::uint64_t left_out = copy == nullptr ? head.left_out : copy->left_out();
  if (left_out > 0) parts.metadata["left_out"] = std::to_string(left_out);
  SnapshotDigest digest;
  if (copy != nullptr) {
    digest.add(parts.metadata);
    for (const TensorView& tensor : parts.tensors) {
      digest.begin(tensor.name, tensor.elements);
      digest.add({tensor.values, tensor.elements});
    }
  }
  parts.metadata["sha256"] = digest.text();
  return parts;
}

Result<std::string> text_in(const TensorMetadata& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found != metadata.end()) return found->second;
  return Status(Code::kDataLoss, "its metadata has no " + key + ": is it a snapshot?");
}

// Nothing: it is no number.
std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

Result<std::uint64_t> number_in(const TensorMetadata& metadata, const std::string& key) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, text_in(metadata, key));
  const std::optional<std::uint64_t> number = number_of(text);
  if (number) return *number;
  return Status(Code::kDataLoss, "its " + key + " is \"" + text + "\", no number");
}

Result<std::vector<std::uint64_t>> numbers_of(const std::string& text) {
  std::vector<std::uint64_t> numbers;
  const char* const end = text.data() + text.size();
  for (const char* next = text.data(); next < end;) {
    const auto parsed = std::from_chars(next, end, numbers.emplace_back());
    if (parsed.ec != std::errc() || (parsed.ptr != end && *parsed.ptr != ',')) {
      return Status(Code::kDataLoss, "its core_load_bytes are \"" + text + "\", no numbers");
    }
    next = parsed.ptr + 1;
  }
  return numbers;
}

bool is_version_that_is_read(const std::string& version) {
  return version == "1" || version == std::to_string(kSnapshotVersion);
}

// Where the elements of each tensor go.
using Places = std::unordered_map<std::string_view, float*>;

// Reads every tensor in order, to its place or to nowhere, and compares the checksum.
Status read_all(const SafetensorsReader& file, const SnapshotHead& head, const Places& places) {
  SnapshotDigest digest;
  if (file.metadata().at("version") != "1") digest.add(file.metadata());
  std::vector<float> passing;
  for (const TensorEntry& tensor : file.tensors()) {
    if (tensor.is_counter) return {Code::kDataLoss, "it has integers: is it a snapshot?"};
    digest.begin(tensor.name, tensor.elements());
    const auto place = places.find(tensor.name);
    for (std::uint64_t at = 0; at < tensor.elements(); at += kElementsAtOnce) {
      const std::size_t count = std::min<std::uint64_t>(kElementsAtOnce, tensor.elements() - at);
      if (place == places.end()) passing.resize(kElementsAtOnce);
      const std::span to(place == places.end() ? passing.data() : place->second + at, count);
      PHUB_RETURN_IF_ERROR(file.read(tensor, at, to));
      digest.add(to);
    }
  }
  const std::string found = digest.text();
  if (found == head.sha256) return {};
  return {Code::kDataLoss, fmt::format("it has the checksum {} but was written with {}: it is "
                                       "damaged or was edited, take another",
                                       found, head.sha256)};
}

}  // namespace

Result<SnapshotParts> snapshot_parts(const SnapshotHead& head, const JobCopy& copy,
                                     const Plan& plan, std::uint32_t server_index) {
  return parts_of(head, &copy, plan, server_index);
}

Result<std::uint64_t> snapshot_bytes(const SnapshotHead& head, const Plan& plan,
                                     std::uint32_t server_index) {
  SnapshotHead longest = head;
  longest.round = kNumberMax;
  // Votes leave out rounds, and so do norms that are not finite.
  const bool may_leave_out =
      head.spec.loss_scale.kind == LossScaling::kVoted || head.spec.clip_norm > 0.0F;
  if (may_leave_out) longest.left_out = kNumberMax;
  // Workers may say what they use while the copy is made.
  longest.samples = {
      .samples = kNumberMax, .seed = kNumberMax, .round = kNumberMax - 1, .used = kNumberMax};
  longest.core_load_bytes.assign(plan.core_chunks[server_index].size(), kNumberMax);
  PHUB_ASSIGN_OR_RETURN(const SnapshotParts parts, parts_of(longest, nullptr, plan, server_index));
  return safetensors_bytes(parts.tensors, parts.metadata);
}

Result<SnapshotHead> head_of(const TensorMetadata& metadata) {
  PHUB_ASSIGN_OR_RETURN(const std::string format, text_in(metadata, "format"));
  PHUB_ASSIGN_OR_RETURN(const std::string version, text_in(metadata, "version"));
  if (format != kFormat || !is_version_that_is_read(version)) {
    return Status(Code::kDataLoss,
                  fmt::format("it is a \"{}\" of version {}; this server reads {} of versions 1 "
                              "to {}",
                              format, version, kFormat, int{kSnapshotVersion}));
  }
  SnapshotHead head;
  PHUB_ASSIGN_OR_RETURN(const std::string text, text_in(metadata, "job"));
  Result<JobSpec> spec = spec_from_text(text);
  if (!spec) return Status(Code::kDataLoss, "its job: " + spec.error().message());
  head.spec = std::move(*spec);
  PHUB_ASSIGN_OR_RETURN(head.tenant, text_in(metadata, "tenant"));
  PHUB_ASSIGN_OR_RETURN(head.created, text_in(metadata, "created"));
  PHUB_ASSIGN_OR_RETURN(head.sha256, text_in(metadata, "sha256"));
  PHUB_ASSIGN_OR_RETURN(const std::string round, text_in(metadata, "round"));
  head.round = number_of(round).value_or(0);
  if (head.round == 0) {
    return Status(Code::kDataLoss, "its round is \"" + round + "\", no number above 0");
  }
  if (const auto found = metadata.find("left_out"); found != metadata.end()) {
    head.left_out = number_of(found->second).value_or(head.round);
    if (head.left_out >= head.round) {
      return Status(Code::kDataLoss,
                    "its left_out is \"" + found->second + "\", no number below its round");
    }
  }
  if (const auto load = metadata.find("core_load_bytes"); load != metadata.end()) {
    PHUB_ASSIGN_OR_RETURN(head.core_load_bytes, numbers_of(load->second));
  }
  if (metadata.contains(kSamples)) {
    PHUB_ASSIGN_OR_RETURN(head.samples.samples, number_in(metadata, kSamples));
    PHUB_ASSIGN_OR_RETURN(head.samples.seed, number_in(metadata, kSamplesSeed));
    PHUB_ASSIGN_OR_RETURN(head.samples.used, number_in(metadata, kSamplesUsed));
    head.samples.round = head.round - 1;
    const Status sense = check(head.samples);
    if (!sense.ok()) return Status(Code::kDataLoss, "its " + sense.message());
  }
  return head;
}

Status verify(const SafetensorsReader& file, const SnapshotHead& head) {
  return read_all(file, head, {});
}

Result<std::shared_ptr<JobCopy>> job_copy_from(const SafetensorsReader& file,
                                               const SnapshotHead& head, const Plan& plan,
                                               std::uint32_t server_index) {
  const unsigned arrays = arrays_of(head.spec);
  PHUB_ASSIGN_OR_RETURN(auto copy, JobCopy::create(plan, server_index, arrays));
  copy->round = head.round;
  copy->note_left_out(head.left_out);
  copy->samples = head.samples;
  PHUB_ASSIGN_OR_RETURN(const SnapshotParts wanted, parts_of(head, nullptr, plan, server_index));
  std::unordered_map<std::string_view, const TensorEntry*> there;
  for (const TensorEntry& tensor : file.tensors()) there[tensor.name] = &tensor;
  Places places;
  const TensorView* lacking = nullptr;
  std::size_t next = 0;
  for (const FileRun& run : runs_of(plan, server_index)) {
    const std::uint64_t element = plan.key_offset[run.key] + run.from;
    for (unsigned array = 0; array <= arrays; ++array) {  // the parameters, then the state
      float* const to =
          array == 0 ? copy->parameters_at(element) : copy->state_at(element, array - 1);
      const TensorView& tensor = wanted.tensors[next++];
      const auto found = there.find(tensor.name);
      const bool fits = found != there.end() && found->second->elements() == tensor.elements;
      if (fits) places[tensor.name] = to;
      if (!fits && lacking == nullptr) lacking = &tensor;
    }
  }
  PHUB_RETURN_IF_ERROR(read_all(file, head, places));
  if (lacking == nullptr) return copy;
  return Status(Code::kFailedPrecondition,
                fmt::format("it has no tensor {} of {} elements; a snapshot that several servers "
                            "wrote is restored on as many, in the same order",
                            lacking->name, lacking->elements));
}

}  // namespace phub::server
