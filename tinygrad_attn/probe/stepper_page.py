"""The stepper as one HTML file: every step precomputed, moved through by keys, buttons or touch.  No network."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from ..show.page import as_json, page
from .stepper_words import in_language

if TYPE_CHECKING:
    from .stepper import Stepper

_BODY = """
<h1>Backward, step by step</h1>
<div id="bar" role="toolbar" aria-label="Steps">
<button id="first" title="first (Home)">&#8676;</button><button id="back" title="back (left arrow)">&#8592; back</button>
<span id="where" aria-live="polite"></span>
<button id="next" title="next (right arrow)">next &#8594;</button><button id="last" title="last (End)">&#8677;</button>
</div>
<input id="slide" type="range" min="0" value="0" aria-label="step">
<p class="dim"><label><input id="numbers" type="checkbox" checked> numbers</label>
<label><input id="jacobians" type="checkbox" checked> local Jacobians</label>
<label><input id="sources" type="checkbox"> source of long rules</label> &nbsp; keys: &#8592; &#8594; Home End</p>
<div id="columns"><main id="step" tabindex="-1"></main><nav aria-label="all steps"><ol id="list"></ol></nav></div>
<noscript><p>This page needs JavaScript to move between the steps; it loads nothing from the network.</p></noscript>
"""

_STYLE = """
#bar{display:flex;flex-wrap:wrap;gap:.4rem;align-items:center;
 position:sticky;top:0;background:var(--paper);padding:.4rem 0;z-index:1}
#where{min-width:8rem;text-align:center;font-variant-numeric:tabular-nums}
#slide{width:100%;padding:0;min-height:1.6rem}
label{margin-right:1rem;white-space:nowrap}label input{min-height:auto}
#columns{display:grid;grid-template-columns:minmax(0,1fr);gap:1rem}
@media(min-width:56rem){#columns{grid-template-columns:minmax(0,1fr) 16rem}
 nav{position:sticky;top:4rem;align-self:start;max-height:85vh;overflow:auto}}
#list{margin:0;padding-left:2.2rem;font-size:.88rem}
#list button{all:unset;cursor:pointer;padding:.15rem .3rem;border-radius:.3rem;overflow-wrap:anywhere}
#list button:focus-visible{outline:3px solid var(--mark)}
#list button[aria-current]{background:var(--mark);color:var(--paper)}
section{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .8rem;margin:.6rem 0}
section h2{margin:.1rem 0 .3rem}section>button{margin-top:.5rem}main:focus{outline:none}
@media(max-width:30rem){#bar{flex-wrap:nowrap}#bar button{padding:.45rem .55rem}#where{min-width:0;flex:1}}
td.number{font-family:ui-monospace,monospace;font-size:.82rem}
.meter{height:.5rem;background:var(--shade);border-radius:.25rem;overflow:hidden;max-width:14rem}
.meter div{height:100%;background:var(--mark)}
"""

_SCRIPT = """
"use strict";
const STEPS = __DATA__;
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
  if (!value) { box.append(el("p", "nothing", "dim")); return box; }
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
  const parts = [];
  for (const [gives, how] of step.formulas) {
    const long = how.includes("\\n");
    if (!long) parts.push(el("pre", gives + " = " + how));
    else if ($("sources").checked) parts.push(el("pre", gives + ":\\n" + how));
    else parts.push(el("pre", gives + " by " + how.split("(")[0].replace("def ", "") + "(...)"));
  }
  if ($("sources").checked) for (const h of step.helpers) parts.push(el("pre", h));
  return card("Rule", ...parts);
}
function share(s) {
  const parts = [el("h3", "sent"), array(s.contribution)];
  if (s.jacobian && $("jacobians").checked)
    parts.push(el("h3", "local Jacobian d(out)/d" + s.argument), el("pre", s.jacobian));
  if (s.contribution) {
    parts.push(el("h3", s.parent + " has received " + s.received + " of " + s.expected));
    const m = el("div", null, "meter"), fill = el("div");
    fill.style.width = 100 * s.received / s.expected + "%";
    m.append(fill); parts.push(m, array(s.accumulated));
  }
  const c = card(s.argument + " \\u2192 " + s.parent, ...parts);
  if (s.place !== null) {
    const b = el("button", "go to " + s.parent);
    b.onclick = () => go(s.place);
    c.append(b);
  }
  return c;
}
function draw() {
  const step = STEPS[place], main = $("step");
  main.replaceChildren(el("h2", step.label));
  main.append(el("p", step.operation + (step.scope ? " in " + step.scope : ""), "dim"), el("pre", step.line));
  main.append(card("Arrives: dL/d(out)", array(step.gradient)));
  if (step.formulas.length) main.append(rule(step));
  if (step.kept.length) {
    const parts = [];
    for (const [name, value] of step.kept) parts.push(el("h3", name), array(value));
    main.append(card("Kept from the forward pass", ...parts));
  }
  for (const s of step.shares) main.append(share(s));
  if (!step.shares.length) main.append(card("A leaf", el("p", "What arrived is its gradient.")));
  $("where").textContent = "step " + (place + 1) + " of " + STEPS.length;
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
"""


def stepper_page(stepper: Stepper, language: str = "en") -> str:
    """Every step of backward as one HTML document, in English or Spanish ("es")."""
    data = [stepper.at(place).as_data() for place in range(len(stepper))]
    title, body, script = (in_language(text, language) for text in ("Backward, step by step", _BODY, _SCRIPT))
    document = page(title, body, _STYLE, script.replace("__DATA__", as_json(data)))
    return document.replace('<html lang="en">', f'<html lang="{language}">', 1)


def notebook_frame(stepper: Stepper, language: str = "en") -> str:
    """The page inside a notebook cell: a frame of its own, so that its keys and styles stay in it."""
    source = html.escape(stepper_page(stepper, language), quote=True)
    style, title = "width:100%;height:40rem;border:1px solid #999", in_language("Backward, step by step", language)
    return f'<iframe srcdoc="{source}" style="{style}" title="{title}"></iframe>'
