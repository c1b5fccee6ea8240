// Branches, ends, barriers of a block.
#include "ptx/decoder.h"

namespace ptx {
namespace {

// Lanes that go elsewhere become a path of their own (execution.cc).
void Leave(Warp& warp, uint32_t lanes, int target) {
  warp.path &= ~lanes;
  for (Path& other : warp.others) {
    if (other.pc != target || other.waiting) continue;
    other.lanes |= lanes;
    return;
  }
  warp.others.push_back({target, lanes, false});
}

void Branch(Warp& warp, const Instruction& i) {
  if (warp.active == warp.path) {
    warp.pc = i.target;
  } else {
    Leave(warp, warp.active, i.target);
  }
}

Handler DecodeBra(Decoding& decoding) {
  decoding.Take("uni");
  decoding.BranchTarget(0);
  return Branch;
}

void IndexedBranch(Warp& warp, const Instruction& i) {
  const uint32_t* const index = Lane<uint32_t>(warp, i.a);
  for (size_t k = 0; k < i.targets.size(); ++k) {
    uint32_t lanes = 0;
    ForActiveLanes(warp, [&](int lane) { lanes |= static_cast<uint32_t>(index[lane] == k) << lane; });
    if (lanes != 0) Leave(warp, lanes, i.targets[k]);
    warp.active &= ~lanes;
  }
  if (warp.active != 0) Fail(warp, "the index is beyond the table");
}

Handler DecodeBrx(Decoding& decoding) {
  decoding.Take("uni");
  if (!decoding.Take("idx")) return nullptr;
  decoding.instruction().a = decoding.Source(0, Type::kU32);
  decoding.BranchTable(1);
  return IndexedBranch;
}

Handler DecodeEnd(Decoding& decoding) {
  decoding.Take("uni");
  return EndThreads;
}

void Trap(Warp& warp, const Instruction& /*instruction*/) { Fail(warp, "trap"); }
Handler DecodeTrap(Decoding& /*decoding*/) { return Trap; }

// A kernel starts when the one before it on its stream has ended, so there is nothing to wait for.
Handler DecodeDependentLaunch(Decoding& decoding) {
  return decoding.TakeOneOf({"launch_dependents", "wait"}) < 0 ? nullptr : DoNothing;
}

// Ends the turn of the warp: what it waits for may be the work of another block, or of another process.
void Sleep(Warp& warp, const Instruction& /*instruction*/) {
  warp.sleeps = true;
  warp.interrupted = true;
}

Handler DecodeNanosleep(Decoding& decoding) {
  if (decoding.TakeType() != Type::kU32) return nullptr;
  decoding.Source(0, Type::kU32);
  return Sleep;
}

// Every thread of the block must come to the same barrier; none may have ended.
void Barrier(Warp& warp, const Instruction& i) {
  if (warp.alive != warp.lanes) return Fail(warp, "a barrier for all threads, but some of this warp have ended");
  if (!Converged(warp, warp.lanes)) return;
  const uint32_t* const ids = Lane<uint32_t>(warp, i.a);
  const uint32_t id = ids[__builtin_ctz(warp.active)];
  bool same = true;
  ForActiveLanes(warp, [&](int lane) { same &= ids[lane] == id; });
  if (!same || id > 15) return Fail(warp, "a barrier needs one number from 0 to 15 in all lanes");
  warp.barrier = id;
  warp.state = WarpState::kBarrier;
  warp.interrupted = true;
}

void WarpBarrier(Warp& warp, const Instruction& i) {
  const uint32_t members = Lane<uint32_t>(warp, i.a)[__builtin_ctz(warp.active)];
  if ((warp.active & ~members) != 0) return Fail(warp, "a lane outside of the member mask takes part");
  Converged(warp, members & warp.alive);
}

Handler DecodeBarrier(Decoding& decoding) {
  Instruction& i = decoding.instruction();
  if (decoding.Take("warp")) {
    if (!decoding.Take("sync")) return nullptr;
    i.a = decoding.Source(0, Type::kU32);
    return WarpBarrier;
  }
  decoding.Take("cta");
  decoding.Take("aligned");
  if (!decoding.Take("sync")) decoding.Refuse("only .sync is understood");
  if (decoding.operands() > 1) decoding.Refuse("a barrier of a part of the block is not understood");
  i.a = decoding.Source(0, Type::kU32);
  return Barrier;
}

}  // namespace

void EndThreads(Warp& warp, const Instruction& /*instruction*/) {
  warp.alive &= ~warp.active;
  warp.path &= ~warp.active;
  // They may have waited for lanes that are no more.
  for (Path& other : warp.others) other.waiting = false;
}

const Opcodes& ControlOpcodes() {
  static const Opcodes opcodes = {{"bra", DecodeBra},
                                  {"brx", DecodeBrx},
                                  {"ret", DecodeEnd},
                                  {"exit", DecodeEnd},
                                  {"trap", DecodeTrap},
                                  {"bar", DecodeBarrier},
                                  {"barrier", DecodeBarrier},
                                  {"nanosleep", DecodeNanosleep},
                                  {"griddepcontrol", DecodeDependentLaunch}};
  return opcodes;
}

}  // namespace ptx
