// Handlers that calculate a value of a lane from values of the same lane.
#pragma once

#include "ptx/decoder.h"
#include "ptx/types.h"
#include "ptx/warp.h"

namespace ptx {

// `Operation::Of(a)`, (a, b) or (a, b, c) gives the result.
template <typename Operation, typename To, typename A>
void Unary(Warp& warp, const Instruction& i) {
  ForLanes(warp, Lane<To>(warp, i.d), [](A a) { return static_cast<To>(Operation::Of(a)); }, Lane<A>(warp, i.a));
}

template <typename Operation, typename To, typename A, typename B>
void Binary(Warp& warp, const Instruction& i) {
  ForLanes(
      warp, Lane<To>(warp, i.d), [](A a, B b) { return static_cast<To>(Operation::Of(a, b)); }, Lane<A>(warp, i.a),
      Lane<B>(warp, i.b));
}

template <typename Operation, typename To, typename A, typename B, typename C>
void Ternary(Warp& warp, const Instruction& i) {
  ForLanes(
      warp, Lane<To>(warp, i.d), [](A a, B b, C c) { return static_cast<To>(Operation::Of(a, b, c)); },
      Lane<A>(warp, i.a), Lane<B>(warp, i.b), Lane<C>(warp, i.c));
}

// "add" and the like, by the family that the type belongs to.
Handler DecodeIntegerArithmetic(Decoding& decoding, Type type);
Handler DecodeFloatArithmetic(Decoding& decoding, Type type);

// The operands "d, a", "d, a, b" and "d, a, b, c", all of one type.
inline void TakeOperands(Decoding& decoding, Type type, int sources) {
  Instruction& i = decoding.instruction();
  i.d = decoding.Destination(0, type);
  i.a = decoding.Source(1, type);
  if (sources > 1) i.b = decoding.Source(2, type);
  if (sources > 2) i.c = decoding.Source(3, type);
}

}  // namespace ptx
