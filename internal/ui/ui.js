// Replaces the middle of the page by what the server sends, and leaves alone what a person has opened, scrolled, typed or is about to use.
"use strict";

const main = document.querySelector("main");
const toggled = new Map(); // whether the details with an id are open, of those that the person has opened or closed
let late = null; // a page that waits until the person lets go of what is selected or pressed
let pressed = false;

function atEnd(e) {
  return e.scrollTop + e.clientHeight >= e.scrollHeight - 4;
}

function place(html) {
  const used = main.contains(document.activeElement) ? document.activeElement : null;
  const id = used && used.id;
  const typed = new Map();
  for (const e of main.querySelectorAll("input[type=text][id]")) {
    if (e === used || e.value !== e.defaultValue) typed.set(e.id, e.value);
  }
  const scrolled = new Map();
  for (const e of main.querySelectorAll("details[id] > pre.printed")) {
    if (!atEnd(e)) scrolled.set(e.parentElement.id, e.scrollTop);
  }
  const charts = document.getElementById("charts");
  main.innerHTML = html;
  const empty = document.getElementById("charts");
  if (charts && empty && !empty.hasChildNodes()) empty.replaceWith(charts); // those come on their own
  for (const [name, open] of toggled) {
    const e = document.getElementById(name);
    if (e) e.open = open;
  }
  showEnds(scrolled);
  for (const [name, value] of typed) {
    const e = document.getElementById(name);
    if (e) e.value = value;
  }
  const again = id && document.getElementById(id);
  if (again) again.focus({ preventScroll: true });
}

// showEnds scrolls outputs to their ends, where errors are, unless the person has scrolled them elsewhere.
function showEnds(scrolled) {
  for (const e of main.querySelectorAll("details[id] > pre.printed")) {
    const at = scrolled.get(e.parentElement.id);
    e.scrollTop = at === undefined ? e.scrollHeight : at;
  }
}

function busy() {
  const selection = document.getSelection();
  return pressed || (!selection.isCollapsed && main.contains(selection.anchorNode));
}

function catchUp() {
  if (late === null || busy()) return;
  place(late);
  late = null;
}

showEnds(new Map());
main.addEventListener("click", (e) => {
  const summary = e.target.closest("summary");
  const details = summary && summary.parentElement;
  if (!details || !details.id) return;
  toggled.set(details.id, !details.open);
  const output = details.querySelector(":scope > pre.printed");
  if (output) requestAnimationFrame(() => { output.scrollTop = output.scrollHeight; });
});

if (main.dataset.live) {
  const source = new EventSource(main.dataset.live);
  source.addEventListener("page", (e) => {
    late = e.data;
    catchUp();
  });
  source.addEventListener("charts", (e) => {
    const charts = document.getElementById("charts");
    if (charts) charts.innerHTML = e.data;
  });
  source.addEventListener("end", () => source.close());
  document.addEventListener("selectionchange", catchUp);
  document.addEventListener("pointerdown", () => { pressed = true; });
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => {
      pressed = false;
      setTimeout(catchUp); // after the click, which needs what was pressed
    });
  }
}
