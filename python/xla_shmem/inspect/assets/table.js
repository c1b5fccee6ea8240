"use strict";

// The table. Only the visible rows are elements, so that thousands of rows stay fast.

const ROW_HEIGHT = 28;

// Sorts permute.9 before permute.10.
const NATURAL = new Intl.Collator("en", { numeric: true });

const COLUMNS = [
  { title: "HLO name", value: (c) => c.name },
  { title: "op", value: (c) => c.op },
  { title: "type", value: (c) => c.dtype },
  { title: "bytes", value: (c) => c.bytes, text: (c) => formatBytes(c.bytes), number: true },
  { title: "groups", value: (c) => c.num_groups * 1e6 + c.group_size, text: (c) => (c.group_size ? `${c.num_groups} × ${c.group_size}` : "unknown"), number: true },
  { title: "runs", value: (c) => (c.executions === null ? -1 : c.executions), text: (c) => (c.executions === null ? "?" : String(c.executions)), number: true },
  { title: "backend", value: (c) => `${c.backend} ${c.lowered}`, text: backendText },
  { title: "rule", value: (c) => c.rule },
  { title: "reason", value: reasonText },
  { title: "computation", value: (c) => c.computation + (c.in_loop ? " (loop)" : "") },
  { title: "source", value: (c) => sourceLine(c) },
];

function backendText(collective) {
  const { backend, lowered } = collective;
  return backend === lowered ? backend : `${backend} → ${lowered}`;
}

function reasonText(collective) {
  const veto = collective.veto && `not lowered: ${collective.veto}`;
  const whole = collective.part_of ? `part of ${collective.part_of}: ` : "";
  return [whole + collective.reason, veto, collective.model].filter(Boolean).join("; ");
}

class CollectiveTable {
  constructor(onSelect) {
    this.view = document.getElementById("table");
    this.body = document.getElementById("rows");
    this.onSelect = onSelect;
    this.rows = [];
    this.selected = null;
    this.sorted = { column: null, descending: false };
    this.buttons = COLUMNS.map((column, index) => this.makeHeader(column, index));
    this.view.addEventListener("scroll", () => this.draw(), { passive: true });
    this.view.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(this.view);
  }

  makeHeader(column, index) {
    const cell = make("div", column.number ? "number" : "");
    cell.setAttribute("role", "columnheader");
    const button = make("button", "", column.title);
    button.type = "button";
    button.addEventListener("click", () => this.sort(index));
    cell.append(button);
    document.getElementById("head").append(cell);
    return button;
  }

  show(rows) {
    this.rows = rows.slice();
    this.order();
    this.view.scrollTop = 0;
    this.draw();
  }

  sort(index) {
    // The first click on a column of numbers sorts the largest number first.
    const descending = this.sorted.column === index ? !this.sorted.descending : Boolean(COLUMNS[index].number);
    this.sorted = { column: index, descending };
    this.order();
    this.draw();
  }

  order() {
    const { column, descending } = this.sorted;
    COLUMNS.forEach(({ title }, index) => {
      const is = index === column;
      this.buttons[index].textContent = title + (is ? (descending ? " ▾" : " ▴") : "");
      this.buttons[index].parentNode.setAttribute("aria-sort", is ? (descending ? "descending" : "ascending") : "none");
    });
    if (column === null) return;
    const value = COLUMNS[column].value;
    const sign = descending ? -1 : 1;
    this.rows.sort((a, b) => {
      const left = value(a), right = value(b);
      const order = typeof left === "number" ? left - right : NATURAL.compare(left, right);
      return order ? sign * order : a.index - b.index;
    });
  }

  select(collective) {
    this.selected = collective;
    this.draw();
  }

  reveal() {
    const place = this.rows.indexOf(this.selected);
    if (place < 0) return;
    const top = place * ROW_HEIGHT, seen = this.view.clientHeight - ROW_HEIGHT;
    if (top < this.view.scrollTop || top + ROW_HEIGHT > this.view.scrollTop + seen) this.view.scrollTop = top - seen / 2;
  }

  step(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !this.rows.length) return;
    event.preventDefault();
    const place = this.rows.indexOf(this.selected) + by;
    this.onSelect(this.rows[Math.max(0, Math.min(place, this.rows.length - 1))]);
  }

  draw() {
    this.body.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    const first = Math.max(0, Math.floor(this.view.scrollTop / ROW_HEIGHT) - 5);
    const last = Math.min(this.rows.length, first + Math.ceil(this.view.clientHeight / ROW_HEIGHT) + 10);
    this.body.replaceChildren(...this.rows.slice(first, last).map((row, offset) => this.makeRow(row, first + offset)));
  }

  makeRow(collective, place) {
    const row = make("div", collective === this.selected ? "row selected" : "row");
    row.setAttribute("role", "row");
    row.style.top = `${place * ROW_HEIGHT}px`;
    for (const column of COLUMNS) {
      const text = (column.text || column.value)(collective);
      const cell = make("span", column.number ? "number" : "", text);
      cell.setAttribute("role", "cell");
      cell.title = text;
      if (column.text === backendText) cell.className = `${collective.lowered.toLowerCase()}-text`;
      row.append(cell);
    }
    row.addEventListener("click", () => this.onSelect(collective));
    return row;
  }
}
