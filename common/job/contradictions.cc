#include "common/job/contradictions.h"

#include <algorithm>
#include <iterator>

#include "common/job/fields.h"
#include "common/job/invalid.h"
#include "common/job/message.h"
#include "common/job/uses.h"

namespace phub {
namespace {

using namespace uses;  // NOLINT(google-build-using-namespace): a table of them

constexpr std::string_view kLeaveOne = "leave one of the two out";
constexpr std::string_view kLeaveOut = "leave it out";
constexpr std::string_view kNoQuorumReason = "which means nothing where a round has every push";
constexpr std::string_view kUnseen = "with which servers do not look at pushes";

constexpr Contradiction kTable[] = {
    // A rule, and the numbers that it has.
    {&kRate, &kNoParameters, "which has no parameters to update", "leave it out, or choose sgd"},
    {&kScale, &kNoParameters, "which has a scale of its own", "leave it out, or choose sgd"},
    {&kMomentum, &kElastic, "with which momentum is the workers'", kLeaveOut},
    {&kMomentum, &kAdaptive, "which has none", "leave it out, or set beta1"},
    {&kMomentum, &kNoMomentum, "which has none", "leave it out, or choose momentum"},
    {&kScale, &kElastic, "which takes a mean", kLeaveOut},
    {&kTrust, &kNotLars, "which does not have it", "leave it out, or choose lars"},
    {&kTrustEpsilon, &kNotLars, "which does not have it", "leave it out, or choose lars"},
    {&kEpsilon, &kNotAdaptive, "which has none (of lars it is trust_epsilon)", kLeaveOut},
    {&kBeta1, &kNoBetas, "which has none", "leave it out, or choose adam, adamw or lamb"},
    {&kBeta2, &kNoBetas, "which has none", "leave it out, or choose adam, adamw or lamb"},
    {&kClip, &kNoParameters, "which has no parameters to update", "clip at the workers"},
    {&kClip, &kElastic, "to which no gradients are pushed", kLeaveOut},
    {&kClip, &kLars, "which divides by each key's norm already", kLeaveOut},
    {&kClip, &kRacksTogether, "which do not know the norm of all keys",
     "leave one out, or set rack_local_steps"},
    {&kAverage, &kNoParameters, "which has no parameters to average", kLeaveOut},
    {&kLossScaling, &kNoParameters, "whose sum the workers can divide themselves", kLeaveOut},
    {&kLossScaling, &kElastic, "to which no gradients are pushed", kLeaveOut},
    {&kFactor, &kNoFactor, "which has no fixed factor", "leave it out, or choose static"},
    // Racks.
    {&kShape, &kOneRack, "which has no shape", "leave it out, or list the racks"},
    {&kRackWireType, &kOneRack, "which sends no sums to others", "leave it out, or list the racks"},
    {&kHybridBytes, &kOneRack, "which has no shape", kLeaveOut},
    {&kHybridBytes, &kNotHybrid, "with which keys are not told apart by size",
     "leave it out, or choose hybrid"},
    {&kVotes, &kShapedTogether, "in which votes have no way",
     "choose spread, or a static loss scale"},
    {&kRackWireType, &kVotes, "because what rounding cuts off has the scale of its round",
     "choose a static loss scale, or rack_compress"},
    {&kRackCompress, &kOneRack, "which sends no sums to others", "leave it out, or list the racks"},
    {&kRackCompress, &kRackWireType, "because compressed sums travel in fp32", kLeaveOne},
    {&kRackCompress, &kElastic, "to which no gradients are pushed", kLeaveOut},
    {&kRackLocal, &kOneRack, "which exchanges with no other", "leave it out, or list the racks"},
    {&kOuterRate, &kNoRackLocal, "with which racks make no outer step",
     "leave it out, or set rack_local_steps"},
    {&kOuterMomentum, &kNoRackLocal, "with which racks make no outer step",
     "leave it out, or set rack_local_steps"},
    {&kRackLocal, &kNoParameters, "which has no parameters that racks could move", "choose sgd"},
    {&kRackLocal, &kElastic, "to which no gradients are pushed", kLeaveOut},
    {&kRackLocal, &kRackWireType, "because differences travel in fp32",
     "leave one out, or use rack_compress"},
    {&kRackQuorum, &kNoRackLocal, "with which racks exchange the sums of each round",
     "leave it out, or set rack_local_steps"},
    {&kRackQuorum, &kShape, "in which racks wait to pass on what others moved", "choose spread"},
    {&kRackQuorum, &kInOrder, "because time decides which racks an outer step has",
     "set order to arrival"},
    {&kRackWait, &kNoRackQuorum, "with which racks wait for all others",
     "leave it out, or set rack_rounds.quorum"},
    // What workers push.
    {&kEncoded, &kElastic, "to which no gradients are pushed", kLeaveOut},
    {&kEncoded, &kWholeKeys, "which needs the norms of whole gradients",
     "leave it out, or choose momentum"},
    {&kStreams, &kHogwild, "whose workers come by shm", kLeaveOne},
    {&kWatchFails, &kVotes, "whose factor is found by overflows",
     "choose name, which tells whose they are"},
    // When a round is complete.
    {&kGrace, &kNoQuorum, kNoQuorumReason, kLeaveOut},
    {&kPatience, &kNoQuorum, kNoQuorumReason, kLeaveOut},
    {&kStaleness, &kNoQuorum, kNoQuorumReason, kLeaveOut},
    {&kLateAdded, &kNoQuorum, kNoQuorumReason, kLeaveOut},
    {&kWeighed, &kNoQuorum, kNoQuorumReason, kLeaveOut},
    {&kTurns, &kNoQuorum, kNoQuorumReason, kLeaveOut},
    {&kHogwild, &kNoQuorum, kNoQuorumReason, kLeaveOut},
    {&kQuorum, &kRacksThatWait, "whose exchanges need each rack's round",
     "leave one of the two out, or set rack_local_steps and rack_rounds.quorum"},
    {&kHogwild, &kRacks, "whose servers change parameters too", kLeaveOne},
    {&kQuorum, &kVotes, "for which every worker votes", "use a static loss scale"},
    {&kQuorum, &kWholeKeys, "whose trust ratio is of one set of pushes for all of a key",
     "choose momentum"},
    {&kLateAdded, &kNoParameters, "which has nothing to reply with before a round is over",
     "choose drop, or sgd"},
    {&kQuorum, &kClip, "whose norm is of one set of pushes for all keys",
     "clip at the workers, or leave one of the two out"},
    {&kQuorum, &kInOrder, "because time decides which pushes a round has", "set order to arrival"},
    {&kGrace, &kLateAdded, "with which nobody waits for a round", kLeaveOut},
    {&kPatience, &kLateAdded, "with which nobody waits for a round", kLeaveOut},
    {&kWeighedByAge, &kLateDropped, "with which no push is late", "set rounds.late to add"},
    {&kWeighed, &kElastic, "to which parameters are pushed, which a weight would make smaller",
     "choose one"},
    {&kTurns, &kOtherThanOne, "because each push is a round of its own", "set that to 1"},
    {&kTurns, &kLateDropped, "because each push is a round of its own", "set that to add"},
    {&kTurns, &kStaleness, "because nobody is ahead", kLeaveOne},
    {&kTurns, &kWeighed, "because no push is late", kLeaveOne},
    {&kHogwild, &kTurns, "because workers change parameters whenever they can", kLeaveOne},
    {&kHogwild, &kOtherThanOne, "because no round is waited for", "set that to 1"},
    {&kHogwild, &kLateDropped, "because no round is waited for", "set that to add"},
    {&kHogwild, &kWeighed, "because workers change parameters themselves", kLeaveOne},
    {&kHogwild, &kOtherThanSgd, "which needs more than parameters", "choose sgd or elastic"},
    {&kHogwild, &kSixteenBits, "because workers change parameters in fp32", "choose fp32"},
    {&kEncoded, &kHogwild, kUnseen, kLeaveOut},
    {&kLossScaling, &kHogwild, kUnseen, kLeaveOne},
    {&kAverage, &kHogwild, kUnseen, kLeaveOne},
    {&kChecksums, &kHogwild, kUnseen, kLeaveOne},
    {&kWatch, &kHogwild, kUnseen, kLeaveOne},
};

}  // namespace

std::span<const Contradiction> contradictions() { return kTable; }

const Contradiction* first_contradiction(const JobSpec& spec) {
  const auto* const row = std::ranges::find_if(kTable, [&](const Contradiction& each) {
    return each.used->holds(spec) && each.beside->holds(spec);
  });
  return row == std::end(kTable) ? nullptr : row;
}

Status check_contradictions(const JobSpec& spec) {
  const Contradiction* const row = first_contradiction(spec);
  if (row == nullptr) return {};
  control::JobSpec message;
  fill(spec, message);
  return invalid("{}: {} contradicts {}: {}, {}; {}", row->used->field,
                 field_text(row->used->field, message), row->beside->field,
                 field_text(row->beside->field, message), row->reason, row->cure);
}

}  // namespace phub
