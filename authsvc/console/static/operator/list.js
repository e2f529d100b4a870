// Searches while the operator types: replaces the rows, filters and links, and keeps the URL a link to the list. The
// button that shows hidden personal data shows that of the URL.
// Without scripts the form of the search does the same.
const search = document.getElementById("changelist-search");
const replaced = ["changelist-form", "changelist-filter", "export", "show-all", "personal-data"];
const DELAY = 250;
let timer = 0;
let running = null;

function listUrl() {
  const parameters = new URLSearchParams(new FormData(search));
  for (const [name, value] of [...parameters]) {
    if (!value.trim()) parameters.delete(name);
  }
  return `${location.pathname}?${parameters}`;
}

function show(page) {
  const [note, total] = ["search-status", "list-total"].map((id) => page.getElementById(id)?.textContent.trim());
  for (const id of replaced) {
    const present = document.getElementById(id);
    const next = page.getElementById(id);
    if (present && next) present.replaceWith(next);
  }
  document.getElementById("search-status").textContent = note || total || "";
  const boxes = document.querySelectorAll("tr input.action-select");
  if (boxes.length && window.Actions) window.Actions(boxes);
}

async function load() {
  const url = listUrl();
  running?.abort();
  running = new AbortController();
  try {
    const response = await fetch(url, { signal: running.signal, credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (!response.ok || !page.getElementById("changelist-form")) {
      location.assign(url); // signed out, or an error page
      return;
    }
    history.replaceState(null, "", url);
    show(page);
  } catch (error) {
    if (error.name !== "AbortError") location.assign(url);
  }
}

search?.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(load, DELAY);
});
search?.addEventListener("submit", () => clearTimeout(timer));
