// What engines are timed on: values with which arithmetic costs what it costs in training, and
// enough copies of the buffers that a cache does not hold what the next launch reads.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/cuda/lowered/element_type.h"
#include "worker/cuda/lowered/op_graph.h"

namespace phub::nn::cuda {

// Zeros would flatter a device: it draws less power over them and clocks higher. Of 16 bits values
// of [0.5, 1) and (-1, -0.5]; of fp32, which are sums, factors and variances, positive ones only;
// of int8, which are indices, zeros. Finite in any of these types, whatever order the network's
// buffers share their memory in. The same for the same length and seed.
std::vector<std::byte> measurement_noise(ElementType type, std::size_t bytes, std::uint32_t seed);

// Of a graph's operands in memory, each as it would lie there.
std::uint64_t operand_bytes(const Operand& operand);
std::uint64_t device_bytes(const OpGraph& graph);

// How many sets of a launch's buffers are used in turn, so that the others' bytes have passed
// through a cache of `cache_bytes` twice before a set comes again: 1 where a launch alone does
// that, at most kRotationsMax.
inline constexpr std::size_t kRotationsMax = 16;
std::size_t rotations(std::uint64_t launch_bytes, std::uint64_t cache_bytes);

}  // namespace phub::nn::cuda
