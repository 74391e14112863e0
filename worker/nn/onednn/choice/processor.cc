#include "worker/nn/onednn/choice/processor.h"

#include <array>
#include <fstream>
#include <istream>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <utility>

namespace phub::nn::onednn {
namespace {

constexpr std::array<std::string_view, 9> kFields = {
    "vendor_id",       "cpu family",       "model",    "stepping",    "model name",
    "CPU implementer", "CPU architecture", "CPU part", "CPU revision"};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::string processor_of(std::istream& cpuinfo) {
  std::map<std::string, std::string> values;
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) {
      if (!values.empty()) break;  // the end of the first processor
      continue;
    }
    values.emplace(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  std::string text;
  for (const std::string_view field : kFields) {
    const auto found = values.find(std::string(field));
    if (found == values.end()) continue;
    text += (text.empty() ? "" : ", ") + found->first + " " + found->second;
  }
  return text.empty() ? "unknown" : text;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return processor_of(cpuinfo);
}

std::string instruction_set() {
  using Isa = dnnl::cpu_isa;
  static constexpr std::array<std::pair<Isa, std::string_view>, 8> kNames = {
      {{Isa::sse41, "sse41"},
       {Isa::avx, "avx"},
       {Isa::avx2, "avx2"},
       {Isa::avx2_vnni, "avx2_vnni"},
       {Isa::avx512_core, "avx512_core"},
       {Isa::avx512_core_vnni, "avx512_core_vnni"},
       {Isa::avx512_core_bf16, "avx512_core_bf16"},
       {Isa::avx512_core_amx, "avx512_core_amx"}}};
  const Isa isa = dnnl::get_effective_cpu_isa();
  for (const auto& [each, name] : kNames) {
    if (each == isa) return std::string(name);
  }
  return "isa " + std::to_string(static_cast<int>(isa));
}

std::string library_version() {
  const dnnl_version_t* const version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

bool may_use_avx512_bf16() {
  const auto all = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (all & wanted) == wanted;
}

}  // namespace phub::nn::onednn
