// Starts the next batch of an action. Without scripts the operator presses "Continue".
const form = document.getElementById("action-progress");
form.querySelector("button:not([name])").hidden = true;
// The time lets the operator press "Stop" between two batches.
const timer = setTimeout(() => form.requestSubmit(), 500);
form.addEventListener("submit", () => clearTimeout(timer));
