// The scalar specification of kernels/quantise.h. For tests, and to read; any thread.
#pragma once

#include "kernels/quantise.h"

namespace phub::kernels::reference {

void quantise(std::byte* out, std::span<const float> values, Bits bits);
void add_quantised(std::span<float> out, const std::byte* quantised, Bits bits);

}  // namespace phub::kernels::reference
