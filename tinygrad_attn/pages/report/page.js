"use strict";
const $ = id => document.getElementById(id);
const DATA = JSON.parse($("data").textContent);
const SAY = DATA.say;

function el(tag, text, name) {  // text only, never markup: no word of a sentence can inject anything
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  if (name) e.className = name;
  return e;
}

function short(x, signed) {  // as few characters as a narrow cell needs
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (!signed && size >= 0.995) return "1";
  if (size < 0.005) return signed ? "≈0" : "0";
  return x.toFixed(size >= 9.95 ? 0 : size >= 0.995 ? 1 : 2).replace("0.", ".");
}

// A matrix as a table: a darker cell is a larger number; red where it is negative.  Gives the power of ten left out.
function matrix(box, rows, longRowNames, longColumnNames, signed, describe) {
  const rowNames = longRowNames.map(fitting), columnNames = longColumnNames.map(fitting);
  const table = el("table", null, "matrix"), head = el("thead"), body = el("tbody"), tr = el("tr");
  const wide = columnNames.length > 10, shortNames = columnNames.every(w => [...w].length < 2), longest = Math.max(...rowNames.map(w => [...w].length), 1);
  const names = el("col", null, "names"), group = el("colgroup");
  group.append(names, ...columnNames.map(() => el("col")));
  table.style.setProperty("--names", longest * 0.62 + 0.8 + "em");
  table.style.setProperty("--least", wide ? columnNames.length * 0.55 + "rem" : "0");
  const turned = wide && !shortNames || Math.max(...columnNames.map(w => [...w].length)) > 6;
  if (turned) head.className = "turned";
  if (wide) table.classList.add("wide");
  tr.append(el("td"));
  tr.firstChild.style.background = "none";
  for (const word of columnNames) { const th = el("th"); th.scope = "col"; th.append(el("span", word)); tr.append(th); }
  head.append(tr);
  let largest = signed ? 0 : 1;
  if (signed) for (const row of rows) for (const x of row) if (x !== null) largest = Math.max(largest, Math.abs(x));
  const unit = signed && largest > 0 && (largest < 0.1 || largest >= 1000) ? 10 ** Math.floor(Math.log10(largest)) : 1;
  rows.forEach((row, i) => {
    const line = el("tr"), th = el("th", rowNames[i]);
    th.scope = "row";
    line.append(th);
    row.forEach((x, j) => {
      const td = el("td");
      if (x === null) { td.className = "unseen"; td.title = describe(i, j) + ": " + SAY.hidden; line.append(td); return; }
      let share = largest ? Math.abs(x) / largest : 0;
      if (wide && !signed) share = Math.sqrt(share);  // many keys, small weights: they still show
      td.style.setProperty("--hue", x < 0 ? "var(--warm)" : "var(--mark)");
      td.style.setProperty("--share", (100 * share).toFixed(1) + "%");
      if (share > 0.55) td.className = share > 0.75 ? "strong" : "middle";
      if (!wide) td.textContent = short(x / unit, signed);
      td.dataset.value = x;
      td.title = describe(i, j) + ": " + x;
      line.append(td);
    });
    body.append(line);
  });
  table.append(group, head, body);
  box.replaceChildren(table);
  box.tabIndex = 0;
  return unit === 1 ? "" : " · ×" + unit.toExponential(0);
}

function figure(caption, small, fill) {
  const f = el("figure"), c = el("figcaption", caption + " "), box = el("div", null, "matrix-box");
  f.append(c, box);
  c.append(el("small", small + (fill(box) || "")));
  return f;
}

const fitting = word => [...word].length > 16 ? [...word].slice(0, 15).join("") + "…" : word;
const places = (words, i, j) => words[i] + " (" + i + ") " + SAY.looks + " " + words[j] + " (" + j + ")";

