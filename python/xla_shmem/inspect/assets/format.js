"use strict";

// Numbers and source lines as text, in the units of the command's tables.

function formatBytes(count) {
  if (count === null) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; ++unit) count /= 1024;
  return unit === 0 ? `${count} B` : `${count.toFixed(1)} ${units[unit]}`;
}

function formatFlops(count) {
  if (count === null) return "unknown FLOP";
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  for (; count >= 999.95 && unit < units.length - 1; ++unit) count /= 1000;
  return unit === 0 ? `${count} FLOP` : `${count.toFixed(1)} ${units[unit]}FLOP`;
}

// Returns the bytes of "64KiB", "1 m" or "4096"; 0 for empty text, null for an invalid size.
function parseSize(text) {
  const match = /^\s*(?:(\d+)\s*(b|k|kib|m|mib|g|gib)?)?\s*$/i.exec(text);
  if (!match) return null;
  return Number(match[1] || 0) * 1024 ** "bkmg".indexOf((match[2] || "b")[0].toLowerCase());
}

function sourceLine(collective) {
  if (!collective.source_file) return "";
  return `${collective.source_file.split(/[\\/]/).pop()}:${collective.source_line}`;
}

function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function describeOverlap(overlap) {
  if (!overlap) return "nothing (synchronous)";
  const parts = [];
  if (overlap.compute.length) {
    parts.push(plural(overlap.compute.length, "instruction"));
    parts.push(formatFlops(overlap.flops), formatBytes(overlap.bytes));
  }
  if (overlap.collectives) parts.push(plural(overlap.collectives, "other collective"));
  for (const name of overlap.controls) parts.push(`all of ${name}`);
  return parts.join(", ") || "nothing";
}

// Makes an element. The text is set as text, so that names are not parsed as markup.
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
