#include "worker/data/spread/tcp_links.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <system_error>
#include <utility>

#include "common/connect/data_connection.h"
#include "common/rpc/credentials_folder.h"

namespace phub::data {

using transport::Completion;
using transport::CompletionKind;
using transport::Loss;
using transport::PeerId;
namespace {

constexpr std::chrono::milliseconds kSleepMax{1'000};
constexpr std::uint32_t kCallsAtOnce = 8;

const char* words_of(Loss loss) {
  switch (loss) {
    case Loss::kClosed:
      return "it has closed the connection";
    case Loss::kBadTag:
      return "its encrypted bytes were changed on the way, or are not its own";
    case Loss::kBadFrame:
    case Loss::kBadLength:
    case Loss::kRefused:
      return "it sent what this worker has not asked for";
    default:
      return "its connection failed";
  }
}

// A worker that joins over its host's loopback address says that address to others, who may be on
// other hosts.
std::string cure_of(const std::string& own_host, const std::string& host) {
  if (!is_loopback(host) || is_loopback(own_host)) return "";
  return "; it has joined over a loopback address, which other hosts do not reach: give it the "
         "server's address in the network, or a data.spread.address that the others reach";
}

std::uint32_t connections_of(const client::PeerGroup& group) {
  return static_cast<std::uint32_t>(2 * (group.peers.size() - 1));
}

}  // namespace

TcpLinks::TcpLinks(const LinkParts& parts, const TcpLinkOptions& options)
    : group_(parts.group),
      options_(options),
      note_(parts.note),
      readers_(parts.readers),
      holder_(parts.holder),
      requests_(parts.holder.members(), parts.readers,
                {.largest_bytes = parts.largest_bytes,
                 .content_number = parts.holder.content_number(),
                 .wait_ms = static_cast<std::uint32_t>(options.wait().count())}),
      answers_(parts.holder),
      connections_(connections_of(parts.group)),
      members_(parts.holder.members()),
      sent_(parts.readers) {}

Result<std::unique_ptr<TcpLinks>> TcpLinks::create(const LinkParts& parts,
                                                   const TcpLinkOptions& options,
                                                   PeerListener listener) {
  if (parts.group.peers.size() == 1) return std::unique_ptr<TcpLinks>();
  std::unique_ptr<TcpLinks> links(new TcpLinks(parts, options));
  PHUB_ASSIGN_OR_RETURN(links->endpoint_,
                        transport::TcpEndpoint::create(
                            {.max_peers = connections_of(parts.group),
                             .max_write_bytes = static_cast<std::uint32_t>(kMaxSampleBytes)},
                            *links));
  links->endpoint_->send_checksums(links->answers_);
  constexpr Waiting kSleepAtOnce{.spin_iterations = 0, .yield_iterations = 0};
  PHUB_ASSIGN_OR_RETURN(links->waiter_,
                        transport::Waiter::create(kSleepAtOnce, {links->endpoint_.get()}));
  TcpLinks* const raw = links.get();
  const auto on_arrival = [raw](PeerDoor::Arrival arrival) {
    // A std::function can be copied, and a stream cannot.
    const auto shared = std::make_shared<PeerDoor::Arrival>(std::move(arrival));
    raw->give([raw, shared] {
      raw->answers_.open(shared->member, shared->requests);
      raw->add(shared->member, Connection::Use::kAnswers, std::move(shared->stream));
    });
  };
  PHUB_ASSIGN_OR_RETURN(
      links->door_, PeerDoor::open(std::move(listener), parts.group, options.set_up, on_arrival));
  try {
    links->thread_ = std::jthread([raw](const std::stop_token& stop) { raw->run(stop); });
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted,
                  std::string("a thread for data.spread: ") + error.what());
  }
  links->call_all();
  return links;
}

TcpLinks::~TcpLinks() {
  door_.reset();
  thread_.request_stop();
  if (waiter_) waiter_->interrupt();
  if (thread_.joinable()) thread_.join();
}

// Several at a time: one that does not answer takes all of its time.
void TcpLinks::call_all() {
  const auto count = static_cast<std::uint32_t>(group_.peers.size());
  const auto end = Clock::now() + options_.set_up;
  std::atomic<std::uint32_t> next{1};
  // Each begins with the member after itself, so that not all call the same one.
  const auto work = [&] {
    for (std::uint32_t step = next++; step < count; step = next++) {
      call((group_.own + step) % count, end);
    }
  };
  std::vector<std::jthread> others;
  try {
    while (others.size() + 1 < std::min(count - 1, kCallsAtOnce)) others.emplace_back(work);
  } catch (const std::system_error&) {
    // There can be no more threads. Those that there are do it.
  }
  work();
}

void TcpLinks::call(std::uint32_t member, Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  if (left.count() <= 0) {
    return requests_.mark_gone(member, "the " + std::to_string(options_.set_up.count()) +
                                           " ms to connect to all workers were over before it "
                                           "was called");
  }
  client::JoinInfo place;
  place.job_id = group_.job_id;
  place.epoch = group_.epoch;
  place.seat = group_.own;
  place.secret = group_.key;
  place.host = group_.peers[member].host;
  place.tcp_port = group_.peers[member].port;
  place.encrypts_data = group_.encrypts;
  auto stream =
      client::open_tcp({.joined = &place, .core = member, .timeout = left, .stream = readers_});
  if (!stream) {
    const std::string cure = cure_of(group_.peers[group_.own].host, place.host);
    return requests_.mark_gone(member, stream.error().message() + cure);
  }
  const auto shared = std::make_shared<transport::TcpStream>(std::move(*stream));
  give([this, member, shared] { add(member, Connection::Use::kRequests, std::move(*shared)); });
}

std::string TcpLinks::name(std::uint32_t member) const {
  const client::PeerPlace& place = group_.peers[member];
  return "worker " + std::to_string(place.worker) + " (" + place.host + " port " +
         std::to_string(place.port) + ")";
}

PeerAnswer TcpLinks::ask(std::uint32_t member, std::uint64_t sample,
                         std::vector<std::uint8_t>& buffer) {
  const auto deadline = Clock::now() + options_.patience;
  PeerAnswer refused;
  const auto number = requests_.begin(member, sample, deadline, refused);
  if (!number) return refused;
  give([this, member, number = *number] { request(member, number); });
  if (auto answer = requests_.wait(*number, deadline, buffer)) return std::move(*answer);
  const std::string why =
      "it has not answered in " + std::to_string(options_.patience.count()) + " ms";
  drop(member, why);
  return {.outcome = PeerAnswer::Outcome::kGone, .why = why};
}

void TcpLinks::drop(std::uint32_t member, const std::string& why) {
  requests_.mark_gone(member, why);
  give([this, member, why] {
    if (members_[member].requests) close(*members_[member].requests, why);
  });
}

void TcpLinks::give(Order order) {
  {
    const std::lock_guard lock(orders_mutex_);
    orders_.push_back(std::move(order));
  }
  waiter_->interrupt();
}

bool TcpLinks::take_orders() {
  std::vector<Order> orders;
  {
    const std::lock_guard lock(orders_mutex_);
    orders.swap(orders_);
  }
  for (const Order& order : orders) order();
  return !orders.empty();
}

void TcpLinks::run(const std::stop_token& stop) {
  std::array<Completion, 64> completions{};
  while (!stop.stop_requested()) {
    const bool has_orders = take_orders();
    const std::size_t count = endpoint_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) on_completion(completions[i]);
    post();
    const std::chrono::milliseconds sleep = refuse_late();
    has_orders || count > 0 ? waiter_->busy() : waiter_->idle(sleep);
  }
}

