#include "compiler/lower/host_copies.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower/order_only.h"

namespace oneflow {
namespace {

class HostCopies {
 public:
  HostCopies(const google::protobuf::RepeatedPtrField<proto::Register>& persistent,
             const HostCopyOptions& options, Lowered* lowered)
      : persistent_(persistent), options_(options), lowered_(*lowered) {}

  void Add() {
    const int segments = lowered_.program.segment_size();
    for (int s = 0; s < segments; ++s) {
      if (lowered_.segments[s].lane == Lane::kHostIn) CopyIn(s);
      if (lowered_.segments[s].lane == Lane::kHostOut) CopyOut(s);
    }
  }

 private:
  // The actors of the host and of the device that a datum passes, in this order.
  struct Passage {
    int first = 0, second = 0;
  };

  void CopyIn(int host_segment) {
    std::vector<Passage> passages;
    for (const int host : FindActors(host_segment)) {
      for (int o = 0; o < lowered_.program.actor(host).output_size(); ++o) {
        const int device = lowered_.program.actor(host).output(o);
        if (Reg(device).memory_kind() == proto::HOST) continue;
        const int pinned = AddPinned(device);
        lowered_.program.mutable_actor(host)->set_output(o, pinned);
        proto::Actor* copy = AddCopy("copy_in", device);
        AddControlInput(pinned, copy);  // a fill a firing, like a token
        copy->add_output(device);
        passages.push_back({host, copy->id()});
      }
    }
    AddSegment(host_segment, options_.in, passages, &Passage::second);
    DelayInputs(passages);
  }

  void CopyOut(int host_segment) {
    std::vector<Passage> passages;
    for (const int host : FindActors(host_segment)) {
      for (int i = 0; i < lowered_.program.actor(host).input_size(); ++i) {
        const proto::Input input = lowered_.program.actor(host).input(i);
        if (Reg(input.register_()).memory_kind() == proto::HOST) continue;
        const int pinned = AddPinned(input.register_());
        proto::Actor* copy = AddCopy("copy_out", input.register_());
        *copy->add_input() = input;
        copy->add_output(pinned);
        proto::Input* read = lowered_.program.mutable_actor(host)->mutable_input(i);
        *read = proto::Input();
        read->set_register_(pinned);
        read->set_fires_per_read(1);
        passages.push_back({copy->id(), host});
      }
    }
    AddSegment(host_segment, options_.out, passages, &Passage::first);
    DelayInputs(passages);
  }

  std::vector<int> FindActors(int segment) const {
    const auto& actors = lowered_.program.segment(segment).actor();
    return {actors.begin(), actors.end()};
  }

  const proto::Register& Reg(int id) const {
    const int own = id - persistent_.size();
    return own < 0 ? persistent_.Get(id) : lowered_.program.register_(own);
  }

  int AddPinned(int device) {
    proto::Register pinned = Reg(device);
    const int id = persistent_.size() + lowered_.program.register__size();
    pinned.set_id(id);
    pinned.set_name(pinned.name() + ".host");
    pinned.set_slots(1);
    pinned.set_fill_mode(proto::Register::FRESH);
    pinned.set_fires_per_fill(1);
    pinned.set_offset(0);
    pinned.set_memory_kind(proto::HOST);
    *lowered_.program.add_register_() = std::move(pinned);
    return id;
  }

  proto::Actor* AddCopy(const std::string& kernel, int device) {
    const proto::Register& r = Reg(device);
    proto::Actor* copy =
        AddOrderOnlyActor(&lowered_, absl::StrCat(r.name(), ".", kernel), r.stage());
    copy->set_kernel(kernel);
    return copy;
  }

  // The copies stand where their host actors do.
  void AddSegment(int host_segment, Lane lane, const std::vector<Passage>& passages,
                  int Passage::*copy) {
    if (passages.empty()) return;
    proto::Segment* segment = lowered_.program.add_segment();
    segment->set_id(lowered_.program.segment_size() - 1);
    segment->set_name(lowered_.program.segment(host_segment).name());
    segment->set_stage(lowered_.program.segment(host_segment).stage());
    for (const Passage& passage : passages) segment->add_actor(passage.*copy);
    SegmentInfo info = lowered_.segments[host_segment];
    info.lane = lane;
    lowered_.segments.push_back(info);
  }

  // The first actor of a passage waits until an earlier passage is over.
  void DelayInputs(const std::vector<Passage>& passages) {
    if (options_.ahead == 0) return;
    for (size_t i = options_.ahead; i < passages.size(); ++i) {
      proto::Actor* over = lowered_.program.mutable_actor(passages[i - options_.ahead].second);
      const proto::Register* token =
          AddControlRegister(&lowered_, absl::StrCat(over->name(), ".over"), over->stage());
      over->add_output(token->id());
      AddControlInput(token->id(), lowered_.program.mutable_actor(passages[i].first));
    }
  }

  const google::protobuf::RepeatedPtrField<proto::Register>& persistent_;
  const HostCopyOptions options_;
  Lowered& lowered_;
};

}  // namespace

void AddHostCopies(const google::protobuf::RepeatedPtrField<proto::Register>& persistent,
                   const HostCopyOptions& options, Lowered* lowered) {
  HostCopies(persistent, options, lowered).Add();
}

}  // namespace oneflow
