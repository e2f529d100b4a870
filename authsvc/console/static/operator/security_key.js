// Prompts for a security key, on load and when the button is pressed, and submits the form with the response.
'use strict'
{
  const form = document.querySelector('#security-key')
  const status = document.querySelector('#key-status')
  const button = form.querySelector('button')

  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0))
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')

  const read = (options) => ({
    ...options,
    challenge: bytes(options.challenge),
    allowCredentials: options.allowCredentials.map((credential) => ({ ...credential, id: bytes(credential.id) })),
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

  const prompt = async () => {
    button.disabled = true
    status.textContent = 'Use your security key as your browser asks.'
    try {
      const credential = await navigator.credentials.get({ publicKey: read(JSON.parse(form.dataset.options)) })
      form.elements.credential.value = JSON.stringify(write(credential))
      form.submit()
    } catch (error) {
      button.disabled = false
      status.textContent = error.name === 'SecurityError'
        ? 'Security keys do not work at this address of the console.'
        : 'No security key responded.'
    }
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    prompt()
  })
  prompt()
}
