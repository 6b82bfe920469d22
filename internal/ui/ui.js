// Replaces the middle of the page by what the server sends, and leaves alone what a person is about to use.
"use strict";

const main = document.querySelector("main");
let late = null; // a page that waits until the person lets go of what is selected or pressed
let pressed = false;

function place(html) {
  const used = main.contains(document.activeElement) ? document.activeElement : null;
  const id = used && used.id;
  const typed = used && used.value;
  main.innerHTML = html;
  const again = id && document.getElementById(id);
  if (again) {
    if (again.tagName === "INPUT") again.value = typed;
    again.focus({ preventScroll: true });
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

if (main.dataset.live) {
  const source = new EventSource(main.dataset.live);
  source.addEventListener("page", (e) => {
    late = e.data;
    catchUp();
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
