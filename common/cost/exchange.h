// What the exchange of a message costs, once it is known what the busiest link carries and which
// hops a chunk takes: the formula that the bench's predictions and the planner share.
//
// Links are full duplex. A message is cut into chunks, which follow each other through the hops:
// the time of M bytes is the hops' latency, the first chunks' way, and the other bytes at the
// busiest link. Formulas: phub (arXiv 1805.07891), cost model.
//
// Values and pure functions; any thread.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace phub::cost {

// Seconds of one message.
struct MessageCost {
  double busy = 0.0;   // until the next one may start
  double delay = 0.0;  // from then until this one is done
};

// A step of a chunk's way. Of `unit` bytes, spread over all servers, and of one chunk, at its own.
// Seconds a byte.
struct Stage {
  double byte = 0.0;
  double chunk_byte = 0.0;
};

struct Limit {
  double byte;  // seconds a byte of the whole message
  std::string name;
};

struct Exchange {
  bool is_streamed = false;  // messages follow each other as chunks do; else one ends, one begins
  double latency = 0.0;      // seconds, of all hops
  double byte = 0.0;         // seconds a byte, of the busiest link
  std::string bound;         // that link
  double chunk_bytes = 0.0;
  double unit_bytes = 0.0;  // what all servers, or colours, work on at once
  std::vector<Stage> stages{};

  // The busiest link is one of these, if none that is known is busier.
  void bound_by(std::initializer_list<Limit> limits);

  // Of `bytes` alone on the network; 0 for no bytes.
  double seconds(double bytes) const;
  MessageCost cost(double bytes) const;
  // What a merge of two messages saves: "alpha" of MG-WFBP's merge rule.
  double startup() const { return is_streamed ? 0.0 : latency; }
  // Without latency and ways of chunks: only the busiest link's rate counts.
  void keep_rates_only();
};

}  // namespace phub::cost
