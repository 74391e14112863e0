// The scalar specification of kernels/reduce.h: one element at a time, plain C++, no vectors.
//
// Every instruction set must give these bits (a NaN stays a NaN, but of arithmetic its sign and
// payload are the machine's choice). For tests, and to read; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/reduce.h"

namespace phub::kernels::reference {

void add(float* out, Source first, Source second, std::size_t elements);
void update(const Update& arguments);
void lamb_direction(const Update& arguments, float* direction);
// The same, then all_finite of the parameters.
bool update_and_look(const Update& arguments);
void add_to_average(float* averages, const float* values, float share, std::size_t elements);
double sum_of_squares(const float* values, std::size_t elements);
bool all_finite(Source source, std::size_t elements);
std::size_t first_not_finite(Source source, std::size_t elements);
void convert(std::byte* dst, DataType dst_type, const std::byte* src, DataType src_type,
             std::size_t elements);

// One element, as fp32.
float load(const std::byte* data, DataType type, std::size_t index);
void store(std::byte* data, DataType type, std::size_t index, float value);

// IEEE 754 binary16. To half: nearest even, overflow becomes infinity, results below 2^-14 are
// subnormal, a NaN keeps its sign and upper payload bits and becomes quiet. From half: exact, a
// NaN becomes quiet.
std::uint16_t float16_from_float(float value);
float float_from_float16(std::uint16_t bits);

// The upper half of binary32. To bfloat16: as above. From bfloat16: exact, NaNs too.
std::uint16_t bfloat16_from_float(float value);
float float_from_bfloat16(std::uint16_t bits);

}  // namespace phub::kernels::reference
