// Shows new messages without a reload, which would take the focus from users of a keyboard.
'use strict'

const PAUSE = 2000 // milliseconds

async function update() {
  const response = await fetch(location.pathname)
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  const shown = document.querySelector('main')
  const fresh = page.querySelector('main')
  if (!response.ok || !fresh || fresh.innerHTML === shown.innerHTML) return
  const focused = shown.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null
  shown.replaceChildren(...fresh.childNodes)
  if (focused) shown.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true })
}

setInterval(() => {
  if (!document.hidden) update().catch(() => {}) // the server restarts: the next attempt follows
}, PAUSE)
