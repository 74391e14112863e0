// The roof's loops over one thread's part of the arrays. Pure; any thread.
#pragma once

#include <cstddef>

namespace phub::bench {

// out[i] = sources[0][i] + ... + sources[count-1][i]
void roof_sum(float* out, const float* const* sources, unsigned count, std::size_t elements);
// The same sum g, then v = 0.9 v + g; w -= 0.01 (g + 0.9 v)
void roof_update(float* parameters, float* state, const float* const* sources, unsigned count,
                 std::size_t elements);
void roof_copy(float* out, const float* source, std::size_t elements);
void roof_triad(float* out, const float* first, const float* second, std::size_t elements);

}  // namespace phub::bench