std::chrono::milliseconds TcpLinks::refuse_late() {
  if (next_late_ == Clock::time_point::max()) return kSleepMax;
  const Clock::time_point now = Clock::now();
  if (now >= next_late_) next_late_ = holder_.refuse_late(now);
  if (next_late_ - now >= kSleepMax) return kSleepMax;
  return std::chrono::ceil<std::chrono::milliseconds>(next_late_ - now);
}

void TcpLinks::add(std::uint32_t member, Connection::Use use, transport::TcpStream stream) {
  const auto peer = endpoint_->add(std::move(stream));
  const bool is_requests = use == Connection::Use::kRequests;
  if (!peer) {
    if (is_requests) requests_.end(member, peer.error().message());
    if (!is_requests) answers_.close(member);
    return;
  }
  connections_[*peer] = {use, member};
  (is_requests ? members_[member].requests : members_[member].answers) = *peer;
}

void TcpLinks::request(std::uint32_t member, std::uint32_t number) {
  if (!members_[member].requests) return requests_.end(member, words_of(Loss::kClosed));
  members_[member].unsent.push_back(number);
}

// What there is room for.
void TcpLinks::post() {
  for (std::uint32_t member = 0; member < members_.size(); ++member) {
    Peers& peers = members_[member];
    if (peers.answers) answers_.post(member, *peers.answers, *endpoint_);
    while (!peers.unsent.empty() && peers.requests && endpoint_->room(*peers.requests) > 0) {
      const std::uint32_t number = peers.unsent.front();
      const auto request = requests_.request(member, number);
      if (!request) {  // answered before it was sent: what else comes of that member is nonsense
        peers.unsent.pop_front();
        continue;
      }
      PeerRequest& sent = sent_[number % sent_.size()];
      sent = *request;
      const transport::Write write{.data = reinterpret_cast<const std::byte*>(&sent),
                                   .bytes = sizeof(PeerRequest),
                                   .immediate = number};
      if (endpoint_->post(*peers.requests, {&write, 1}) == 0) break;
      peers.unsent.pop_front();
    }
  }
}

