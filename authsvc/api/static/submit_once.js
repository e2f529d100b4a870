// Discards a second press of the button that has submitted a form, such as that of a double click, which would do its
// work twice. The time permits to press the button of a download again, because its page stays.
'use strict'
{
  const MILLISECONDS = 5000
  let submitted = new Map()

  document.addEventListener('submit', (event) => {
    const { target: form, submitter, timeStamp, defaultPrevented } = event
    if (defaultPrevented || form.method !== 'post') return
    const key = submitter ?? form
    if (timeStamp - submitted.get(key) < MILLISECONDS) event.preventDefault()
    else submitted.set(key, timeStamp)
  })
  // The browser shows the same page again after "Back".
  addEventListener('pageshow', () => {
    submitted = new Map()
  })
}
