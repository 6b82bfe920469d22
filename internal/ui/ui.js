// Replaces the middle of the page by what the server sends, and leaves alone what a person is about to use.
"use strict";

const main = document.querySelector("main");
let late = null; // a page that waits until the person lets go of what is selected

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

function selecting() {
  const selection = document.getSelection();
  return !selection.isCollapsed && main.contains(selection.anchorNode);
}

if (main.dataset.live) {
  const source = new EventSource(main.dataset.live);
  source.addEventListener("page", (e) => {
    late = selecting() ? e.data : null;
    if (late === null) place(e.data);
  });
  source.addEventListener("end", () => source.close());
  document.addEventListener("selectionchange", () => {
    if (late === null || selecting()) return;
    place(late);
    late = null;
  });
}
