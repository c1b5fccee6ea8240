"use strict";

// The participants of a collective on a map of the devices. Boxes are NVLink domains, hosts (the larger one outside)
// and processes.

// Colours repeat; the tooltip of a device has the number of its group.
const GROUP_COLOURS = ["#1f6fd1", "#c2560a", "#2e7d4f", "#8a3fb0", "#b3261e", "#0f7b8a", "#8a6d00", "#b0307a"];
const MOST_DEVICES = 4096;
const MOST_ARROWS = 256;

function drawTopology(devices, members) {
  const root = document.getElementById("topology");
  root.replaceChildren();
  if (!members || devices.length > MOST_DEVICES) {
    root.append(make("p", "note", members ? `Not drawn: more than ${MOST_DEVICES} devices.` : "The participants are unknown."));
    return;
  }
  const groups = members.pairs.length ? connected(members.pairs) : members.groups;
  const groupOf = new Map();
  groups.forEach((group, number) => group.forEach((device) => groupOf.set(device, number)));
  const cells = placeDevices(root, devices, groupOf);
  const hasArrows = members.pairs.length > 0 && members.pairs.length <= MOST_ARROWS;
  root.classList.toggle("arrows", hasArrows);
  if (hasArrows) drawArrows(root, cells, members.pairs);
}

// Returns the sets of devices that pairs connect.
function connected(pairs) {
  const parent = new Map();
  const find = (device) => {
    if (!parent.has(device)) parent.set(device, device);
    let root = device;
    while (parent.get(root) !== root) root = parent.get(root);
    parent.set(device, root);
    return root;
  };
  for (const [source, target] of pairs) parent.set(find(source), find(target));
  const sets = new Map();
  for (const device of parent.keys()) {
    const root = find(device);
    if (!sets.has(root)) sets.set(root, []);
    sets.get(root).push(device);
  }
  return [...sets.values()];
}

function placeDevices(root, devices, groupOf) {
  const count = (key) => new Set(devices.map((device) => device[key])).size;
  const levels = [{ key: "nvlink_domain", title: "NVLink domain" }, { key: "host", title: "host" }];
  if (count("host") < count("nvlink_domain")) levels.reverse();
  levels.push({ key: "process", title: "process" });
  const boxes = new Map();
  const cells = new Map();
  for (const device of devices) {
    let inside = root, path = "";
    levels.forEach(({ key, title }, depth) => {
      path += `/${device[key]}`;
      if (!boxes.has(path)) {
        const box = make("div", depth ? "place inner" : "place");
        const content = make("div");
        box.append(make("small", "", `${title} ${device[key]}`), content);
        inside.append(box);
        boxes.set(path, content);
      }
      inside = boxes.get(path);
    });
    const cell = make("span", "device", String(device.device_id));
    const group = groupOf.get(device.device_id);
    cell.title = group === undefined ? `device ${device.device_id}: no participant` : `device ${device.device_id}: group ${group}`;
    if (group !== undefined) {
      cell.classList.add("member");
      cell.style.background = GROUP_COLOURS[group % GROUP_COLOURS.length];
    }
    inside.append(cell);
    cells.set(device.device_id, cell);
  }
  return cells;
}

function drawArrows(root, cells, pairs) {
  const svg = (tag, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const canvas = svg("svg", { width: root.scrollWidth, height: root.scrollHeight, "aria-hidden": "true" });
  const marker = svg("marker", { id: "tip", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" });
  marker.append(svg("path", { d: "M0 0L6 3L0 6Z" }));
  canvas.append(marker);
  const origin = root.getBoundingClientRect();
  const edge = (device, share) => {
    const box = cells.get(device).getBoundingClientRect();
    return [box.left - origin.left + root.scrollLeft + box.width * share, box.bottom - origin.top + root.scrollTop];
  };
  for (const [source, target] of pairs) {
    if (!cells.has(source) || !cells.has(target) || source === target) continue;
    const [x1, y1] = edge(source, 0.65), [x2, y2] = edge(target, 0.35);
    const depth = 14 + Math.min(20, Math.abs(x2 - x1) / 12);  // below the devices, so that labels stay readable
    canvas.append(svg("path", { d: `M${x1} ${y1}Q${(x1 + x2) / 2} ${Math.max(y1, y2) + depth} ${x2} ${y2}`, "marker-end": "url(#tip)" }));
  }
  root.append(canvas);
}
