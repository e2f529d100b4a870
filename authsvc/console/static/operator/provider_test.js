// Tests a form without leaving the page, so that a typed client secret stays. Without this script the page is loaded again.
for (const button of document.querySelectorAll("[data-tests]")) {
  const place = document.getElementById(button.dataset.tests);
  button.form.addEventListener("submit", async (event) => {
    if (event.submitter !== button) return;
    event.preventDefault();
    const label = button.textContent;
    button.disabled = true;
    button.textContent = "Testing…";
    try {
      const body = new FormData(button.form);
      body.set(button.name, button.value);
      const response = await fetch(location.href, { method: "POST", body });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const result = page.getElementById(place.id);
      const texts = result ? [...result.childNodes] : ["The test did not run. Reload the page and try again."];
      place.replaceChildren(...texts);
    } catch {
      place.replaceChildren("The server did not answer. Try again.");
    }
    button.disabled = false;
    button.textContent = label;
    place.scrollIntoView({ block: "start" });
    place.focus({ preventScroll: true });
  });
}
