// What measured times are good for: this processor, as oneDNN is allowed to use it.
#pragma once

#include <iosfwd>
#include <string>

namespace phub::nn::onednn {

// Vendor, family, model and stepping of the first processor that a /proc/cpuinfo lists (on Arm:
// implementer, architecture, part, revision), with its name. "unknown" if it says none of these.
std::string processor_of(std::istream& cpuinfo);

// Of this machine.
std::string processor_name();

// The instruction set that oneDNN's kernels may use, after ONEDNN_MAX_CPU_ISA: "avx512_core".
std::string instruction_set();

// "2.6.3"
std::string library_version();

// Whether oneDNN may use AVX-512's bf16 products: then ours may, too.
bool may_use_avx512_bf16();

}  // namespace phub::nn::onednn
