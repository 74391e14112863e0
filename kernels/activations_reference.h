// The scalar specification of kernels/activations.h: one element at a time, plain C++, no vectors.
//
// Every instruction set must give these bits (a NaN stays a NaN). For tests, and to read; any
// thread.
#pragma once

#include "kernels/activations.h"

namespace phub::kernels::reference {

void add_channel_sums(const ChannelSums& arguments);
void normalise(const Normalise& arguments);
void add_gradient_sums(const NormaliseGradient& arguments, double* sums, double* products,
                       std::byte* masked_gradient = nullptr);
void normalise_backward(const NormaliseGradient& arguments, const GradientLine& line,
                        std::byte* input_gradient);
void add_activations(const AddActivations& arguments);
void mask_gradient(const MaskGradient& arguments);

}  // namespace phub::kernels::reference
