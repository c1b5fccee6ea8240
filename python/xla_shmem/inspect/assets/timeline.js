"use strict";

// The schedule of one computation: compute instructions on top, and below them the collectives, from start to done. The
// unit of the horizontal axis is one instruction that takes time. Only the visible part is drawn.

const COMPUTE_HEIGHT = 26;
const LANE_HEIGHT = 14;
const LANE_GAP = 3;
const TOP = 4;

class Timeline {
  constructor(onSelect) {
    this.view = document.getElementById("timeline");
    this.canvas = this.view.querySelector("canvas");
    this.extent = document.getElementById("extent");
    this.zoom = document.getElementById("zoom");
    this.under = document.getElementById("under");
    this.onSelect = onSelect;
    this.selected = null;
    this.steps = [];
    this.bars = [];
    this.view.addEventListener("scroll", () => this.draw(), { passive: true });
    this.zoom.addEventListener("input", () => this.resize(true));
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.resize(false)).observe(this.view);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // Shows a computation and its collectives.
  show(schedule, collectives) {
    const place = new Map();  // name -> index among the instructions that take time
    this.steps = [];
    schedule.names.forEach((name, index) => {
      if (schedule.categories[index] === "o") return;
      place.set(name, this.steps.length);
      const category = schedule.categories[index];
      this.steps.push({ name, category, flops: schedule.flops[index], bytes: schedule.bytes[index] });
    });
    this.heaviest = this.steps.reduce((most, step) => Math.max(most, this.weight(step)), 1);
    this.bars = [];
    for (const collective of collectives) {
      if (!place.has(collective.name)) continue;
      const first = place.get(collective.name);
      const last = collective.overlap ? place.get(collective.overlap.done) : first;
      this.bars.push({ collective, first, last, lane: 0 });
    }
    this.lanes = this.assignLanes();
    this.view.scrollLeft = 0;
    this.resize(false);
  }

  // Puts bars that overlap into different lanes.
  assignLanes() {
    const ends = [];
    this.bars.sort((a, b) => a.first - b.first);
    for (const bar of this.bars) {
      let lane = ends.findIndex((end) => end < bar.first);
      if (lane < 0) lane = ends.length;
      ends[lane] = bar.last;
      bar.lane = lane;
    }
    return Math.max(1, ends.length);
  }

  weight(step) {
    return Math.log2(2 + (step.flops || 0) + (step.bytes || 0));
  }

  resize(keepMiddle) {
    const width = this.view.clientWidth;
    if (!width || !this.steps.length) return;
    const middle = (this.view.scrollLeft + width / 2) / (this.scale || 1);
    this.scale = (width / this.steps.length) * 2 ** Number(this.zoom.value);
    this.extent.style.width = `${this.scale * this.steps.length}px`;
    if (keepMiddle) this.view.scrollLeft = middle * this.scale - width / 2;
    const height = TOP * 2 + COMPUTE_HEIGHT + this.lanes * (LANE_HEIGHT + LANE_GAP) + LANE_GAP;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.draw();
  }

  laneTop(lane) {
    return TOP + COMPUTE_HEIGHT + LANE_GAP * 2 + lane * (LANE_HEIGHT + LANE_GAP);
  }

  draw() {
    if (!this.steps.length) return;
    const ratio = window.devicePixelRatio || 1;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const left = this.view.scrollLeft, right = left + this.view.clientWidth;
    this.drawCompute(context, left, right);
    const ink = colour("ink");
    for (const bar of this.bars) {
      const from = bar.first * this.scale, to = (bar.last + 1) * this.scale;
      if (to < left || from > right) continue;
      const top = this.laneTop(bar.lane), width = Math.max(2, to - from);
      context.fillStyle = colour(bar.collective.lowered.toLowerCase());
      context.fillRect(from - left, top, width > 4 ? width - 1 : width, LANE_HEIGHT);  // a gap between neighbours
      if (bar.collective === this.selected) {
        context.strokeStyle = ink;
        context.lineWidth = 2;
        context.strokeRect(from - left - 1, top - 1, width + 2, LANE_HEIGHT + 2);
      }
      context.fillStyle = "#fff";
      context.font = "11px system-ui, sans-serif";
      const begin = Math.max(from - left, 0) + 4, available = Math.min(to - left, this.view.clientWidth) - begin - 4;
      if (context.measureText(bar.collective.name).width <= available) context.fillText(bar.collective.name, begin, top + 11);
    }
  }

  drawCompute(context, left, right) {
    const first = Math.max(0, Math.floor(left / this.scale));
    const last = Math.min(this.steps.length - 1, Math.ceil(right / this.scale));
    const rgb = colour("compute");
    // At most one rectangle for each column of pixels: its instruction with most work.
    for (let at = first; at <= last;) {
      const column = Math.floor(at * this.scale);
      let weight = 0, isControl = false;
      const from = at;
      for (; at <= last && Math.floor(at * this.scale) === column; ++at) {
        const step = this.steps[at];
        isControl = isControl || step.category === "f";
        if (step.category !== "x") weight = Math.max(weight, this.weight(step));
      }
      if (!weight) continue;
      context.fillStyle = `rgba(${rgb}, ${isControl ? 0.9 : 0.06 + 0.7 * (weight / this.heaviest) ** 2})`;
      const width = Math.max(1, (at - from) * this.scale - (this.scale > 4 ? 1 : 0));
      context.fillRect(from * this.scale - left, TOP, width, COMPUTE_HEIGHT);
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const place = (event.clientX - box.left + this.view.scrollLeft) / this.scale;
    const height = event.clientY - box.top;
    const reach = 3 / this.scale;  // pixels of tolerance for thin bars
    const bar = this.bars.find((one) => {
      const top = this.laneTop(one.lane);
      return height >= top && height < top + LANE_HEIGHT && place >= one.first - reach && place <= one.last + 1 + reach;
    });
    return { bar, step: this.steps[Math.floor(place)] };
  }

  point(event) {
    const { bar, step } = this.at(event);
    this.canvas.style.cursor = bar ? "pointer" : "";
    if (bar) {
      const one = bar.collective;
      this.under.textContent = `${one.name}: ${formatBytes(one.bytes)} on ${one.lowered}; overlaps with ${describeOverlap(one.overlap)}`;
    } else if (step) {
      const cost = { c: `${formatFlops(step.flops)}, ${formatBytes(step.bytes)}`, f: "a loop, call or branch", x: "a collective" };
      this.under.textContent = `${step.name}: ${cost[step.category]}`;
    }
  }

  click(event) {
    const { bar } = this.at(event);
    if (bar) this.onSelect(bar.collective);
  }

  select(collective) {
    this.selected = collective;
    const bar = this.bars.find((one) => one.collective === collective);
    if (bar) {
      const from = bar.first * this.scale;
      if (from < this.view.scrollLeft || from > this.view.scrollLeft + this.view.clientWidth) {
        this.view.scrollLeft = from - this.view.clientWidth / 2;
      }
    }
    this.draw();
  }
}
