#include "bench/simulate/schedule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace phub::bench::simulate {
namespace {

MessageCost cost_of(const LayerTrace& trace, const Exchange& exchange, const Message& message) {
  if (exchange.shape != Shape::kMeasured) return exchange.cost(message.bytes);
  return {.busy = trace.layers[message.first].comm};
}

// A message for each layer with gradients, the last layer first: ready when its backward is done.
std::vector<Message> layer_messages(const LayerTrace& trace) {
  std::vector<Message> messages;
  double now = 0.0;
  for (std::size_t i = trace.layers.size(); i-- > 0;) {
    const TraceLayer& layer = trace.layers[i];
    now += layer.backward;
    if (layer.bytes > 0) {
      messages.push_back({.first = i, .last = i, .bytes = layer.bytes, .ready = now});
    }
  }
  return messages;
}

// One after the other, in this order.
template <typename CostOf>
void send_in_order(std::vector<Message>& messages, CostOf cost) {
  double free = 0.0;
  for (Message& message : messages) {
    const MessageCost seconds = cost(message);
    message.start = std::max(free, message.ready);
    message.sent = free = message.start + seconds.busy;
    message.done = message.sent + seconds.delay;
  }
}

void add_bars(const LayerTrace& trace, const Message& message, double from, Iteration& out) {
  const std::string& last = trace.layers[message.last].name;
  const std::string name =
      message.first == message.last ? last : trace.layers[message.first].name + " .. " + last;
  out.bars.push_back({Track::kExchange, "exchange", name, from, message.sent - from});
  if (message.done > message.sent) {
    out.bars.push_back(
        {Track::kExchange, "reply", name, message.sent, message.done - message.sent});
  }
}

// The least layer of those that are ready, again at each chunk (streamed) or message.
void send_by_priority(const LayerTrace& trace, const Exchange& exchange, Iteration& out) {
  std::vector<Message>& messages = out.messages;  // the least layer has the greatest index
  std::set<std::size_t> waiting;
  std::vector<double> left(messages.size());
  double now = 0.0;
  std::size_t next = 0;
  while (next < messages.size() || !waiting.empty()) {
    if (waiting.empty()) now = std::max(now, messages[next].ready);
    for (; next < messages.size() && messages[next].ready <= now; ++next) {
      left[next] = cost_of(trace, exchange, messages[next]).busy;
      waiting.insert(next);
    }
    const std::size_t index = *waiting.rbegin();
    Message& message = messages[index];
    const MessageCost cost = cost_of(trace, exchange, message);
    if (left[index] >= cost.busy) message.start = now;
    double piece = left[index];
    if (exchange.is_streamed && next < messages.size()) {
      // Whole chunks, to the first one that ends when the next message is ready.
      const double chunk = exchange.chunk_bytes * exchange.byte;
      piece =
          std::min(piece, chunk * std::max(1.0, std::ceil((messages[next].ready - now) / chunk)));
    }
    const bool is_whole = !(piece < left[index]);
    left[index] -= piece;
    message.sent = now + piece;
    message.done = message.sent;
    if (is_whole) {
      message.done += cost.delay;
      waiting.erase(index);
    }
    add_bars(trace, message, now, out);
    // A piece ends when the next message is ready, however it was rounded.
    now = is_whole ? now + piece : std::max(now + piece, messages[next].ready);
  }
}

void add_backward(const LayerTrace& trace, Iteration& out) {
  double now = 0.0;
  for (std::size_t i = trace.layers.size(); i-- > 0;) {
    const TraceLayer& layer = trace.layers[i];
    out.bars.push_back({Track::kCompute, "backward", layer.name, now, layer.backward});
    now += layer.backward;
  }
}

// The next forward, whose layers wait for all messages, or for their own. Returns its end.
double add_forward(const LayerTrace& trace, const Exchange& exchange, Policy policy,
                   Iteration& out) {
  std::vector<double> there(trace.layers.size(), trace.backward());
  for (const Message& message : out.messages) {
    for (std::size_t i = message.first; i <= message.last; ++i) {
      there[i] = std::max(there[i], message.done);
    }
  }
  if (policy != Policy::kPriority) {
    std::fill(there.begin(), there.end(), *std::max_element(there.begin(), there.end()));
  }
  double now = trace.backward();
  const auto add = [&](const char* kind, const std::string& name, double seconds) {
    if (seconds <= 0) return;
    out.bars.push_back({Track::kCompute, kind, name, now, seconds});
    now += seconds;
    out.compute += seconds;
  };
  for (std::size_t i = 0; i < trace.layers.size(); ++i) {
    const TraceLayer& layer = trace.layers[i];
    now = std::max(now, there[i]);
    if (!exchange.has_servers) add("update", layer.name, layer.update);
    add("forward", layer.name, layer.forward);
  }
  add("loss", "loss", trace.loss);
  return now;
}

}  // namespace

std::string_view name_of(Policy policy) { return kPolicyNames[static_cast<std::size_t>(policy)]; }

std::vector<Message> merged(std::vector<Message> messages, const Exchange& exchange) {
  const auto resend = [&] {
    send_in_order(messages, [&](const Message& message) { return exchange.cost(message.bytes); });
  };
  resend();
  for (std::size_t i = 0; i + 1 < messages.size(); ++i) {
    Message& message = messages[i];
    Message& next = messages[i + 1];
    const bool is_wanted =
        next.ready < message.sent &&
        (message.start > next.ready || next.ready - message.start < exchange.startup());
    if (!is_wanted) continue;
    next.bytes += message.bytes;
    next.last = message.last;
    message.bytes = 0;
    resend();
  }
  messages.erase(std::remove_if(messages.begin(), messages.end(),
                                [](const Message& message) { return message.bytes <= 0; }),
                 messages.end());
  return messages;
}

Iteration predict(const LayerTrace& trace, const Exchange& exchange, Policy policy,
                  const InputModel& input) {
  Iteration out;
  out.compute = trace.backward();
  out.messages = layer_messages(trace);
  if (policy == Policy::kBsp || policy == Policy::kPacked) {
    for (Message& message : out.messages) message.ready = trace.backward();
  }
  if (policy == Policy::kPacked && !out.messages.empty()) {
    out.messages = {{.first = out.messages.back().first,
                     .last = out.messages.front().last,
                     .bytes = trace.bytes(),
                     .ready = trace.backward()}};
  }
  if (policy == Policy::kMerged) out.messages = merged(std::move(out.messages), exchange);
  add_backward(trace, out);
  if (policy == Policy::kPriority) {
    send_by_priority(trace, exchange, out);
  } else {
    send_in_order(out.messages,
                  [&](const Message& message) { return cost_of(trace, exchange, message); });
    for (const Message& message : out.messages) add_bars(trace, message, message.start, out);
  }
  double sent = 0.0;
  for (const Message& message : out.messages) {
    const MessageCost cost = cost_of(trace, exchange, message);
    sent += cost.busy;
    out.exchange = std::max(out.exchange, sent + cost.delay);
  }
  const double end = add_forward(trace, exchange, policy, out);
  out.exposed = end - out.compute;
  const double read = input.input + input.transfer;
  out.waits_for_input = input.is_prefetched ? read > end : read > 0;
  out.seconds = input.is_prefetched ? std::max(read, end) : read + end;
  const double read_from = input.is_prefetched ? 0.0 : end;
  if (input.input > 0) out.bars.push_back({Track::kInput, "input", "read", read_from, input.input});
  if (input.transfer > 0) {
    out.bars.push_back(
        {Track::kInput, "input", "transfer", read_from + input.input, input.transfer});
  }
  return out;
}

}  // namespace phub::bench::simulate
