// Prompts for a security key or passkey, on load and when the button is pressed, and submits the form with the response.
// The texts are attributes of the form.
'use strict'
{
  const form = document.querySelector('#security-key')
  const status = document.querySelector('#key-status')
  const button = form.querySelector('button')

  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0))
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')

  const { ceremony, options, promptText, wrongSiteText, knownText, noResponseText } = form.dataset

  const readAll = (credentials) => credentials.map((credential) => ({ ...credential, id: bytes(credential.id) }))
  const read = ({ challenge, user, allowCredentials, excludeCredentials, ...options }) => ({
    ...options,
    challenge: bytes(challenge),
    ...(user && { user: { ...user, id: bytes(user.id) } }),
    ...(allowCredentials && { allowCredentials: readAll(allowCredentials) }),
    ...(excludeCredentials && { excludeCredentials: readAll(excludeCredentials) }),
  })
  const writeNew = (response) => ({
    clientDataJSON: text(response.clientDataJSON),
    attestationObject: text(response.attestationObject),
    ...(response.getTransports && { transports: response.getTransports() }),
  })
  const writeAssertion = (response) => ({
    clientDataJSON: text(response.clientDataJSON),
    authenticatorData: text(response.authenticatorData),
    signature: text(response.signature),
    ...(response.userHandle && { userHandle: text(response.userHandle) }),
  })
  const write = ({ id, rawId, type, response, authenticatorAttachment }) => ({
    id,
    rawId: text(rawId),
    type,
    ...(authenticatorAttachment && { authenticatorAttachment }),
    response: response.attestationObject ? writeNew(response) : writeAssertion(response),
  })
  const messages = { SecurityError: wrongSiteText, InvalidStateError: knownText }

  const prompt = async () => {
    button.disabled = true
    status.textContent = promptText
    try {
      const credential = await navigator.credentials[ceremony]({ publicKey: read(JSON.parse(options)) })
      form.elements.credential.value = JSON.stringify(write(credential))
      form.submit()
    } catch (error) {
      button.disabled = false
      // Browsers have no credentials at an address without TLS.
      status.textContent = navigator.credentials ? (messages[error.name] ?? noResponseText) : wrongSiteText
    }
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    prompt()
  })
  prompt()
}
