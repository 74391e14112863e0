#include "server/snapshot/snapshot_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "server/control_service_spec.h"

namespace phub::server {
namespace {

constexpr const char* kFormat = "phub-snapshot";
constexpr const char* kVersion = "1";
constexpr const char* kStateSuffix = ".state";

// A run of elements of one key, contiguous in the arena.
struct Run {
  std::uint32_t key = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

std::vector<Run> runs_of(const Plan& plan, std::uint32_t server) {
  std::vector<Run> runs;
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

std::string name_of(const Run& run, const JobSpec& spec) {
  const JobKey& key = spec.keys[run.key];
  const bool is_whole = run.from == 0 && run.to == key.elements;
  return is_whole ? key.name : fmt::format("{}[{}:{}]", key.name, run.from, run.to);
}

NamedTensor tensor(std::string name, const float* from, std::uint64_t elements) {
  return {.name = std::move(name), .shape = {elements}, .values = {from, from + elements}};
}

std::string digest_of(const TensorFile& file) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  const auto add = [&](const void* data, std::size_t bytes) {
    EVP_DigestUpdate(context.get(), data, bytes);
  };
  for (const NamedTensor& tensor : file.tensors) {
    const std::string title = fmt::format("{}:{};", tensor.name, tensor.values.size());
    add(title.data(), title.size());
    add(tensor.values.data(), tensor.values.size() * sizeof(float));
  }
  std::array<unsigned char, 32> digest = {};
  EVP_DigestFinal_ex(context.get(), digest.data(), nullptr);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

Result<std::string> metadata_of(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  if (found != file.metadata.end()) return found->second;
  return Status(Code::kDataLoss, "its metadata has no " + key + ": is it a snapshot?");
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

using Index = std::unordered_map<std::string, const NamedTensor*>;

Status copy_run(const Index& tensors, const std::string& name, std::uint64_t elements, float* to) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second->values.size() != elements) {
    return {Code::kFailedPrecondition,
            fmt::format("it has no tensor {} of {} elements; a snapshot that several servers wrote "
                        "is restored on as many, in the same order",
                        name, elements)};
  }
  std::copy(found->second->values.begin(), found->second->values.end(), to);
  return {};
}

}  // namespace

TensorFile snapshot_file(const SnapshotHead& head, const JobCopy& copy, const Plan& plan,
                         std::uint32_t server_index) {
  TensorFile file;
  for (const Run& run : runs_of(plan, server_index)) {
    const std::string name = name_of(run, head.spec);
    const std::uint64_t element = plan.key_offset[run.key] + run.from;
    const std::uint64_t count = run.to - run.from;
    file.tensors.push_back(tensor(name, copy.parameters_at(element), count));
    if (copy.state) {
      file.tensors.push_back(tensor(name + kStateSuffix, copy.state_at(element), count));
    }
  }
  file.metadata = {{"format", kFormat},
                   {"version", kVersion},
                   {"job", text_of(head.spec)},
                   {"tenant", head.tenant},
                   {"round", std::to_string(head.round)},
                   {"created", head.created},
                   {"sha256", digest_of(file)}};
  if (plan.core_chunks.size() > 1) {
    file.metadata["core_load_bytes"] = fmt::format("{}", fmt::join(head.core_load_bytes, ","));
  }
  return file;
}

Result<SnapshotHead> head_of(const TensorFile& file) {
  PHUB_ASSIGN_OR_RETURN(const std::string format, metadata_of(file, "format"));
  PHUB_ASSIGN_OR_RETURN(const std::string version, metadata_of(file, "version"));
  if (format != kFormat || version != kVersion) {
    return Status(Code::kDataLoss,
                  fmt::format("it is a \"{}\" of version {}; this server reads {} of version {}",
                              format, version, kFormat, kVersion));
  }
  SnapshotHead head;
  PHUB_ASSIGN_OR_RETURN(const std::string text, metadata_of(file, "job"));
  Result<JobSpec> spec = spec_from_text(text);
  if (!spec) return Status(Code::kDataLoss, "its job: " + spec.error().message());
  head.spec = std::move(*spec);
  PHUB_ASSIGN_OR_RETURN(head.tenant, metadata_of(file, "tenant"));
  PHUB_ASSIGN_OR_RETURN(head.created, metadata_of(file, "created"));
  PHUB_ASSIGN_OR_RETURN(head.sha256, metadata_of(file, "sha256"));
  PHUB_ASSIGN_OR_RETURN(const std::string round, metadata_of(file, "round"));
  const char* const end = round.data() + round.size();
  const auto parsed = std::from_chars(round.data(), end, head.round);
  if (parsed.ec != std::errc() || parsed.ptr != end || head.round == 0) {
    return Status(Code::kDataLoss, "its round is \"" + round + "\", no number above 0");
  }
  if (const auto load = file.metadata.find("core_load_bytes"); load != file.metadata.end()) {
    PHUB_ASSIGN_OR_RETURN(head.core_load_bytes, numbers_of(load->second));
  }
  return head;
}

Status verify(const TensorFile& file, const SnapshotHead& head) {
  const std::string digest = digest_of(file);
  if (digest == head.sha256) return {};
  return {Code::kDataLoss, fmt::format("its data has the checksum {} but it was written with {}: "
                                       "it is damaged, take another",
                                       digest, head.sha256)};
}

Result<std::shared_ptr<JobCopy>> job_copy_from(const TensorFile& file, const SnapshotHead& head,
                                               const Plan& plan, std::uint32_t server_index) {
  const bool has_state = state_arrays(head.spec.rule) > 0;
  PHUB_ASSIGN_OR_RETURN(auto copy, JobCopy::create(plan, server_index, has_state));
  copy->round = head.round;
  Index tensors;
  for (const NamedTensor& tensor : file.tensors) tensors[tensor.name] = &tensor;
  for (const Run& run : runs_of(plan, server_index)) {
    const std::string name = name_of(run, head.spec);
    const std::uint64_t element = plan.key_offset[run.key] + run.from;
    const std::uint64_t count = run.to - run.from;
    PHUB_RETURN_IF_ERROR(copy_run(tensors, name, count, copy->parameters_at(element)));
    if (!has_state) continue;
    PHUB_RETURN_IF_ERROR(copy_run(tensors, name + kStateSuffix, count, copy->state_at(element)));
  }
  return copy;
}

}  // namespace phub::server