void TcpLinks::on_completion(const Completion& completion) {
  const Connection& connection = connections_[completion.peer];
  if (connection.use == Connection::Use::kNone) return;  // closed meanwhile
  if (completion.kind == CompletionKind::kPeerLost) {
    return on_lost(completion.peer, completion.loss);
  }
  if (connection.use == Connection::Use::kRequests) {
    return requests_.arrived(connection.member, completion.immediate);
  }
  on_request(connection.member, completion);
}

void TcpLinks::on_request(std::uint32_t member, const Completion& arrived) {
  std::string why;
  const auto request = answers_.take(arrived.data, why);
  if (!request) {
    close(arrived.peer, why);
    return;
  }
  if (request->content_number != holder_.content_number()) {
    answers_.refuse_other_set(member, arrived.immediate);
    const bool is_noted = std::exchange(members_[member].has_other_set, true);
    if (!is_noted && note_) note_(other_set(name(member)));
    return;
  }
  const auto deadline = Clock::now() + std::chrono::milliseconds(request->wait_ms);
  next_late_ = std::min(next_late_, deadline);
  holder_.want(request->sample, deadline,
               [this, member, number = arrived.immediate,
                largest = request->largest_bytes](const Holder::Reply& reply) {
                 give([this, member, number, largest, reply] {
                   answers_.add(member, number, largest, reply);
                 });
               });
}

void TcpLinks::on_lost(PeerId peer, Loss loss) {
  const std::string refusal = std::exchange(why_, {});
  const bool has_words = loss == Loss::kRefused && !refusal.empty() &&
                         connections_[peer].use == Connection::Use::kAnswers;
  const bool is_harmless = loss == Loss::kClosed || loss == Loss::kError;
  close(peer, has_words ? refusal : words_of(loss), is_harmless);
}

void TcpLinks::close(PeerId peer, const std::string& why, bool is_harmless) {
  const Connection connection = std::exchange(connections_[peer], {});
  Peers& peers = members_[connection.member];
  if (connection.use == Connection::Use::kRequests) {
    endpoint_->remove(peer);
    peers.requests.reset();
    peers.unsent.clear();
    return requests_.end(connection.member, why);
  }
  if (!is_harmless && note_) {
    note_("data.spread: " + name(connection.member) +
          " gets no more samples of this worker: " + why);
  }
  endpoint_->remove(peer);
  peers.answers.reset();
  answers_.close(connection.member);
}

std::byte* TcpLinks::acquire(PeerId peer, std::uint32_t immediate, std::uint32_t bytes) {
  const Connection& connection = connections_[peer];
  if (connection.use == Connection::Use::kRequests) {
    return requests_.refusal_room(connection.member, immediate, bytes);
  }
  return answers_.room(connection.member, bytes, why_);
}

std::byte* TcpLinks::acquire_checked(PeerId peer, std::uint32_t immediate, std::uint32_t bytes,
                                     std::uint32_t checksum) {
  const Connection& connection = connections_[peer];
  if (connection.use != Connection::Use::kRequests) return nullptr;
  return requests_.room(connection.member, immediate, bytes, checksum);
}

}  // namespace phub::data
