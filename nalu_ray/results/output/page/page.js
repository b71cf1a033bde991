"use strict";
const $ = (query, within = document) => [...within.querySelectorAll(query)];
const make = (name, text = "", into = null) => {
  const element = document.createElement(name);
  element.textContent = text;
  into?.append(element);
  return element;
};

// -- tables: sort, copy

for (const button of $("table.cells .sort")) {
  button.addEventListener("click", () => sort(button.parentElement));
}

function sort(head) {
  const table = head.closest("table"), column = [...head.parentElement.children].indexOf(head);
  const order = { ascending: "descending", descending: "" }[head.ariaSort] ?? "ascending";
  for (const other of $("thead th", table)) other.removeAttribute("aria-sort");
  if (order) head.setAttribute("aria-sort", order);
  for (const body of table.tBodies) {
    const rows = $("tr:not(.section)", body);
    rows.forEach((row, place) => (row.dataset.place ??= place));
    const lacks = (row) => Number(!key(row, column));
    rows.sort((a, b) => {
      if (!order) return a.dataset.place - b.dataset.place;
      return lacks(a) - lacks(b) || compare(key(a, column), key(b, column)) * (order === "ascending" ? 1 : -1);
    });
    body.append(...rows);
  }
}

function key(row, column) {
  const cell = row.children[column];
  return cell.dataset.value ?? cell.textContent;
}

function compare(a, b) {
  const [x, y] = [a, b].map((text) => Number(text.replace("inf", "Infinity")));
  return Number.isNaN(x - y) && x !== y ? a.localeCompare(b) : x === y ? 0 : x - y;
}

for (const button of $(".copy")) {
  button.addEventListener("click", async () => {
    const name = button.textContent;
    const done = await copy(await unpacked(button.dataset.copy));
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = name; }, 1500);
  });
}

async function unpacked(data) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", text, document.body);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

// -- filter by layer and operation

const hiding = document.adoptedStyleSheets.length ? null : new CSSStyleSheet();
document.adoptedStyleSheets = [hiding];
const menus = [menu("layer", "Layers"), menu("op", "Operations")].filter(Boolean);
if (menus.length) {
  const bar = document.getElementById("filter");
  bar.append(...menus);
  make("button", "Show all", bar).addEventListener("click", () => {
    for (const box of $("input", bar)) box.checked = true;
    filter();
  });
  bar.hidden = false;
}

function menu(name, title) {
  const labels = new Map();
  for (const head of $(`table.cells [data-${name}]`)) {
    const text = head.matches("tr") ? head.querySelector("th")?.textContent : head.matches("th") ? head.textContent : "";
    const value = head.getAttribute(`data-${name}`);
    if (text && !labels.has(value)) labels.set(value, text);
  }
  if (labels.size < 2) return null;
  const details = make("details"), box = make("div");
  make("summary", `${title}: all`, details);
  details.dataset.filter = name;
  box.className = "menu";
  for (const [value, text] of labels) {
    const label = make("label", "", box), input = make("input", "", label);
    input.type = "checkbox";
    input.value = value;
    input.checked = true;
    label.append(` ${text}`);
    input.addEventListener("change", filter);
  }
  details.append(box);
  return details;
}

function filter() {
  const rules = [];
  for (const details of menus) {
    const boxes = $("input", details), off = boxes.filter((box) => !box.checked), name = details.dataset.filter;
    rules.push(...off.map((box) => `[data-${name}="${CSS.escape(box.value)}"] { display: none; }`));
    const title = details.firstChild.textContent.split(":")[0];
    details.firstChild.textContent = `${title}: ${off.length ? `${boxes.length - off.length} of ${boxes.length}` : "all"}`;
  }
  hiding.replaceSync(rules.join("\n"));
}

document.addEventListener("click", (event) => {
  for (const details of menus) if (!details.contains(event.target)) details.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const details of menus) details.open = false;
    hide();
  }
});

// -- values under the pointer

const tip = document.getElementById("tip");
const SVG = document.querySelector("svg")?.namespaceURI;

function hide() {
  tip.hidden = true;
  for (const line of $(".cursor")) line.remove();
}

function show(lines, x, y) {
  tip.replaceChildren(...lines.map(([text, style]) => {
    const line = make("div");
    if (style) line.append(swatch(style));
    line.append(text);
    return line;
  }));
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), room = document.documentElement;
  tip.style.left = `${Math.max(4, x + 16 + box.width > room.clientWidth ? x - box.width - 16 : x + 16)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 12, room.clientHeight - box.height - 4))}px`;
}

