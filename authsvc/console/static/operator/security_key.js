// Asks the browser for a security key, at once and whenever the button is pressed, and sends the form with its answer.
'use strict'
{
  const form = document.querySelector('#security-key')
  const says = document.querySelector('#key-says')
  const button = form.querySelector('button')

  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.charCodeAt(0))
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')

  const read = (options) => ({
    ...options,
    challenge: bytes(options.challenge),
    allowCredentials: options.allowCredentials.map((known) => ({ ...known, id: bytes(known.id) })),
  })
  const write = ({ id, rawId, type, response }) => ({
    id,
    rawId: text(rawId),
    type,
    response: {
      clientDataJSON: text(response.clientDataJSON),
      authenticatorData: text(response.authenticatorData),
      signature: text(response.signature),
      ...(response.userHandle && { userHandle: text(response.userHandle) }),
    },
  })

  const ask = async () => {
    button.disabled = true
    says.textContent = 'Your browser is asking for your security key.'
    try {
      const credential = await navigator.credentials.get({ publicKey: read(JSON.parse(form.dataset.options)) })
      form.elements.credential.value = JSON.stringify(write(credential))
      form.submit()
    } catch (error) {
      button.disabled = false
      says.textContent = error.name === 'SecurityError'
        ? 'Your browser knows no keys for this address of the console.'
        : 'Your browser got no answer from a security key.'
    }
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    ask()
  })
  ask()
}
