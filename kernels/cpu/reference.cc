#include "kernels/reference.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace phub::kernels::reference {
namespace {

constexpr std::uint32_t kInfinity32 = 0x7F800000;
constexpr std::uint32_t kQuiet32 = 0x00400000;
constexpr std::uint16_t kInfinity16 = 0x7C00;
constexpr std::uint16_t kQuiet16 = 0x0200;

template <typename T>
T read(const std::byte* data, std::size_t index) {
  T value{};
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void write(std::byte* data, std::size_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

// value / 2^shift to the nearest integer, ties to even. shift from 1 to 31.
std::uint32_t shift_right_to_nearest_even(std::uint32_t value, std::uint32_t shift) {
  const std::uint32_t quotient = value >> shift;
  const std::uint32_t rest = value & ((1U << shift) - 1);
  const std::uint32_t half = 1U << (shift - 1);
  const bool up = rest > half || (rest == half && (quotient & 1U) != 0);
  return quotient + (up ? 1 : 0);
}

float adam_change(const Update& u, std::size_t i, float gradient) {
  const AdaptiveStep& step = *u.adaptive;
  float& mean = u.state[i];
  float& square = u.state[u.state_stride + i];
  const float kept_mean = step.keep_mean * mean;
  const float added_mean = step.add_mean * gradient;
  mean = kept_mean + added_mean;
  const float kept_square = step.keep_square * square;
  const float gradient_square = gradient * gradient;
  const float added_square = step.add_square * gradient_square;
  square = kept_square + added_square;
  const float root = std::sqrt(square) * step.root_scale;
  const float quotient = mean / (root + step.epsilon);
  return step.rate * quotient;
}

float adagrad_change(const Update& u, std::size_t i, float gradient) {
  const float square = gradient * gradient;
  u.state[i] += square;
  const float quotient = gradient / (std::sqrt(u.state[i]) + u.adaptive->epsilon);
  return u.adaptive->rate * quotient;
}

// One element of a rule with parameters. `decayed` is g + wd * w; of lamb `gradient` is the
// direction.
float step(const Update& u, std::size_t i, float gradient) {
  const float rate = u.hyper.learning_rate;
  const float momentum = u.hyper.momentum;
  const float weight = u.parameters[i];
  if (u.rule == RuleKind::kLamb) {
    const float local_rate = rate * u.trust;
    const float change = local_rate * gradient;
    return weight - change;
  }
  if (u.rule == RuleKind::kAdamW) {
    const float kept = weight * decoupled_decay(rate, u.weight_decay);
    return kept - adam_change(u, i, gradient);
  }
  const float decay = u.weight_decay * weight;
  const float decayed = gradient + decay;
  if (u.rule == RuleKind::kAdam) return weight - adam_change(u, i, decayed);
  if (u.rule == RuleKind::kAdagrad) return weight - adagrad_change(u, i, decayed);
  if (u.rule == RuleKind::kSgd) {
    const float change = rate * decayed;
    return weight - change;
  }
  const float kept = momentum * u.state[i];
  if (u.rule == RuleKind::kLars) {
    const float local_rate = rate * u.trust;
    const float change = local_rate * decayed;
    u.state[i] = kept + change;
    return weight - u.state[i];
  }
  const float velocity = kept + decayed;
  u.state[i] = velocity;
  if (u.rule == RuleKind::kMomentum) {
    const float change = rate * velocity;
    return weight - change;
  }
  const float ahead = momentum * velocity;
  const float direction = decayed + ahead;
  const float change = rate * direction;
  return weight - change;
}

}  // namespace

std::uint16_t float16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const auto with_sign = [sign](std::uint32_t rest) {
    return static_cast<std::uint16_t>(sign | rest);
  };
  if (magnitude > kInfinity32) {
    return with_sign(kInfinity16 | kQuiet16 | ((magnitude >> 13) & 0x3FFU));
  }
  const std::uint32_t exponent = magnitude >> 23;      // biased by 127
  if (exponent >= 143) return with_sign(kInfinity16);  // 2^16 and above
  if (exponent < 102) return with_sign(0);             // below half of the least subnormal
  const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
  if (exponent < 113) return with_sign(shift_right_to_nearest_even(mantissa, 126 - exponent));
  // A mantissa that rounds up to 2.0 carries into the exponent, at the very top into infinity.
  return with_sign(shift_right_to_nearest_even(magnitude - (112U << 23), 13));
}

float float_from_float16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? kQuiet32 : 0;
    return std::bit_cast<float>(sign | kInfinity32 | quiet | (mantissa << 13));
  }
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  std::uint32_t exponent32 = 113;  // subnormal: shift the leading one to its place
  while ((mantissa & 0x400U) == 0) {
    mantissa <<= 1;
    --exponent32;
  }
  return std::bit_cast<float>(sign | (exponent32 << 23) | ((mantissa & 0x3FFU) << 13));
}

