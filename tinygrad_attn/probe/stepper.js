// DATA = {steps, say}: the steps (StepView in stepview.py) and the words (stepper.toml) are put in front of this file.
const STEPS = DATA.steps, SAY = DATA.say;
const $ = id => document.getElementById(id);
let place = 0;
function el(tag, text, name) {  // text only, never markup: names and source lines cannot inject anything
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  if (name) e.className = name;
  return e;
}
function array(value) {
  const box = el("div");
  if (value === null) { box.append(el("p", SAY.nothing, "dim")); return box; }
  if (typeof value === "string") { box.append(el("p", value)); return box; }
  box.append(el("p", value.text));
  if (value.rows && $("numbers").checked) {
    const scroll = el("div", null, "scroll"), table = el("table");
    for (const row of value.rows) {
      const tr = el("tr");
      for (const x of row) tr.append(el("td", x, "number"));
      table.append(tr);
    }
    scroll.append(table); box.append(scroll);
  }
  return box;
}
function card(title, ...parts) {
  const s = el("section");
  s.append(el("h2", title), ...parts);
  return s;
}
function rule(step) {
  const parts = step.formulas.map(([gives, how]) => el("pre", gives + " = " + how));
  if ($("sources").checked) for (const text of step.sources) parts.push(el("pre", text));
  return card(SAY.rule, ...parts);
}
function share(s) {
  const parts = [el("h3", SAY.sent), array(s.contribution)];
  if (s.jacobian && $("jacobians").checked)
    parts.push(el("h3", SAY.jacobian + " d(out)/d" + s.argument), el("pre", s.jacobian));
  if (s.contribution) {
    parts.push(el("h3", s.parent + " " + SAY.received + " " + s.received + " " + SAY.of + " " + s.expected));
    const m = el("div", null, "meter"), fill = el("div");
    fill.style.width = 100 * s.received / s.expected + "%";
    m.append(fill); parts.push(m, array(s.accumulated));
  }
  const c = card(s.argument + " \u2192 " + s.parent, ...parts);
  if (s.place !== null) {
    const b = el("button", SAY.go_to + " " + s.parent);
    b.onclick = () => go(s.place);
    c.append(b);
  }
  return c;
}
function draw() {
  const step = STEPS[place], main = $("step");
  main.replaceChildren(el("h2", step.label));
  main.append(el("p", step.operation + (step.scope ? " " + SAY.in + " " + step.scope : ""), "dim"), el("pre", step.line));
  main.append(card(SAY.arrives + ": dL/d(out)", array(step.gradient)));
  if (step.formulas.length) main.append(rule(step));
  const saved = Object.entries(step.saved);
  if (saved.length) main.append(card(SAY.saved, ...saved.flatMap(([name, value]) => [el("h3", name), array(value)])));
  for (const s of step.shares) main.append(share(s));
  if (!step.shares.length) main.append(card(SAY.leaf, el("p", SAY.leaf_gradient)));
  $("where").textContent = SAY.step + " " + (place + 1) + " " + SAY.of + " " + STEPS.length;
  $("slide").value = place;
  $("back").disabled = $("first").disabled = place === 0;
  $("next").disabled = $("last").disabled = place === STEPS.length - 1;
  document.querySelectorAll("#list button").forEach((b, i) => {
    if (i === place) { b.setAttribute("aria-current", "step"); }
    else b.removeAttribute("aria-current");
  });
}
function go(i) { place = Math.max(0, Math.min(STEPS.length - 1, i)); draw(); }
$("slide").max = STEPS.length - 1;
STEPS.forEach((step, i) => {
  const named = step.label !== step.operation.split(" ")[0];
  const li = el("li"), b = el("button", named ? step.label : (step.scope ? step.scope + " " : "") + step.operation);
  b.onclick = () => go(i);
  li.append(b); $("list").append(li);
});
$("first").onclick = () => go(0); $("last").onclick = () => go(STEPS.length - 1);
$("next").onclick = () => go(place + 1); $("back").onclick = () => go(place - 1);
$("slide").oninput = () => go(+$("slide").value);
for (const id of ["numbers", "jacobians", "sources"]) $(id).onchange = draw;
document.addEventListener("keydown", e => {
  if (e.target.type === "range" || e.ctrlKey || e.metaKey || e.altKey) return;
  const to = {ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: STEPS.length - 1, n: place + 1, p: place - 1}[e.key];
  if (to !== undefined) { go(to); e.preventDefault(); }
});
draw();