function swatch(style) {
  const svg = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "path");
  svg.setAttribute("width", 22);
  svg.setAttribute("height", 8);
  line.setAttribute("class", `line ${style}`);
  line.setAttribute("d", "M1 4H21");
  svg.append(line);
  return svg;
}

const isShown = (element) => getComputedStyle(element).display !== "none";
const nearest = (values, x) => values.reduce((best, value, place) => (Math.abs(value - x) < Math.abs(values[best] - x) ? place : best), 0);

for (const panel of $("[data-plot]")) {
  const plot = JSON.parse(panel.dataset.plot), groups = $(":scope > g", panel);
  const all = [...new Set(plot.lines.flatMap((line) => line.p))].sort((a, b) => a - b);
  let at = 0;
  const look = (x, clientX, clientY) => {
    hide();
    at = nearest(all, x);
    const lines = plot.lines.filter((line, place) => isShown(groups[place]));
    const near = lines.map((line) => [line, nearest(line.p, all[at])]).filter(([line, place]) => Math.abs(line.p[place] - all[at]) < 3);
    if (!near.length) return;
    const cursor = document.createElementNS(SVG, "path"), box = panel.viewBox.baseVal;
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("d", `M${all[at]} 10V${box.height - 36}`);
    panel.append(cursor);
    const [first, place] = near[0];
    show([[`${plot.x} = ${first.x[place]}`], ...near.map(([line, i]) => [`${line.n}: ${line.y[i]}`, line.c])], clientX, clientY);
  };
  panel.addEventListener("pointermove", (event) => {
    const box = panel.getBoundingClientRect();
    look(((event.clientX - box.left) / box.width) * panel.viewBox.baseVal.width, event.clientX, event.clientY);
  });
  panel.addEventListener("pointerleave", hide);
  panel.addEventListener("blur", hide);
  panel.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !all.length) return;
    event.preventDefault();
    const box = panel.getBoundingClientRect();
    look(all[Math.max(0, Math.min(all.length - 1, at + step))], box.left + 60, box.top + 20);
  });
}

for (const model of $(".model")) {
  const { about, values, seeds, at } = model.dataset;
  const numbers = seeds ? seeds.split(" ") : null;
  const dots = [...model.querySelector(".seed").getAttribute("d").matchAll(/M(\S+) (\S+?)h0/g)].map((m) => [Number(m[1]), Number(m[2])]);
  model.addEventListener("pointermove", (event) => {
    const panel = model.ownerSVGElement, box = panel.getBoundingClientRect(), scale = panel.viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const away = dots.map(([a, b]) => (a - x) ** 2 + (b - y) ** 2), best = nearest(away, 0);
    const lines = [[about]];
    if (away[best] < 100) lines.push([`seed ${numbers ? numbers[best] : best}: ${values.split(" ")[best]}`]);
    show(lines, event.clientX, event.clientY);
  });
  model.addEventListener("pointerleave", hide);
}

// -- episodes

const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

for (const player of $(".show[data-moments]")) {
  const moments = JSON.parse(player.dataset.moments), agent = player.querySelector(".agent");
  const [button, slider, output] = ["button", "input", "output"].map((name) => player.querySelector(name));
  let timer = 0;
  slider.max = moments.length - 1;
  const draw = () => {
    const [row, column, says] = moments[slider.value];
    agent.setAttribute("x", column + 0.15);
    agent.setAttribute("y", row + 0.15);
    output.textContent = says;
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  };
  const step = () => {
    if (Number(slider.value) >= moments.length - 1) return stop();
    slider.value = Number(slider.value) + 1;
    draw();
  };
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) >= moments.length - 1) slider.value = 0;
    draw();
    timer = setInterval(step, 220);
    button.textContent = "Pause";
  });
  slider.addEventListener("input", () => { stop(); draw(); });
  draw();
  if (!calm && "IntersectionObserver" in window) {
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting || timer) return;
      seen.disconnect();
      button.click();
    }, { threshold: 0.8 });
    seen.observe(player);
  }
}

// -- print: everything is open

const closed = [];
addEventListener("beforeprint", () => {
  for (const details of $("main details:not([open])")) {
    closed.push(details);
    details.open = true;
  }
  for (const slider of $(".show input")) { slider.value = slider.max; slider.dispatchEvent(new Event("input")); }
});
addEventListener("afterprint", () => { for (const details of closed.splice(0)) details.open = false; });
