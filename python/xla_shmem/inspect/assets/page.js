"use strict";

// Puts the parts together: which module is shown, which collectives are left, which one is selected.

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
      `${module.collectives.length} collectives: ${counts.NVSHMEM} on NVSHMEM, ${counts.DEFAULT} on DEFAULT. ${module.source}`;
    const ops = [...new Set(module.collectives.map((one) => one.op))].sort();
    this.filters.op.replaceChildren(new Option("any", ""), ...ops.map((op) => new Option(op)));
    this.listComputations();
    this.filter();
    this.select(module.collectives[0]);
  }

  // Those with collectives first, and of these the one that has most.
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
        const runs = executions === null ? "? times" : `${executions} ×`;
        return new Option(`${name}: ${size(index)} collectives, ${runs}${in_loop ? ", loop" : ""}`, index);
      }),
    );
    if (order.length) this.showComputation(order[0]);
  }

  showComputation(index) {
    const schedule = this.module.schedule[index];
    this.computations.value = index;
    this.shown = schedule.name;
    document.getElementById("order").textContent = schedule.scheduled ? "" : "not scheduled: in the module's order";
    this.timeline.show(schedule, this.inside.get(schedule.name));
  }

  filter() {
    const { find, op, backend, least, loop } = this.filters;
    const bytes = parseSize(least.value);
    least.classList.toggle("wrong", bytes === null);
    least.title = bytes === null ? "a size such as 64KiB" : "";
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
    const runs = one.executions === null ? "an unknown number of times" : `${one.executions} × a step`;
    return [
      ["what", `${one.op}, ${one.dtype}, ${formatBytes(one.bytes)}, ${runs}`],
      ["backend", `${backendText(one)}, rule ${one.rule}`],
      ["why", reasonText(one)],
      ["in", one.computation + (one.in_loop ? " (loop)" : "")],
      ...(one.source_file ? [["from", `${one.source_file}:${one.source_line}`]] : []),
      ["beside it", describeOverlap(one.overlap)],
      [one.num_pairs ? "pairs" : "groups", one.num_pairs ? `${one.num_pairs}, connecting ${one.num_groups} × ${one.group_size} devices` : `${one.num_groups} × ${one.group_size} devices`],
    ];
  }
}

new Page(JSON.parse(document.getElementById("data").textContent).modules);