function drawHeads(at) {
  const snapshot = DATA.snapshots[at], words = DATA.words, all = [];
  snapshot.layers.forEach((heads, layer) => heads.forEach((rows, head) => all.push(
    figure(SAY.layer + " " + layer + ", " + SAY.head + " " + head, "",
      box => matrix(box, rows, words, words, false, (i, j) => places(words, i, j))))));
  $("heads").classList.toggle("wide", words.length > 10);
  $("heads").replaceChildren(...all);
  const answers = snapshot.answers.map(([word, p]) => word + " " + (100 * p).toFixed(2) + " %").join(", ");
  $("snapshot-numbers").textContent = SAY.loss + " " + snapshot.loss + "; " + SAY.answers + ": " + answers;
}

function drawSteps() {
  const at = Math.min(+$("steps-snapshot").value, DATA.steps.length - 1);
  const layer = Math.min(+$("steps-layer").value, DATA.steps[at].length - 1), head = +$("steps-head").value;
  $("steps-snapshot").value = at; $("steps-layer").value = layer;  // a large model keeps fewer of them
  const what = $("steps-what").value === "1" ? "gradient" : "value", words = DATA.words, all = [];
  for (const [name, step] of Object.entries(DATA.steps[at][layer])) {
    const rows = step[what] && step[what][head];
    const title = what === "gradient" ? "dL/d(" + name + ")" : name + " = " + step.formula;
    if (!rows) { all.push(figure(title, SAY.none, () => {})); continue; }
    const columns = name === "mix" ? rows[0].map((_, j) => String(j)) : words;
    let size = rows.length + " × " + rows[0].length;
    if (name === "scores" && what === "value") {
      const gaps = rows.flatMap((row, i) => row.map((x, j) => Math.abs(x - rows[j][i])));
      size += "; " + SAY.asymmetry + " = " + Math.max(...gaps).toPrecision(3);
    }
    all.push(figure(title, size, box =>
      matrix(box, rows, words, columns, !(name === "weights" && what === "value"),
        (i, j) => name === "mix" ? words[i] + ", " + j : places(words, i, j))));
  }
  $("steps").replaceChildren(...all);
}

function drawTemperature(at) {
  const one = DATA.temperature.at[at], words = DATA.words;
  matrix($("temperature-weights"), [one.weights], [words[words.length - 1]], words, false,
    (i, j) => places(words, words.length - 1, j));
  const unit = matrix($("temperature-jacobian"), one.jacobian, words, words, true, (i, j) => "∂w(" + words[i] + ")/∂s(" + words[j] + ")");
  $("temperature-numbers").textContent = "T = " + one.T + "; " + SAY.entropy + " " + one.entropy + "; " +
    SAY.jacobian + " " + one.norm + "; " + SAY.slope + " " + one.slope;
  $("temperature-unit").textContent = unit;
  const marker = $("temperature-marker");
  if (marker) marker.setAttribute("transform", "translate(" + DATA.temperature.places[at] + " 0)");
}

const DRAW = {snapshot: DATA.snapshots && drawHeads, temperature: DATA.temperature && drawTemperature};

function moved(input) {
  const at = +input.value, name = input.dataset.slider;
  for (const same of document.querySelectorAll('[data-slider="' + name + '"]')) {
    const text = same.dataset.values.split("|")[at];
    same.value = at;
    same.setAttribute("aria-valuetext", text);
    same.parentElement.querySelector("output").textContent = text;
  }
  for (const set of document.querySelectorAll('[data-frames="' + name + '"]'))
    [...set.children].forEach((frame, i) => { frame.hidden = i !== at; });
  if (DRAW[name]) DRAW[name](at);
}

for (const input of document.querySelectorAll("[data-slider]")) {
  input.addEventListener("input", () => moved(input));
  moved(input);
}
if (DATA.steps) {
  for (const id of ["steps-layer", "steps-head", "steps-snapshot", "steps-what"]) $(id).addEventListener("change", drawSteps);
  drawSteps();
}
