#include "bench/peers/peer.h"

#include <fmt/format.h>

#include <string_view>

namespace phub::bench {

PeerOptions parse_peer_options(int argc, char** argv) {
  PeerOptions options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--control") options.hello.control = value;
    if (name == "--index") options.hello.index = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "--workers") options.workers = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "--elements") options.elements = std::stoull(value);
    if (name == "--algorithm") options.algorithm = value;
    if (name == "--directory") options.directory = value;
    if (name == "--host") options.host = value;
  }
  return options;
}

PeerTask::PeerTask(const PeerOptions& options) : options_(options) {
  auto memory = Mapping::anonymous(options.elements * sizeof(float));
  PHUB_CHECK(memory.has_value(), memory.error().message());
  memory_ = std::move(*memory);
  values_ = {reinterpret_cast<float*>(memory_->data()), options.elements};
}

Status PeerTask::fill(std::uint32_t round) {
  const Pattern pattern{pattern_modulus(DataType::kFloat32, options_.workers), round};
  fill_pattern(values_, pattern, options_.hello.index, 0);
  return {};
}

Result<std::uint64_t> PeerTask::verify(std::uint32_t round) {
  const Pattern pattern{pattern_modulus(DataType::kFloat32, options_.workers), round};
  PHUB_RETURN_IF_ERROR(fill(round));
  PHUB_RETURN_IF_ERROR(iterate());
  if (const auto wrong = first_wrong_sum(values_, pattern, options_.workers, 0)) {
    return Status(Code::kDataLoss, fmt::format("wrong sum at element {}: {}", *wrong,
                                               values_[static_cast<std::size_t>(*wrong)]));
  }
  return checksum(values_, 0);
}

}  // namespace phub::bench