std::uint16_t bfloat16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > kInfinity32)
    return static_cast<std::uint16_t>((bits | kQuiet32) >> 16);
  return static_cast<std::uint16_t>(shift_right_to_nearest_even(bits, 16));
}

float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float load(const std::byte* data, DataType type, std::size_t index) {
  switch (type) {
    case DataType::kFloat32:
      return read<float>(data, index);
    case DataType::kFloat16:
      return float_from_float16(read<std::uint16_t>(data, index));
    case DataType::kBfloat16:
      return float_from_bfloat16(read<std::uint16_t>(data, index));
  }
  return 0.0F;
}

void store(std::byte* data, DataType type, std::size_t index, float value) {
  switch (type) {
    case DataType::kFloat32:
      return write(data, index, value);
    case DataType::kFloat16:
      return write(data, index, float16_from_float(value));
    case DataType::kBfloat16:
      return write(data, index, bfloat16_from_float(value));
  }
}

void add(float* out, Source first, Source second, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    out[i] = load(first.data, first.type, i) + load(second.data, second.type, i);
  }
}

void update(const Update& arguments) {
  const Update& u = arguments;
  for (std::size_t i = 0; i < u.elements; ++i) {
    float sum = load(u.sources[0].data, u.sources[0].type, i);
    for (const Source& source : u.sources.subspan(1)) sum += load(source.data, source.type, i);
    float result = sum;
    if (u.rule != RuleKind::kSum) {
      const float gradient = u.rule == RuleKind::kLamb ? sum : sum * u.hyper.gradient_scale;
      result = u.rule == RuleKind::kMean ? gradient : step(u, i, gradient);
    }
    u.parameters[i] = result;
    if (u.published != nullptr) store(u.published, u.published_type, i, result);
  }
}

void lamb_direction(const Update& arguments, float* direction) {
  const Update& u = arguments;
  for (std::size_t i = 0; i < u.elements; ++i) {
    const float gradient = load(u.sources[0].data, u.sources[0].type, i) * u.hyper.gradient_scale;
    const float decay = u.weight_decay * u.parameters[i];
    const float change = adam_change(u, i, gradient);
    direction[i] = change + decay;
  }
}

bool update_and_look(const Update& arguments) {
  reference::update(arguments);
  return reference::all_finite(
      {reinterpret_cast<const std::byte*>(arguments.parameters), DataType::kFloat32},
      arguments.elements);
}

void add_to_average(float* averages, const float* values, float share, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    const float apart = values[i] - averages[i];
    const float change = share * apart;
    averages[i] += change;
  }
}

double sum_of_squares(const float* values, std::size_t elements) {
  double sums[kSquareLanes] = {};
  for (std::size_t i = 0; i < elements; ++i) {
    const auto value = static_cast<double>(values[i]);
    sums[i % kSquareLanes] += value * value;
  }
  for (std::size_t half = kSquareLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

bool all_finite(Source source, std::size_t elements) {
  return reference::first_not_finite(source, elements) == elements;
}

std::size_t first_not_finite(Source source, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    const float value = load(source.data, source.type, i);
    if ((std::bit_cast<std::uint32_t>(value) & kInfinity32) == kInfinity32) return i;
  }
  return elements;
}

void convert(std::byte* dst, DataType dst_type, const std::byte* src, DataType src_type,
             std::size_t elements) {
  if (dst_type == src_type) {
    if (elements > 0) std::memmove(dst, src, elements * size_of(src_type));
    return;
  }
  for (std::size_t i = 0; i < elements; ++i) store(dst, dst_type, i, load(src, src_type, i));
}

}  // namespace phub::kernels::reference
