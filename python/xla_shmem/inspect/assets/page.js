"use strict";

// Connects the parts of the page. Holds the module, the filters and the selected collective.

class Page {
  constructor(modules) {
    this.modules = modules;
    this.table = new CollectiveTable((one) => this.select(one));
    this.timeline = new Timeline((one) => this.select(one));
    this.filters = Object.fromEntries(["find", "op", "backend", "least", "loop"].map((id) => [id, document.getElementById(id)]));
    const picker = document.getElementById("module");
    picker.append(...modules.map((module, index) => new Option(module.name, index)));
    picker.addEventListener("change", () => this.showModule(modules[picker.value]));
    document.getElementById("filters").addEventListener("input", () => this.filter());
    document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
    this.computations = document.getElementById("computation");
    this.computations.addEventListener("change", () => this.showComputation(Number(this.computations.value)));
    document.querySelector("main").hidden = !modules.length;
    if (modules.length) this.showModule(modules[0]);
    else document.getElementById("summary").textContent = "No module has a collective.";
  }

  showModule(module) {
    this.module = module;
    module.collectives.forEach((one, index) => {
      one.index = index;
      one.text = [one.name, one.rule, reasonText(one), one.computation, one.source_file || ""].join("\n").toLowerCase();
    });
    const counts = { NVSHMEM: 0, DEFAULT: 0 };
    for (const one of module.collectives) ++counts[one.lowered];
    document.getElementById("summary").textContent =
      `${plural(module.collectives.length, "collective")}: ${counts.NVSHMEM} on NVSHMEM, ${counts.DEFAULT} on DEFAULT. File: ${module.source}`;
    const ops = [...new Set(module.collectives.map((one) => one.op))].sort();
    this.filters.op.replaceChildren(new Option("any", ""), ...ops.map((op) => new Option(op)));
    this.listComputations();
    this.filter();
    this.select(module.collectives[0]);
  }

  // Lists the computations; those with most collectives first.
  listComputations() {
    const inside = new Map(this.module.schedule.map((computation) => [computation.name, []]));
    for (const one of this.module.collectives) {
      if (inside.has(one.computation)) inside.get(one.computation).push(one);
    }
    this.inside = inside;
    const order = this.module.schedule.map((_, index) => index);
    const size = (index) => inside.get(this.module.schedule[index].name).length;
    order.sort((a, b) => size(b) - size(a) || b - a);
    this.computations.replaceChildren(
      ...order.map((index) => {
        const { name, executions, in_loop } = this.module.schedule[index];
        const runs = executions === null ? "unknown number of runs" : plural(executions, "run");
        return new Option(`${name}: ${plural(size(index), "collective")}, ${runs}${in_loop ? ", loop" : ""}`, index);
      }),
    );
    document.getElementById("schedule").hidden = !order.length;
    if (order.length) this.showComputation(order[0]);
  }

  showComputation(index) {
    const schedule = this.module.schedule[index];
    this.computations.value = index;
    this.shown = schedule.name;
    document.getElementById("order").textContent = schedule.scheduled ? "" : "not scheduled: the order of the module";
    this.timeline.show(schedule, this.inside.get(schedule.name));
  }

  filter() {
    const { find, op, backend, least, loop } = this.filters;
    const bytes = parseSize(least.value);
    least.classList.toggle("wrong", bytes === null);
    least.title = bytes === null ? "must be a size such as 64KiB" : "";
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = this.module.collectives.filter(
      (one) =>
        (!op.value || one.op === op.value) &&
        (!backend.value || one.lowered === backend.value) &&
        one.bytes >= (bytes || 0) &&
        (!loop.value || one.in_loop === (loop.value === "in")) &&
        words.every((word) => one.text.includes(word)),
    );
    document.getElementById("count").textContent = `${left.length} of ${this.module.collectives.length}`;
    this.table.show(left);
    drawBars(left);
  }

  select(collective) {
    if (collective.computation !== this.shown) {
      const index = this.module.schedule.findIndex((one) => one.name === collective.computation);
      if (index >= 0) this.showComputation(index);
    }
    this.table.select(collective);
    this.table.reveal();
    this.timeline.select(collective);
    document.getElementById("details-title").textContent = collective.name;
    const facts = document.getElementById("facts");
    facts.replaceChildren();
    for (const [title, text] of this.facts(collective)) facts.append(make("dt", "", title), make("dd", "", text));
    drawTopology(this.module.devices, collective.members === null ? null : this.module.members[collective.members]);
  }

  facts(one) {
    const runs = one.executions === null ? "unknown number of runs" : `${plural(one.executions, "run")} per step`;
    const groups = one.group_size ? `${plural(one.num_groups, "group")} of ${plural(one.group_size, "device")}` : "unknown";
    return [
      ["operation", `${one.op}, ${one.dtype}, ${formatBytes(one.bytes)}, ${runs}`],
      ["backend", `${backendText(one)}, rule ${one.rule}`],
      ...(one.way ? [["way", one.way]] : []),
      ["reason", reasonText(one)],
      ["computation", one.computation + (one.in_loop ? " (loop)" : "")],
      ...(one.source_file ? [["source", `${one.source_file}:${one.source_line}`]] : []),
      ["overlaps with", describeOverlap(one.overlap)],
      ["participants", one.num_pairs ? `${plural(one.num_pairs, "pair")} that connect ${groups}` : groups],
    ];
  }
}

new Page(JSON.parse(document.getElementById("data").textContent).modules);
