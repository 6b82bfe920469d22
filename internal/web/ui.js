// Replaces the middle of the page by what the server sends, and leaves alone what a person has opened, scrolled, typed or is about to use.
"use strict";

const main = document.querySelector("main");
const toggled = new Map(); // whether the details with an id are open, of those that the person has opened or closed
let late = null; // a page that waits until the person lets go of what is selected or pressed
let pressed = false;

function atEnd(e) {
  return e.scrollTop + e.clientHeight >= e.scrollHeight - 4;
}

// same returns a function that finds what stands for an element when the page has been replaced: by its id, or of links by their address.
function same(e) {
  if (e.id) return () => document.getElementById(e.id);
  if (!e.href) return () => null;
  const like = () => [...main.querySelectorAll("a[href]")].filter((a) => a.href === e.href);
  const n = like().indexOf(e);
  return () => { const all = like(); return all[n] || all[0]; };
}

// Tables are sorted by the heading that was pressed last, as long as the page is open.
const orders = new Map(); // by the names of tables: the column, and whether the largest come first

function valueOf(cell) {
  const time = cell.querySelector("time"); // an age
  const text = cell.dataset.sort || (time ? -Date.parse(time.dateTime) : cell.textContent.trim().replaceAll("\u202f", ""));
  return text === "" || isNaN(text) ? text : Number(text);
}

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function arrange(root) {
  for (const table of root.querySelectorAll(".wide > table")) {
    const name = table.parentElement.getAttribute("aria-label");
    const order = orders.get(name);
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.querySelector("input")) return;
      const button = head.querySelector("button") || document.createElement("button");
      if (!button.isConnected && !head.contains(button)) {
        button.append(...head.childNodes);
        button.id = `sort ${name} ${column}`;
        head.append(button);
      }
      head.removeAttribute("aria-sort");
      if (!order || order.column !== column) return;
      head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].filter((row) => row.cells[column]);
      rows.sort((a, b) => (order.down ? -1 : 1) * compare(valueOf(a.cells[column]), valueOf(b.cells[column])));
      table.tBodies[0].append(...rows);
    });
  }
}

// replace puts what has changed in the place of what there was. All else stays, so that a button does not go from under the pointer.
function replace(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  arrange(made.content);
  const stays = (old, e) => old.isEqualNode(e) || (e.id === "charts" && old.id === "charts" && !e.hasChildNodes()); // those come on their own
  let old = main.firstElementChild;
  for (const e of [...made.content.children]) {
    let found = old;
    while (found && !stays(found, e)) found = found.nextElementSibling;
    if (!found) {
      main.insertBefore(e, old);
      continue;
    }
    while (old !== found) {
      const next = old.nextElementSibling;
      old.remove();
      old = next;
    }
    old = found.nextElementSibling;
  }
  while (old) {
    const next = old.nextElementSibling;
    old.remove();
    old = next;
  }
}

function place(html) {
  const used = main.contains(document.activeElement) ? document.activeElement : null;
  const again = used && same(used);
  const typed = new Map();
  for (const e of main.querySelectorAll("input[type=text][id], input[type=number][id]")) {
    if (e === used || e.value !== e.defaultValue) typed.set(e.id, e.value);
  }
  const ticked = [...main.querySelectorAll("input[type=checkbox][id]:checked")].map((e) => e.id);
  const scrolled = new Map();
  for (const e of main.querySelectorAll("details[id] > pre.printed")) {
    if (!atEnd(e)) scrolled.set(e.parentElement.id, e.scrollTop);
  }
  const aside = [...main.querySelectorAll(".wide")].map((e) => e.scrollLeft);
  replace(html);
  main.querySelectorAll(".wide").forEach((e, i) => { if (aside[i] && !e.scrollLeft) e.scrollLeft = aside[i]; });
  for (const [name, open] of toggled) {
    const e = document.getElementById(name);
    if (e) e.open = open;
  }
  showEnds(scrolled);
  for (const [name, value] of typed) {
    const e = document.getElementById(name);
    if (e) e.value = value;
  }
  for (const name of ticked) {
    const e = document.getElementById(name);
    if (e) e.checked = true;
  }
  const to = again && again();
  if (to) to.focus({ preventScroll: true });
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

arrange(main);
showEnds(new Map());
main.addEventListener("click", (e) => {
  const head = e.target.closest("th");
  if (head && e.target.closest("th > button")) {
    const name = head.closest(".wide").getAttribute("aria-label");
    const before = orders.get(name);
    orders.set(name, { column: head.cellIndex, down: before && before.column === head.cellIndex ? !before.down : head.classList.contains("n") });
    arrange(main);
    return;
  }
  const summary = e.target.closest("summary");
  const details = summary && summary.parentElement;
  if (!details || !details.id) return;
  toggled.set(details.id, !details.open);
  const output = details.querySelector(":scope > pre.printed");
  if (output) requestAnimationFrame(() => { output.scrollTop = output.scrollHeight; });
});

// A form that starts something asks first where that says so, and is sent once.
main.addEventListener("submit", (e) => {
  const button = e.submitter;
  if (e.target.method !== "post" || !button) return;
  const all = e.target.querySelector("[name=all]:checked");
  const question = all ? `${button.textContent}: all ${all.value} items that match?` : button.dataset.confirm;
  if (question && !confirm(question)) {
    e.preventDefault();
    return;
  }
  setTimeout(() => { button.disabled = true; });
});

main.addEventListener("change", (e) => {
  if (e.target.id !== "page") return;
  for (const box of main.querySelectorAll("input[name=item]")) box.checked = e.target.checked;
});

// The stream is only open while somebody can see the page: a browser has few connections to a server, and each tab would hold one.
let source = null;
let retry = 0;
let seen = new Date(); // when the page was known to be as it is

function lost(text) {
  const e = document.getElementById("lost");
  e.hidden = !text;
  if (e.textContent !== text) e.textContent = text;
}

function disconnect() {
  clearTimeout(retry);
  if (source) source.close();
  source = null;
}

function connect() {
  if (source || !main.dataset.live) return;
  clearTimeout(retry);
  source = new EventSource(main.dataset.live);
  source.addEventListener("open", () => { seen = null; lost(""); });
  source.addEventListener("page", (e) => {
    late = e.data;
    catchUp();
  });
  source.addEventListener("charts", (e) => {
    const charts = document.getElementById("charts");
    if (!charts) return;
    charts.innerHTML = e.data;
    arrange(charts);
  });
  source.addEventListener("end", disconnect);
  source.addEventListener("error", () => {
    disconnect();
    seen = seen || new Date();
    lost(`prodigy ui does not answer: this page is as of ${seen.toLocaleTimeString()}.`);
    retry = setTimeout(connect, 3000);
  });
}

if (main.dataset.live) {
  if (!("ended" in main.dataset)) connect();
  // A job that has ended may have been resumed elsewhere meanwhile.
  document.addEventListener("visibilitychange", () => { if (document.hidden) disconnect(); else connect(); });
  window.addEventListener("focus", connect);
  document.addEventListener("selectionchange", catchUp);
  document.addEventListener("pointerdown", () => { pressed = true; });
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => {
      pressed = false;
      setTimeout(catchUp); // after the click, which needs what was pressed
    });
  }
}
