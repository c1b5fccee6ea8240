"use strict";

// Bytes per step by op and backend, as bars on one scale.

function drawBars(collectives) {
  const byOp = new Map();
  let unknown = 0;
  for (const one of collectives) {
    if (one.executions === null) {
      ++unknown;
      continue;
    }
    if (!byOp.has(one.op)) byOp.set(one.op, { NVSHMEM: 0, DEFAULT: 0 });
    byOp.get(one.op)[one.lowered] += one.bytes * one.executions;
  }
  const ops = [...byOp].sort((a, b) => b[1].NVSHMEM + b[1].DEFAULT - a[1].NVSHMEM - a[1].DEFAULT);
  const most = Math.max(1, ...ops.map(([, bytes]) => bytes.NVSHMEM + bytes.DEFAULT));
  document.getElementById("bars").replaceChildren(...ops.map(([op, bytes]) => makeBar(op, bytes, most)));
  document.getElementById("unknown").textContent = unknown
    ? `Without ${plural(unknown, "collective")} with an unknown number of runs.`
    : "";
}

function makeBar(op, bytes, most) {
  const bar = make("div", "bar");
  const track = make("div", "track");
  const values = [];
  for (const backend of ["NVSHMEM", "DEFAULT"]) {
    if (!bytes[backend]) continue;
    const part = make("span", backend.toLowerCase());
    part.style.width = `${(100 * bytes[backend]) / most}%`;
    part.title = `${backend}: ${formatBytes(bytes[backend])}`;
    track.append(part);
    values.push(`${formatBytes(bytes[backend])} on ${backend}`);
  }
  bar.append(make("span", "", op), track, make("span", "values", values.join(", ") || "0 B"));
  return bar;
}
